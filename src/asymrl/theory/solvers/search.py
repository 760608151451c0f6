"""Best-first search for the optimum where there are too many reachable beliefs to enumerate (AO*).

Only beliefs that an optimistic agent would visit are expanded. Each has an upper bound, initially QMDP's, and a lower
bound, initially that of the best blind policy. In every round the greedy plan for the upper bounds is followed to all
beliefs that are not expanded yet; these are expanded, and both bounds are propagated back to the start. When the two
meet, the value is exact: proven by the upper bound, and attained by the greedy policy for the lower one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int
from scipy import sparse

from asymrl.theory.solvers.belief_mdp import BeliefModel, Numbering, Successors
from asymrl.theory.solvers.bounds import Bound, blind, qmdp
from asymrl.theory.solvers.deadline import Deadline
from asymrl.theory.solvers.dynamic_programming import Plan, first_nodes, stacked_edges
from asymrl.worlds.pomdp import Pomdp

LIMIT = 100_000  # pairs of belief and time; about a gigabyte for beliefs over a thousand states
BLOCK = 1_000  # beliefs that are expanded between two looks at the clock
TOLERANCE = 1e-12  # rounding, relative to the largest bound
EMPTY = np.zeros(0, np.int64)


class Level:
    """The beliefs so far with the same number of steps to go."""

    def __init__(self, steps: int, states: int, actions: int):
        self.steps = steps
        self.numbering = Numbering()
        self.beliefs = sparse.csr_array((0, states))
        self.upper = np.zeros(0)
        self.lower = np.zeros(0)
        self.expanded = np.zeros(0, bool)
        self.rewards = np.zeros((0, actions))
        self.belief, self.action, self.observation, self.following = EMPTY, EMPTY, EMPTY, EMPTY
        self.probability = np.zeros(0)

    def __len__(self) -> int:
        return len(self.upper)

    def add(self, beliefs: sparse.csr_array, upper: Bound, lower: Bound, model: BeliefModel) -> Int[np.ndarray, "N"]:
        """The numbers of some beliefs; new ones get their initial bounds."""
        number, fresh = self.numbering.add(beliefs)
        new = beliefs[fresh]
        self.beliefs = sparse.csr_array(sparse.vstack([self.beliefs, new], "csr"))
        self.upper = np.append(self.upper, upper.at(new, self.steps))
        self.lower = np.append(self.lower, lower.at(new, self.steps))
        self.expanded = np.append(self.expanded, np.zeros(fresh.size, bool))
        self.rewards = np.concatenate([self.rewards, model.rewards(new)])
        return number

    def connect(self, belief: Int[np.ndarray, "N"], after: Successors, following: Int[np.ndarray, "E"]) -> None:
        """Stores the successors of beliefs that were just expanded."""
        self.expanded[belief] = True
        self.belief = np.append(self.belief, belief[after.belief])
        self.action = np.append(self.action, after.action)
        self.observation = np.append(self.observation, after.observation)
        self.probability = np.append(self.probability, after.probability)
        self.following = np.append(self.following, following)

    def q(self, values: Float64[np.ndarray, "M"], discount: float) -> Float64[np.ndarray, "N A"]:
        """R(b,a) + g sum_o Pr(o|b,a) V(b') from the values of the level below; valid for expanded beliefs only."""
        N, A = self.rewards.shape
        ahead = np.bincount(self.belief * A + self.action, self.probability * values[self.following], minlength=N * A)
        return self.rewards + discount * ahead.reshape(N, A)


@dataclass
class BeliefSearch:
    """The beliefs of a search, by steps to go, and the bounds at the start."""

    pomdp: Pomdp
    levels: list[Level]
    first: Successors
    first_belief: Int[np.ndarray, "F"]
    discount: float
    upper: float
    lower: float
    exact: bool

    @property
    def size(self) -> int:
        return sum(map(len, self.levels))


def search(
    pomdp: Pomdp,
    horizon: int,
    discount: float,
    limit: int = LIMIT,
    *,
    deadline: Deadline | None = None,
    trial: Deadline | None = None,
) -> BeliefSearch:
    """Searches until the optimum is proven, there are more than `limit` beliefs, or the time is over.

    When the time of `trial` is over, it goes on only if the bounds are at most half as far apart as at first.
    """
    model, over, under = BeliefModel(pomdp), qmdp(pomdp, horizon, discount), blind(pomdp, horizon, discount)
    levels = [Level(k, pomdp.states, pomdp.actions) for k in range(horizon + 1)]
    first = model.first()
    roots = levels[horizon].add(first.beliefs, over, under, model)
    result = BeliefSearch(pomdp, levels, first, roots, discount, np.inf, -np.inf, exact=False)
    deadline, at_first = deadline or Deadline(), None
    while True:
        top = levels[horizon]
        result.upper = float(first.probability @ top.upper[roots])
        result.lower = float(first.probability @ top.lower[roots])
        at_first = result.upper - result.lower if at_first is None else at_first
        is_slow = trial is not None and trial.is_over and result.upper - result.lower > at_first / 2
        frontier = _frontier(levels, roots, discount)
        gap = TOLERANCE * max(1.0, abs(result.upper), abs(result.lower))
        result.exact = result.upper - result.lower <= gap or not any(beliefs.size for beliefs in frontier)
        deadline.tell(
            lambda: (
                f"searching: optimal return between {result.lower:.5g} and {result.upper:.5g}, {result.size} beliefs"
            )
        )
        if result.exact or result.size > limit or deadline.is_over or is_slow:
            return result
        for level, below, beliefs in zip(levels[1:], levels, frontier[1:], strict=False):
            for start in range(0, beliefs.size, BLOCK):
                if deadline.is_over or result.size > limit:
                    break
                some = beliefs[start : start + BLOCK]
                after = model.successors(level.beliefs[some])
                level.connect(some, after, below.add(after.beliefs, over, under, model))
        _propagate(levels, discount)


def _frontier(levels: list[Level], roots: Int[np.ndarray, "F"], discount: float) -> list[Int[np.ndarray, "_"]]:
    """The unexpanded beliefs that the greedy plan for the upper bounds reaches, by steps to go."""
    frontier, reached = [EMPTY] * len(levels), roots
    for k in range(len(levels) - 1, 0, -1):
        level = levels[k]
        visited = np.zeros(len(level), bool)
        visited[reached] = True
        frontier[k] = np.flatnonzero(visited & ~level.expanded)
        greedy = level.q(levels[k - 1].upper, discount).argmax(1)
        taken = visited[level.belief] & (level.action == greedy[level.belief])
        reached = level.following[taken]
    return frontier


def _propagate(levels: list[Level], discount: float) -> None:
    """Improves both bounds of every expanded belief, from the end backwards."""
    for level, below in zip(levels[1:], levels, strict=False):
        if level.expanded.any():
            on = level.expanded
            level.upper[on] = np.minimum(level.upper, level.q(below.upper, discount).max(1))[on]
            level.lower[on] = np.maximum(level.lower, level.q(below.lower, discount).max(1))[on]


def searched_plan(result: BeliefSearch, blind: Float64[np.ndarray, "K A S"]) -> Plan:
    """The greedy plan for the lower bounds; at unexpanded beliefs the best blind action."""
    offset = np.cumsum([0, *map(len, result.levels)])
    actions, edges = [], []
    for k, level in enumerate(result.levels):
        greedy = (level.beliefs @ blind[k].T).argmax(1)
        if level.expanded.any():
            below = result.levels[k - 1]
            greedy = np.where(level.expanded, level.q(below.lower, result.discount).argmax(1), greedy)
            z, following = level.belief + offset[k], level.following + offset[k - 1]
            edges.append(np.stack([z, level.action, level.observation, following], 1))
        actions.append(greedy)
    first = first_nodes(result.pomdp, result.first.observation, result.first_belief + offset[-2])
    return Plan(np.concatenate(actions), first, stacked_edges(edges), result.pomdp.actions)


def without_time(plan: Plan, result: BeliefSearch) -> Plan:
    """The plan with nodes of equal beliefs merged into the expanded one with the most steps to go."""
    expanded = np.concatenate([level.expanded for level in result.levels])
    beliefs = sparse.csr_array(sparse.vstack([level.beliefs for level in result.levels], "csr"))
    order = np.concatenate([np.flatnonzero(expanded)[::-1], np.flatnonzero(~expanded)])
    number, representatives = Numbering().add(beliefs[order])
    merged = np.empty_like(number)
    merged[order] = number
    leaving = np.isin(plan.edges[:, 0], order[representatives])
    edges = plan.edges[leaving]
    edges[:, 0], edges[:, 3] = merged[edges[:, 0]], merged[edges[:, 3]]
    return Plan(plan.action[order[representatives]], merged[plan.first], edges, plan.actions)
