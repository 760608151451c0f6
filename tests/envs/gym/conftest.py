"""The Gymnasium side is imported with its shapes checked, like the worlds."""

from __future__ import annotations

from jaxtyping import install_import_hook

# Functions of this module are sent to other processes, and functions with checks cannot be.
import asymrl.envs.gymnasium_spaces

with install_import_hook("asymrl.envs", "beartype.beartype"):
    import asymrl.envs.gymnasium_out  # noqa: F401
