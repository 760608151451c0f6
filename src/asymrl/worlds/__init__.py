"""Worlds: partially observable control problems as pure functions.

`make(name)` is the world with a name, `WORLDS` lists the names, `check` tests whether a world keeps its promises,
`check_environment` does so for one that runs in Python, and `scores` gives the returns of a random and of the best
policy. A new world subclasses `World`, or is a `FiniteWorld` given by its tables (`Rows`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.worlds.builtin.car_flag import CarFlag as CarFlag
    from asymrl.worlds.builtin.cart_pole import CartPole as CartPole
    from asymrl.worlds.builtin.cleaner import Cleaner as Cleaner
    from asymrl.worlds.builtin.heaven_hell import HeavenHell as HeavenHell
    from asymrl.worlds.builtin.memory_rooms import MemoryFourRooms as MemoryFourRooms
    from asymrl.worlds.builtin.rock_sample import RockSample as RockSample, SimulatedRockSample as SimulatedRockSample
    from asymrl.worlds.builtin.shopping import Shopping as Shopping
    from asymrl.worlds.builtin.t_maze import TMaze as TMaze
    from asymrl.worlds.builtin.tiger import GoodBad as GoodBad, Tiger as Tiger
    from asymrl.worlds.checking.checker import check as check
    from asymrl.worlds.checking.environment_checker import check_environment as check_environment
    from asymrl.worlds.checking.sampling import CheckError as CheckError
    from asymrl.worlds.critic_inputs import BeliefFilter as BeliefFilter
    from asymrl.worlds.finite import FiniteWorld as FiniteWorld, OutcomeWorld as OutcomeWorld
    from asymrl.worlds.pomdp import Pomdp as Pomdp
    from asymrl.worlds.probability_tables import Rows as Rows
    from asymrl.worlds.reference_scores import ReferenceScores as ReferenceScores, scores as scores
    from asymrl.worlds.registry import WORLDS as WORLDS, make as make
    from asymrl.worlds.spaces import (
        Box as Box,
        Discrete as Discrete,
        Image as Image,
        Indices as Indices,
        MultiDiscrete as MultiDiscrete,
        Place as Place,
        Record as Record,
        Simplex as Simplex,
        Space as Space,
    )
    from asymrl.worlds.stepped_world import SteppedWorld as SteppedWorld, UserCodeError as UserCodeError
    from asymrl.worlds.world import (
        Episode as Episode,
        Signal as Signal,
        Step as Step,
        Transition as Transition,
        World as World,
    )

__getattr__, __dir__ = exports(__name__)
