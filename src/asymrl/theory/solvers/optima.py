"""The optimal return and policy of a finite POMDP: exact where possible, otherwise between bounds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from asymrl.theory.exact.policies import BeliefPolicy, HistoryPolicy
from asymrl.theory.solvers.belief_mdp import BeliefGraph, TooManyBeliefsError, belief_graph
from asymrl.theory.solvers.bounds import blind, check_horizon
from asymrl.theory.solvers.deadline import Deadline
from asymrl.theory.solvers.dynamic_programming import backward_induction, policy_iteration, stationary_plan, timed_plan
from asymrl.theory.solvers.hsvi import PointBased, point_based, truncated
from asymrl.theory.solvers.search import LIMIT as SEARCH_LIMIT, search, searched_plan, without_time
from asymrl.worlds.pomdp import Pomdp

GRAPH_LIMIT = 5_000  # beliefs, beyond which searching is quicker than enumerating
SECONDS = 60.0
TAIL = 0.01  # the share of the value after the horizon, below which bounds for endless episodes are used


@dataclass(frozen=True)
class Solution:
    """The optimal return at the start, and a plan that attains it."""

    low: float
    high: float
    kind: str
    """"exact", or "bounds": the plan returns at least `low`, and no plan more than `high`."""
    how: str
    beliefs: int
    """The number of beliefs that were expanded (of pairs of belief and time, for a search)."""
    make_policy: Callable[[bool], HistoryPolicy] = field(repr=False)

    @property
    def value(self) -> float:
        """The return of the plan: the optimum if `kind` is "exact"."""
        return self.low

    def policy(self, timed: bool = True) -> HistoryPolicy:
        """The plan: a finite-state controller over beliefs and remaining time, or a function of the belief.

        Without `timed`, an exact plan takes in each belief the best action for the earliest time at which the belief
        can be reached: a small controller that is as good if there is enough time. Plans without a horizon do not
        depend on time anyway.
        """
        return self.make_policy(timed)


def solve(
    pomdp: Pomdp,
    horizon: float | None = None,
    discount: float | None = None,
    *,
    limit: int = SEARCH_LIMIT,
    seconds: float = SECONDS,
    deadline: Deadline | None = None,
) -> Solution:
    """The optimal return and policy of a finite POMDP.

    If there are few reachable beliefs, all are enumerated. Otherwise a best-first search proves the optimum with the
    beliefs that matter. If there are still too many, or there is no horizon, the result is a pair of bounds, tightened
    by point-based value iteration.

    Args:
        pomdp: the world.
        horizon: the largest number of actions. None: the world's time limit; `math.inf`: no limit.
        discount: None: the world's own.
        limit: the largest number of beliefs of a search.
        seconds: the time limit, after which the result is the bounds so far. A search takes at most half of it, and
            a tenth where it makes little progress.
        deadline: replaces `seconds`.
    """
    deadline = deadline or Deadline(seconds)
    discount = pomdp.discount if discount is None else discount
    horizon = pomdp.time_limit if horizon is None else horizon
    steps = None if horizon is None or math.isinf(horizon) else int(horizon)
    check_horizon(pomdp, steps, discount)
    try:
        graph = belief_graph(pomdp, steps, min(limit, GRAPH_LIMIT), deadline)
    except TooManyBeliefsError:
        if steps is None:
            return _point_based(pomdp, None, discount, deadline)
        short_tail = _has_short_tail(steps, discount)
        solution = _searched(pomdp, steps, discount, limit, deadline.part(0.5), deadline.part(0.1))
        if solution.kind == "exact":
            return solution
        by_points = _point_based_endless if short_tail else _point_based
        return _tighter(solution, by_points(pomdp, steps, discount, deadline))
    return _endless(graph, discount) if steps is None else _enumerated(graph, steps, discount)


def _enumerated(graph: BeliefGraph, horizon: int, discount: float) -> Solution:
    table = backward_induction(graph, horizon, discount)
    value = float(graph.first_probability @ table.values[horizon][graph.first_belief])
    how = f"backward induction over all {len(graph)} reachable beliefs"

    def make_policy(timed: bool) -> HistoryPolicy:
        if timed:
            return timed_plan(graph, table).controller()
        return stationary_plan(graph, table.actions[horizon - graph.depth, np.arange(len(graph))]).controller()

    return Solution(value, value, "exact", how, len(graph), make_policy)


def _searched(pomdp: Pomdp, horizon: int, discount: float, limit: int, deadline: Deadline, trial: Deadline) -> Solution:
    result = search(pomdp, horizon, discount, limit, deadline=deadline, trial=trial)

    def make_policy(timed: bool) -> HistoryPolicy:
        plan = searched_plan(result, blind(pomdp, horizon, discount).vectors)
        return (plan if timed else without_time(plan, result)).controller()

    if result.exact:
        how = f"search over {result.size} beliefs: QMDP's bound met the value of the plan"
        return Solution(result.lower, result.lower, "exact", how, result.size, make_policy)
    how = f"search over {result.size} beliefs, stopped at its limit (upper bound QMDP, lower bound a plan)"
    return Solution(result.lower, result.upper, "bounds", how, result.size, make_policy)


def _tighter(one: Solution, other: Solution) -> Solution:
    """The better of each bound, and the plan with the better lower one."""
    better = one if one.low >= other.low else other
    high, how = min(one.high, other.high), f"{one.how}, and by {other.how}"
    return dataclasses.replace(better, high=high, how=how, beliefs=one.beliefs + other.beliefs)


def _endless(graph: BeliefGraph, discount: float) -> Solution:
    action, values = policy_iteration(graph, discount)
    value = float(graph.first_probability @ values[graph.first_belief])
    how = f"policy iteration over all {len(graph)} reachable beliefs"
    return Solution(value, value, "exact", how, len(graph), lambda timed: stationary_plan(graph, action).controller())


def _point_based(pomdp: Pomdp, horizon: int | None, discount: float, deadline: Deadline) -> Solution:
    return _bounded(pomdp, horizon, point_based(pomdp, horizon, discount, deadline=deadline))


def _bounded(pomdp: Pomdp, horizon: int | None, result: PointBased) -> Solution:
    how = f"{result.trials} trials of heuristic search value iteration, from FIB (upper) and blind policies (lower)"

    def make_policy(timed: bool) -> HistoryPolicy:
        return BeliefPolicy(pomdp, result.action, timed=horizon is not None)

    return Solution(result.low, result.high, "bounds", how, result.visited, make_policy)


def _has_short_tail(horizon: int, discount: float) -> bool:
    """Whether rewards after the horizon hardly count, so that endless episodes are nearly the same."""
    return discount < 1 and discount**horizon <= TAIL


def _point_based_endless(pomdp: Pomdp, horizon: int, discount: float, deadline: Deadline) -> Solution:
    """Bounds without a horizon, corrected for the end of the episodes."""
    result = point_based(pomdp, None, discount, deadline=deadline.part(0.85))
    cut = truncated(result, horizon, deadline)
    endless = _bounded(pomdp, None, result)

    def make_policy(timed: bool) -> HistoryPolicy:
        if timed and cut.make_controller is not None:
            return cut.make_controller()
        return endless.make_policy(timed)

    how = f"{endless.how}, for endless episodes"
    return dataclasses.replace(endless, low=cut.low, high=cut.high, how=how, make_policy=make_policy)
