"""Other people's environments as worlds, and our worlds as other people's environments.

`Environment` and `VectorEnvironment` are our worlds as Gymnasium environments. `from_gymnasium` and `from_gymnax` make
worlds of environments, `read_pomdp` and `write_pomdp` read and write `.pomdp` files, and `register` gives a world a
name that `asymrl.make` knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.adapters.gym.foreign import from_gymnasium as from_gymnasium
    from asymrl.adapters.gym.single import Environment as Environment
    from asymrl.adapters.gym.vector import VectorEnvironment as VectorEnvironment
    from asymrl.adapters.gymnax_world import from_gymnax as from_gymnax
    from asymrl.adapters.sources import register as register

__getattr__, __dir__ = exports(
    __name__,
    {
        "asymrl.adapters.gym.foreign": ["from_gymnasium"],
        "asymrl.adapters.gym.single": ["Environment"],
        "asymrl.adapters.gym.vector": ["VectorEnvironment"],
        "asymrl.adapters.gymnax_world": ["from_gymnax"],
        "asymrl.adapters.sources": ["register"],
    },
    modules=["gym"],
)
