"""The worlds as Gymnasium environments: `Environment` runs one at a time, `VectorEnvironment` many in one call.

Importing this package is cheap, since `import asymrl` does it to register the worlds; JAX comes with the classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.adapters.gym.single import Environment as Environment
    from asymrl.adapters.gym.vector import VectorEnvironment as VectorEnvironment

__getattr__, __dir__ = exports(
    __name__,
    {"asymrl.adapters.gym.single": ["Environment"], "asymrl.adapters.gym.vector": ["VectorEnvironment"]},
)
