"""The Gymnasium side is imported with its shapes checked, like the worlds."""

from __future__ import annotations

from jaxtyping import install_import_hook

# Functions of this module are sent to other processes, and functions with checks cannot be.
import asymrl.adapters.gym.gymnasium_spaces

with install_import_hook("asymrl.adapters.gym", "beartype.beartype"):
    import asymrl.adapters.gym.environment
    import asymrl.adapters.gym.vector_environment  # noqa: F401
