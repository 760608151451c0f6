"""Other people's environments as worlds, and our worlds as other people's environments.

`Environment` and `VectorEnvironment` are our worlds as Gymnasium environments. `from_gymnasium` and `from_gymnax` make
worlds of other environments, `read_pomdp` and `write_pomdp` read and write `.pomdp` files, and `register` gives a world
a name that `asymrl.make` knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.envs import pomdp_files as pomdp_files
    from asymrl.envs.gymnasium_out import Environment as Environment, VectorEnvironment as VectorEnvironment
    from asymrl.envs.gymnasium_world import from_gymnasium as from_gymnasium
    from asymrl.envs.gymnax_world import from_gymnax as from_gymnax
    from asymrl.envs.pomdp_files.reader import read_pomdp as read_pomdp
    from asymrl.envs.pomdp_files.tokens import FileError as FileError
    from asymrl.envs.pomdp_files.writer import write_pomdp as write_pomdp
    from asymrl.envs.sources import register as register

__getattr__, __dir__ = exports(__name__)
