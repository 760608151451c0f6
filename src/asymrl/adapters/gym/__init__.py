"""The worlds as Gymnasium environments: `Environment` runs one episode at a time, `VectorEnvironment` many.

Importing this package is cheap, since `import asymrl` does it to register the worlds; JAX comes with the classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.adapters.gym.environment import Environment as Environment
    from asymrl.adapters.gym.vector_environment import VectorEnvironment as VectorEnvironment

__getattr__, __dir__ = exports(
    __name__,
    {
        "asymrl.adapters.gym.environment": ["Environment"],
        "asymrl.adapters.gym.vector_environment": ["VectorEnvironment"],
    },
)
