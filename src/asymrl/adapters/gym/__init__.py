"""The worlds as Gymnasium environments: `Environment` runs one at a time, `VectorEnvironment` many in one call.

Importing this package is cheap, since `import asymrl` does it to register the worlds; JAX comes with the classes.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asymrl.adapters.gym.single import Environment as Environment
    from asymrl.adapters.gym.vector import VectorEnvironment as VectorEnvironment

__all__ = ["Environment", "VectorEnvironment"]

_HOME = {"Environment": "asymrl.adapters.gym.single", "VectorEnvironment": "asymrl.adapters.gym.vector"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'asymrl.adapters.gym' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
