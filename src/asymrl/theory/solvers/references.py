"""Reference returns: optimal, uninformed, memoryless and random policies."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from asymrl.theory.solvers.deadline import Deadline
from asymrl.theory.solvers.memoryless import best_memoryless, uniform_return
from asymrl.theory.solvers.optima import SECONDS as SOLVING, Solution, solve
from asymrl.theory.solvers.rock_tours import MOST_ROCKS_OF_TOURS, rock_returns
from asymrl.theory.solvers.uninformed import best_open_loop
from asymrl.worlds.builtin.rock_sample import RockSample, SimulatedRockSample
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.pomdp import Pomdp
from asymrl.worlds.reference_scores import ReferenceScores, Score, scores
from asymrl.worlds.registry import make, usual_time_limit
from asymrl.worlds.world import DEFAULT_TIME_LIMIT

STATES = 500  # with more, the best memoryless or uninformed policy takes too long
CHEAP, SECONDS = 2_000, 4.0  # states of a world that is solved on demand, and time limit of the search


@dataclass(frozen=True)
class Reference(Score):
    """A return in the words of the report: exact, the best one found, or between bounds."""

    def __str__(self) -> str:
        if self.low != self.high:
            return f"between {self.low:.4g} and {self.high:.4g}"
        return f"{self.low:.4g}" + (" (best found)" if self.kind == "found" else "")


def references_for(
    pomdp: Pomdp, horizon: float, best: Solution, deadline: Deadline | None = None
) -> dict[str, Reference]:
    """The reference returns that can be computed for this world and horizon, by name of the policy.

    After the `deadline`, only the exact return of a random policy is added to the optimal one, and the search for a
    memoryless policy has fewer starts.
    """
    deadline = deadline or Deadline()
    references = {"optimal": Reference(best.low, best.high, best.kind)}
    if math.isinf(horizon):
        return references
    steps = int(horizon)
    chance = uniform_return(pomdp, steps, pomdp.discount)
    if not deadline.is_over:
        blind = best_open_loop(pomdp, steps, pomdp.discount)
        references["uninformed"] = Reference(blind.value, blind.value, blind.kind)
    if pomdp.states <= STATES and not deadline.is_over:
        memoryless = best_memoryless(pomdp, steps, pomdp.discount, deadline=deadline).value
        references["memoryless"] = Reference(memoryless, memoryless, "found")
    return references | {"random": Reference(chance, chance, "exact")}


@functools.cache
def known_returns(name: str) -> ReferenceScores | None:
    """The reference returns of a world by its name: recorded or, for other finite worlds, computed if that is cheap.

    This computes the returns of a random, of the best and, in small worlds, of the best uninformed policy, up to the
    world's usual time limit. None: too large, or not finite. RockSample has bounds in any size with at most 12 rocks.
    """
    if (recorded := scores(name)) is not None:
        return recorded
    try:
        world = make(name, trust=False)
    except ValueError:
        return None
    horizon = usual_time_limit(name)
    if isinstance(world, RockSample | SimulatedRockSample):
        terrain = world.terrain
        if len(terrain.rocks) > MOST_ROCKS_OF_TOURS:
            return None
        by_discount = (rock_returns(terrain, horizon, discount) for discount in (1.0, world.discount))
        return ReferenceScores(*by_discount)
    if not isinstance(world, FiniteWorld) or (pomdp := world.pomdp()).states > CHEAP:
        return None

    is_small = pomdp.states <= STATES
    by_discount = (_computed(pomdp, horizon, g, uninformed=is_small, seconds=SECONDS) for g in (1.0, pomdp.discount))
    return ReferenceScores(*by_discount)


def reference_returns(world: FiniteWorld, *, starts: int = 4) -> ReferenceScores:
    """Computes the returns of a random, the best, an uninformed and a memoryless policy.

    `asymrl.worlds.scores` has recorded numbers for the built-in worlds; this is for all others. Episodes end at the
    world's time limit, or after 100 actions if it has none.

    Args:
        world: any finite world.
        starts: the number of random starts of the search for a memoryless policy.
    """
    pomdp, horizon = world.pomdp(), world.time_limit or DEFAULT_TIME_LIMIT

    by_discount = (_computed(pomdp, horizon, discount, starts=starts) for discount in (1.0, world.discount))
    return ReferenceScores(*by_discount)


def _computed(
    pomdp: Pomdp,
    horizon: int,
    discount: float,
    *,
    uninformed: bool = True,
    starts: int = 0,
    seconds: float = SOLVING,
) -> dict[str, Score]:
    """Returns by name of the policy; with `starts` also that of the best memoryless one."""
    chance = uniform_return(pomdp, horizon, discount)
    best = solve(pomdp, horizon, discount, seconds=seconds)
    returns = {"random": Score(chance, chance, "exact"), "best": Score(best.low, best.high, best.kind)}
    if uninformed:
        blind = best_open_loop(pomdp, horizon, discount)
        returns["uninformed"] = Score(blind.value, blind.value, blind.kind)
    if starts:
        memoryless = best_memoryless(pomdp, horizon, discount, starts=starts).value
        returns["memoryless"] = Score(memoryless, memoryless, "found")
    return returns
