"""Other people's environments as worlds, and our worlds as other people's environments.

`Environment` and `VectorEnvironment` are our worlds as Gymnasium environments. `from_gymnasium` and `from_gymnax` make
worlds of other environments, `read_pomdp` and `write_pomdp` read and write `.pomdp` files, and `register` gives a world
a name that `asymrl.make` knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.adapters import gym as gym, pomdp_files as pomdp_files
    from asymrl.adapters.gym.environment import Environment as Environment
    from asymrl.adapters.gym.gymnasium_world import from_gymnasium as from_gymnasium
    from asymrl.adapters.gym.vector_environment import VectorEnvironment as VectorEnvironment
    from asymrl.adapters.gymnax_world import from_gymnax as from_gymnax
    from asymrl.adapters.pomdp_files.reader import read_pomdp as read_pomdp
    from asymrl.adapters.pomdp_files.tokens import FileError as FileError
    from asymrl.adapters.pomdp_files.writer import write_pomdp as write_pomdp
    from asymrl.adapters.sources import register as register

__getattr__, __dir__ = exports(
    __name__,
    {
        "asymrl.adapters.gym.environment": ["Environment"],
        "asymrl.adapters.gym.gymnasium_world": ["from_gymnasium"],
        "asymrl.adapters.gym.vector_environment": ["VectorEnvironment"],
        "asymrl.adapters.gymnax_world": ["from_gymnax"],
        "asymrl.adapters.pomdp_files.reader": ["read_pomdp"],
        "asymrl.adapters.pomdp_files.tokens": ["FileError"],
        "asymrl.adapters.pomdp_files.writer": ["write_pomdp"],
        "asymrl.adapters.sources": ["register"],
    },
    modules=["gym", "pomdp_files"],
)
