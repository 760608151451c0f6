"""`q_fixed_point`: what each method of the DQN family would learn in a finite world, with tables and endless replay.

`dqn` learns Q(h, a) alone. The asymmetric ones also learn a privileged Q(h, s, a) or Q(s, a), and Q(h, a) from it. All
act, and choose the next action a* of their targets, by Q(h, a).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int

from asymrl.theory.exact.analysis import as_pomdp
from asymrl.theory.exact.graph_builder import unroll
from asymrl.theory.exact.histories import NODES, History, describe
from asymrl.theory.exact.history_graph import HistoryGraph
from asymrl.theory.exact.policies import PolicyLike, as_policy
from asymrl.theory.exact.q_regression import (
    EPISODES,
    STEPS,
    Regression,
    greedy_actions,
    history_fixed_point,
    iterate_state_values,
)
from asymrl.worlds.pomdp import Pomdp

EXACT = 1e-9  # relative: errors below it are rounding
RAREST = 1e-290  # probability; ratios of smaller ones lose their digits
REPLAYS = 10  # replays of epsilon-greedy behaviour, each filled by the policy learned from the previous one


class QMethod(NamedTuple):
    """What a method of the family learns, and from which targets."""

    reads: str
    """What the privileged network reads besides the action: "hs", "s", or "" if there is none."""
    short: bool = False
    """The privileged network bootstraps from max_a Q(h', a)."""
    reduced: bool = False
    """Q(h, a) is regressed to the privileged network for all actions, not to its bootstrapped target."""


Q_METHODS = {
    "dqn": QMethod(""),
    "adqn": QMethod("hs"),
    "adqn-vr": QMethod("hs", reduced=True),
    "adqn-state": QMethod("s"),
    "adqn-state-vr": QMethod("s", reduced=True),
    "adqn-short": QMethod("hs", short=True),
    "adqn-short-vr": QMethod("hs", short=True, reduced=True),
}


@dataclass(frozen=True, eq=False)
class QFixedPoint:
    """The tables that a method ends with, and the optimal ones."""

    method: str
    weighting: str
    graph: HistoryGraph
    """Nodes are histories, or classes of histories with the same belief and time; `pi` is the behaviour policy."""
    Q_h: Float64[np.ndarray, "nodes A"]
    Q_privileged: Float64[np.ndarray, "rows A"] | None
    """Q(h, s, a) for each pair of the graph or Q(s, a) for each state (if `timed`, for each time and state); None
    for dqn."""
    optimal: Float64[np.ndarray, "nodes A"]
    """The optimal Q(h, a)."""
    period: int
    """1: a fixed point. Above 1: the tables repeat after this many target copies or replays. 0: they were still
    changing when the iteration gave up. If not 1, the tables are a snapshot."""
    last: Sequence[Float64[np.ndarray, "nodes A"]]
    """Q(h, a) through the last cycle; one table for a fixed point."""

    @cached_property
    def greedy(self) -> Int[np.ndarray, "nodes"]:
        """The action with the largest Q(h, a) at each node; the first one in a tie."""
        return greedy_actions(self.Q_h)

    @cached_property
    def greedy_return(self) -> float:
        """The expected return of the greedy policy."""
        return self._return_of(self.greedy)

    @cached_property
    def greedy_returns(self) -> tuple[float, float]:
        """The least and the greatest return of the greedy policy through the last cycle."""
        policies = np.unique([greedy_actions(Q_h) for Q_h in self.last], axis=0)
        returns = [self._return_of(greedy) for greedy in policies]
        return min(returns), max(returns)

    def _return_of(self, greedy: Int[np.ndarray, "nodes"]) -> float:
        graph = with_policy(self.graph, np.eye(self.graph.pomdp.actions)[greedy])
        return float(graph.start @ graph.backward(graph.reward, graph.pomdp.discount))

    @cached_property
    def optimal_return(self) -> float:
        """The largest expected return of all policies."""
        return float(self.graph.start @ self.optimal.max(axis=1)[self.graph.node])

    @property
    def greedy_is_optimal(self) -> bool:
        """Whether the greedy policy has the optimal return."""
        return self.optimal_return - self.greedy_return <= EXACT * max(1.0, abs(self.optimal_return))

    @cached_property
    def error(self) -> Float64[np.ndarray, "nodes A"]:
        """Q(h, a) minus the optimal one."""
        return self.Q_h - self.optimal

    @property
    def max_error(self) -> float:
        return float(np.abs(self.error).max())

    @property
    def mean_error(self) -> float:
        """The mean of |error| over all actions at the steps of the behaviour policy."""
        visits = self.graph.probability_of_node
        return float(visits @ np.abs(self.error).mean(axis=1) / visits.sum())

    @property
    def is_optimal(self) -> bool:
        """Whether Q(h, a) is the optimal one, up to rounding."""
        return self.period == 1 and self.max_error <= EXACT * max(1.0, float(np.abs(self.optimal).max()))

    def worst(self, depth: int | None = None) -> tuple[str, str, float]:
        """The history, in words, and the action where Q(h, a) is most wrong, and its error there.

        `depth`: among histories with at most this many actions.
        """
        pomdp = self.graph.pomdp
        listed = self.graph.nodes if depth is None else int(np.searchsorted(self.graph.time, depth, "right"))
        node, a = divmod(int(np.argmax(np.abs(self.error[:listed]))), pomdp.actions)
        return describe(pomdp, self.graph.history(node)), pomdp.action_names[a], float(self.error[node, a])

    def node_of(self, h: History) -> int:
        """The node of a history. Raises ValueError if it is impossible, or not shorter than the horizon."""
        pomdp = self.graph.pomdp
        if (node := self.graph.find(h)) is None:
            raise ValueError(
                f"{pomdp.name}: {describe(pomdp, h)} is impossible, or has {self.graph.horizon} actions or more"
            )
        return node

    def Q(self, h: History, a: int) -> float:
        """The value of an action after a history."""
        return float(self.Q_h[self.node_of(h), a])


def q_fixed_point(
    world: Any,
    method: str = "adqn",
    *,
    behaviour: PolicyLike = "uniform",
    epsilon: float | None = None,
    timed: bool = False,
    weighting: str = STEPS,
    horizon: float | None = None,
    discount: float | None = None,
    limit: int = NODES,
) -> QFixedPoint:
    """What a method of the DQN family ends with, if it has tables and an endless replay of one policy's episodes.

    The value after the last step is 0, even if the time limit ends the episode, as in the learners. Where a method
    learns Q(s, a), the result depends on the replay, and the iteration may end in a cycle: see `QFixedPoint.period`.

    Args:
        world: a finite world, its name, or a `Pomdp`.
        method: one of `Q_METHODS`.
        behaviour: the policy that fills the replay, as for `asymrl.theory.analyse`. It must take every action.
        epsilon: if given, the replay is filled by the epsilon-greedy policy of the result itself.
        timed: Q(s, a) also reads the time, as with `--critic-sees state+time`; the others know it from the history.
        weighting: how the steps of the replay count: "steps", all the same, or "episodes", where the loss is the mean
            over each episode's steps, as in the authors' program, so that a step of a short episode counts more.
        horizon: the largest number of actions; by default the world's time limit.
        discount: by default the world's.
        limit: the largest number of nodes.

    Raises:
        ValueError: if an argument is invalid, or the behaviour never takes some action.
        TooLargeError: if there are more nodes than the limit. A subclass of ValueError.
    """
    if method not in Q_METHODS:
        raise ValueError(f"unknown method {method!r}; choose one of {', '.join(Q_METHODS)}")
    if weighting not in (STEPS, EPISODES):
        raise ValueError(f"weighting={weighting!r}: choose {STEPS!r} or {EPISODES!r}")
    if epsilon is not None and not 0 < epsilon <= 1:
        raise ValueError(f"epsilon is {epsilon!r}, expected a probability above 0")
    pomdp = as_pomdp(world)
    if discount is not None:
        pomdp = dataclasses.replace(pomdp, discount=float(discount))
    graph = unroll(pomdp, as_policy(pomdp, behaviour), _steps(pomdp, horizon), limit=limit)
    if (untaken := np.argwhere(graph.pi <= 0)).size:
        node, a = untaken[0]
        raise ValueError(
            f"{pomdp.name}: the replay never has action {pomdp.action_names[a]!r} after "
            f"{describe(pomdp, graph.history(int(node)))}, so that its value is not learned; "
            "choose a behaviour that takes every action, such as 'uniform' or EpsilonSoft(policy, 0.1)"
        )
    optimal = history_fixed_point(Regression(graph), privileged=False, short=False, reduced=False)[0]

    def learn(graph: HistoryGraph, previous: QFixedPoint | None = None) -> QFixedPoint:
        if graph.mass.min() < RAREST:
            raise ValueError(
                f"{pomdp.name}: some histories of this replay are too rare to compute with; choose a shorter horizon "
                "or a behaviour with more random actions"
            )
        regression, (reads, short, reduced) = Regression(graph, weighting), Q_METHODS[method]
        if reads == "s":
            start = None
            if previous is not None and previous.Q_privileged is not None:
                start = previous.Q_h, previous.Q_privileged
            Q_h, Q_s, period, last = iterate_state_values(regression, reduced=reduced, timed=timed, start=start)
        else:
            Q_h, Q_s = history_fixed_point(regression, privileged=reads == "hs", short=short, reduced=reduced)
            period, last = 1, [Q_h]
        return QFixedPoint(method, weighting, graph, Q_h, Q_s, optimal, period, last)

    return learn(graph) if epsilon is None else _own_replay(graph, learn, epsilon)


def _own_replay(graph: HistoryGraph, learn: Callable[..., QFixedPoint], epsilon: float) -> QFixedPoint:
    """The fixed point whose replay is filled by its own epsilon-greedy policy, if replays settle on one."""
    A, results = graph.pomdp.actions, [learn(graph)]
    while len(results) <= REPLAYS:
        greedy = results[-1].greedy
        results.append(learn(with_policy(graph, (1 - epsilon) * np.eye(A)[greedy] + epsilon / A), results[-1]))
        for rounds in range(1, len(results)):
            if np.array_equal(results[-1].greedy, results[-1 - rounds].greedy):
                return results[-1] if rounds == 1 else _joined(results[-rounds:], rounds)
    return _joined(results[-(REPLAYS // 2) :], 0)


def _joined(results: Sequence[QFixedPoint], period: int) -> QFixedPoint:
    """The last result, with the tables of all of them."""
    return dataclasses.replace(results[-1], period=period, last=[Q_h for each in results for Q_h in each.last])


def with_policy(graph: HistoryGraph, pi: Float64[np.ndarray, "nodes A"]) -> HistoryGraph:
    """The graph of another policy, which may only take actions that the first one takes."""
    return dataclasses.replace(graph, pi=pi)


def _steps(pomdp: Pomdp, horizon: float | None) -> int:
    """The horizon as a number of actions."""
    steps = pomdp.time_limit if horizon is None else horizon
    if steps is None or math.isinf(steps):
        raise ValueError(f"{pomdp.name}: Q(h, a) of all histories needs a time limit; give a horizon, such as 20")
    if not steps >= 1 or steps != int(steps):
        raise ValueError(f"{pomdp.name}: horizon is {horizon!r}, expected a whole number of at least 1")
    return int(steps)


class StateAliasing(NamedTuple):
    """How much the optimal Q(h, s, a) of one state and action depends on the history: what Q(s, a) cannot express."""

    spread: float
    """The largest difference between two histories that can end in the same state."""
    spread_at_a_time: float
    """The same between histories of equal length: what a table that knows the time cannot express either."""


def state_aliasing(point: QFixedPoint) -> StateAliasing:
    """Whether a table Q(s, a) could be right, from the optimal Q(h, s, a) of the histories of a fixed point."""
    graph = point.graph
    Q_hs = history_fixed_point(Regression(graph), privileged=True, short=False, reduced=False)[1]
    assert Q_hs is not None

    def spread(group: np.ndarray) -> float:
        low = np.full((group.max() + 1, Q_hs.shape[1]), np.inf)
        high = -low
        np.minimum.at(low, group, Q_hs)
        np.maximum.at(high, group, Q_hs)
        return float(np.max(high - low, where=high >= low, initial=0.0))

    time = graph.time[graph.node].astype(np.int64)
    return StateAliasing(spread(graph.state), spread(time * graph.pomdp.states + graph.state))
