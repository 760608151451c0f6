"""The Gymnasium side is imported with its shapes checked, like the worlds."""

from __future__ import annotations

from jaxtyping import install_import_hook

with install_import_hook("asymrl.adapters.gym", "beartype.beartype"):
    import asymrl.adapters.gym.single
    import asymrl.adapters.gym.vector  # noqa: F401
