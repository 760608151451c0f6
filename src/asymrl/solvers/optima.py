"""The best that any agent can get in a finite POMDP, exactly where that is possible and between bounds elsewhere."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int
from scipy import sparse
from scipy.sparse import linalg

from asymrl.solvers.beliefgraph import BeliefGraph, TooManyBeliefsError, belief_graph
from asymrl.solvers.bounds import blind, check_horizon
from asymrl.solvers.memoryless import best_memoryless, uniform_return
from asymrl.solvers.plans import TIE, backward_induction, searched_plan, stationary_plan, timed_plan, without_time
from asymrl.solvers.pointbased import point_based
from asymrl.solvers.search import LIMIT as SEARCH_LIMIT
from asymrl.solvers.search import search
from asymrl.solvers.uninformed import best_open_loop
from asymrl.theory.policies import BeliefPolicy, Policy
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.pomdp import Pomdp
from asymrl.worlds.reference_scores import ReferenceScores, Score
from asymrl.worlds.world import DEFAULT_TIME_LIMIT

GRAPH_LIMIT = 5_000  # beliefs: beyond these, searching is quicker than visiting them all


@dataclass(frozen=True)
class Solution:
    """The optimal return at the start, and a plan that gets it."""

    low: float
    high: float
    kind: str
    """"exact", or "bounds": `low` is what the plan gets and `high` what no plan can exceed."""
    how: str
    beliefs: int
    """How many beliefs were looked at (with the time they were met at, if it was a search)."""
    make_policy: Callable[[bool], Policy] = field(repr=False)

    @property
    def value(self) -> float:
        """The return of the plan: the optimum if `kind` is "exact"."""
        return self.low

    def policy(self, timed: bool = True) -> Policy:
        """The plan: a finite-state controller over beliefs and the time that is left, or a function of the belief.

        Without `timed` an exact plan does in each belief what is best at the earliest time at which the belief can be
        met: a small controller that is as good where there is time enough. Endless plans have no time anyway.
        """
        return self.make_policy(timed)


def solve(
    pomdp: Pomdp,
    horizon: float | None = None,
    discount: float | None = None,
    *,
    limit: int = SEARCH_LIMIT,
    seconds: float = 30.0,
) -> Solution:
    """The optimal return and policy of a finite POMDP.

    All reachable beliefs are enumerated where they are few. Otherwise a best-first search looks for a proof with the
    beliefs that matter. If they are still too many, or there is no horizon, the result is a pair of bounds, tightened
    by point-based value iteration.

    Args:
        pomdp: the problem.
        horizon: how many actions there are at most. None: the problem's time limit; `math.inf`: no end.
        discount: None: the problem's own.
        limit: how many beliefs a search may look at.
        seconds: after how long a search, and then again the point-based iteration, gives up and reports its bounds.
    """
    discount = pomdp.discount if discount is None else discount
    horizon = pomdp.time_limit if horizon is None else horizon
    steps = None if horizon is None or math.isinf(horizon) else int(horizon)
    check_horizon(pomdp, steps, discount)
    try:
        graph = belief_graph(pomdp, steps, min(limit, GRAPH_LIMIT))
    except TooManyBeliefsError:
        if steps is None:
            return _point_based(pomdp, None, discount, seconds)
        found = _searched(pomdp, steps, discount, limit, seconds)
        return found if found.kind == "exact" else _tighter(found, _point_based(pomdp, steps, discount, seconds))
    return _endless(graph, discount) if steps is None else _enumerated(graph, steps, discount)


def _enumerated(graph: BeliefGraph, horizon: int, discount: float) -> Solution:
    table = backward_induction(graph, horizon, discount)
    value = float(graph.first_probability @ table.values[horizon][graph.first_belief])
    how = f"backward induction over all {len(graph)} reachable beliefs"

    def make_policy(timed: bool) -> Policy:
        if timed:
            return timed_plan(graph, table).controller()
        return stationary_plan(graph, table.actions[horizon - graph.depth, np.arange(len(graph))]).controller()

    return Solution(value, value, "exact", how, len(graph), make_policy)


def _searched(pomdp: Pomdp, horizon: int, discount: float, limit: int, seconds: float) -> Solution:
    found = search(pomdp, horizon, discount, limit, seconds)

    def make_policy(timed: bool) -> Policy:
        plan = searched_plan(found, blind(pomdp, horizon, discount).vectors)
        return (plan if timed else without_time(plan, found)).controller()

    if found.exact:
        how = f"search over {found.size} beliefs: QMDP's bound met the value of the plan"
        return Solution(found.lower, found.lower, "exact", how, found.size, make_policy)
    how = f"search over {found.size} beliefs, stopped at its limit: QMDP above, a plan below"
    return Solution(found.lower, found.upper, "bounds", how, found.size, make_policy)


def _tighter(one: Solution, other: Solution) -> Solution:
    """The better of each bound, and the plan with the better lower one."""
    better = one if one.low >= other.low else other
    high, how = min(one.high, other.high), f"{one.how}; {other.how}"
    return dataclasses.replace(better, high=high, how=how, beliefs=one.beliefs + other.beliefs)


def _endless(graph: BeliefGraph, discount: float) -> Solution:
    action, values = _policy_iteration(graph, discount)
    value = float(graph.first_probability @ values[graph.first_belief])
    how = f"policy iteration over all {len(graph)} reachable beliefs"
    return Solution(value, value, "exact", how, len(graph), lambda timed: stationary_plan(graph, action).controller())


def _policy_iteration(graph: BeliefGraph, discount: float) -> tuple[Int[np.ndarray, "N"], Float64[np.ndarray, "N"]]:
    """The best action of each belief and its value, with no end. Howard's iteration: exact, and never many rounds."""
    N, A = graph.rewards.shape
    row, action = np.arange(N), graph.rewards.argmax(1)
    while True:
        chain = sparse.identity(N, format="csc") - discount * graph.transition[row * A + action].tocsc()
        values = np.asarray(linalg.spsolve(chain, graph.rewards[row, action]))
        Q = graph.rewards + discount * (graph.transition @ values).reshape(N, A)
        # Rounding must not make the iteration turn in circles between equally good actions.
        better = Q.max(1) > Q[row, action] + 1e3 * TIE * np.maximum(1, np.abs(values))
        if not better.any():
            return action, values
        action = np.where(better, Q.argmax(1), action)


def _point_based(pomdp: Pomdp, horizon: int | None, discount: float, seconds: float) -> Solution:
    found = point_based(pomdp, horizon, discount, seconds=seconds)
    how = f"{found.trials} trials of heuristic search value iteration, FIB above and blind policies below at first"
    beliefs = sum(upper.drops.size for upper in found.upper)

    def make_policy(timed: bool) -> Policy:
        return BeliefPolicy(pomdp, found.action, timed=horizon is not None)

    return Solution(found.low, found.high, "bounds", how, beliefs, make_policy)


def reference_returns(world: FiniteWorld, *, starts: int = 4) -> ReferenceScores:
    """What a random, the best, an uninformed and a memoryless policy get, computed here and now.

    For the worlds with a name `asymrl.worlds.scores` holds these numbers; this is for all others. Returns are for at
    most as many actions as the world's time limit, or 100 where it has none.

    Args:
        world: any finite world.
        starts: how often the search for a memoryless policy begins.
    """
    pomdp, horizon = world.pomdp(), world.time_limit or DEFAULT_TIME_LIMIT

    def returns(discount: float) -> dict[str, Score]:
        best = solve(pomdp, horizon, discount)
        random = uniform_return(pomdp, horizon, discount)
        uninformed = best_open_loop(pomdp, horizon, discount)
        memoryless = best_memoryless(pomdp, horizon, discount, starts=starts).value
        return {
            "random": Score(random, random, "exact"),
            "best": Score(best.low, best.high, best.kind),
            "uninformed": Score(uninformed.value, uninformed.value, uninformed.kind),
            "memoryless": Score(memoryless, memoryless, "found"),
        }

    return ReferenceScores(undiscounted=returns(1.0), discounted=returns(world.discount))
