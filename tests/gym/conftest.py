"""The Gymnasium side is imported with its shapes checked, like the worlds."""

from __future__ import annotations

from jaxtyping import install_import_hook

with install_import_hook("asymrl.gym", "beartype.beartype"):
    import asymrl.gym.single
    import asymrl.gym.vector  # noqa: F401
