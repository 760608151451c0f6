"""What a method of the DQN family would learn in a world: its fixed points for several replays, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from asymrl.theory.exact.graph_builder import unroll
from asymrl.theory.exact.histories import NODES, TooLargeError
from asymrl.theory.exact.policies import HistoryPolicy, uniform
from asymrl.theory.exact.q_learning import EXACT, Q_METHODS, QFixedPoint, StateAliasing, q_fixed_point, state_aliasing
from asymrl.theory.exact.q_regression import EPISODES, STEPS
from asymrl.theory.solvers.optima import solve
from asymrl.theory.solvers.policy_names import BEGINNING, FEWEST, policy_by_name
from asymrl.worlds.pomdp import Pomdp

QUICK = 30_000  # nodes; more take minutes, so only a horizon that the user gives is followed that far


@dataclass(frozen=True)
class QResult:
    """A fixed point for one replay, in numbers."""

    replay: str
    """The policy that filled it."""
    weighting: str
    """How its steps count: "steps", all the same, or "episodes", by the mean over each episode's steps."""
    period: int
    """1: a fixed point. Above 1: tables repeat after this many copies or replays. 0: neither."""
    max_error: float
    """Of Q(h, a), over all histories."""
    mean_error: float
    """Of Q(h, a), over the steps of the replay and all actions."""
    greedy_low: float
    greedy_high: float
    """The return of the greedy policy; two different numbers only if there is no fixed point."""
    worst_history: str
    worst_action: str
    worst_error: float
    """Where Q(h, a) is most wrong among the histories that may be listed."""
    is_optimal: bool
    """Whether Q(h, a) is the optimal one, up to rounding."""


@dataclass(frozen=True)
class QVerdict:
    """What a method ends with for each replay and loss."""

    world: str
    method: str
    reads: str
    """What the privileged network reads: "hs", "s", "s, t", or nothing."""
    horizon: int
    discount: float
    nodes: int
    """How many histories with different beliefs or lengths there are."""
    optimal_return: float
    aliasing: StateAliasing
    replay_dependence: float | None
    """How much Q(s, a) differs between replays whose steps count the same, at most; None if it is not learned."""
    results: tuple[QResult, ...]

    @property
    def is_optimal(self) -> bool:
        """Whether Q(h, a) is the optimal one for every replay whose steps count the same."""
        return all(result.is_optimal for result in self.results if result.weighting == STEPS)

    @property
    def explanation(self) -> str:
        """Why the optimal Q(h, a) is the fixed point, or is not."""
        return " ".join([self._why(), *self._by_episode()])

    def _why(self) -> str:
        if self.replay_dependence is not None:
            return self._why_of_states()
        if not self.reads:
            return "Yes, if every step of the replay counts the same: each target is an unbiased sample given (h, a)."
        return (
            "Yes, if every step of the replay counts the same: actions depend on the history alone, so the states "
            "of a history are distributed as its belief, whatever filled the replay."
        )

    def _why_of_states(self) -> str:
        reads, (spread, at_a_time) = self.reads, self.aliasing
        if self.is_optimal:
            return f"Yes. The optimal Q(h, s, a) is the same for all histories, so Q({reads}, a) can be right."
        if at_a_time < EXACT * max(1.0, spread):
            return (
                f"No. The optimal Q(h, s, a) depends on the time that is left, by up to {spread:.3g}, and on nothing "
                "else of the history. A network that reads the time too would be right (--critic-sees state+time)."
            )
        spread, among = (at_a_time, "histories of equal length") if "t" in reads else (spread, "histories")
        return (
            f"No. The optimal Q(h, s, a) of one state and action differs by up to {spread:.3g} between {among}, so "
            f"no Q({reads}, a) is right for all of them. What it learns instead is an average over the replay: "
            f"between the replays above it differs by up to {self.replay_dependence:.3g}."
        )

    def _by_episode(self) -> list[str]:
        wrong = [result for result in self.results if result.weighting == EPISODES and not result.is_optimal]
        if not self.is_optimal or not wrong:
            return []
        worst = max(wrong, key=lambda result: result.max_error)
        return [
            "A loss that is the mean over each episode's steps gives steps of short episodes more weight. Where luck "
            f"decides how long an episode lasts, this biases Q(h, a): here by up to {worst.max_error:.3g}."
        ]

    def to_json(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        fields = asdict(self) | {"aliasing": self.aliasing._asdict()}
        return fields | {"optimal": self.is_optimal, "explanation": self.explanation}


def examine_q(
    pomdp: Pomdp,
    method: str,
    *,
    policy: str = "eps-optimal:0.5",
    epsilon: float = 0.1,
    horizon: float | None = None,
    timed: bool = False,
    depth: int | None = None,
) -> QVerdict:
    """The fixed points of a method for replays of the uniform policy, of a named one and of its own policy.

    Args:
        pomdp: the world.
        method: one of `asymrl.theory.Q_METHODS`.
        policy: the name of the second policy, as in `policy_by_name`.
        epsilon: of the method's own epsilon-greedy policy.
        horizon: the largest number of actions; by default the world's time limit, or fewer if that takes too long.
        timed: whether Q(s, a) also reads the time.
        depth: histories with more actions are not named as the worst one.

    Raises:
        ValueError: if there is no such method or policy, or the policy never takes some action.
        TooLargeError: if the histories of the horizon do not fit. A subclass of ValueError.
    """
    if method not in Q_METHODS:
        raise ValueError(f"unknown method {method!r}; choose one of {', '.join(Q_METHODS)}")
    if horizon is None:
        horizon = _quick_horizon(pomdp)
    points: list[tuple[str, QFixedPoint]] = []

    def add(name: str, behaviour: HistoryPolicy, own: float | None = None) -> None:
        options = {"behaviour": behaviour, "epsilon": own, "horizon": horizon, "timed": timed}
        points.extend((name, q_fixed_point(pomdp, method, weighting=each, **options)) for each in (STEPS, EPISODES))

    add("uniform", uniform(pomdp))  # first, since it fails quickly if the histories are too many
    if policy != "uniform":
        add(policy, policy_by_name(pomdp, policy, solve(pomdp, horizon), horizon))
    add(f"{epsilon:g}-greedy", uniform(pomdp), epsilon)
    point, reads = points[0][1], Q_METHODS[method].reads
    tables = [each.Q_privileged for _, each in points if each.weighting == STEPS]
    return QVerdict(
        world=pomdp.name,
        method=method,
        reads="s, t" if timed and reads == "s" else reads,
        horizon=int(horizon),
        discount=pomdp.discount,
        nodes=point.graph.nodes,
        optimal_return=point.optimal_return,
        aliasing=state_aliasing(point),
        replay_dependence=_largest_difference(tables) if reads == "s" else None,
        results=tuple(_result(each, name, depth) for name, each in points),
    )


def _largest_difference(tables: Sequence[np.ndarray | None]) -> float:
    """The largest difference between two tables in a cell that all of them have."""
    cells = np.stack([table for table in tables if table is not None])
    return float(np.nanmax(cells.max(axis=0) - cells.min(axis=0)))


def _result(point: QFixedPoint, replay: str, depth: int | None) -> QResult:
    return QResult(
        replay,
        point.weighting,
        point.period,
        point.max_error,
        point.mean_error,
        *point.greedy_returns,
        *point.worst(depth),
        point.is_optimal,
    )


def _quick_horizon(pomdp: Pomdp) -> int:
    """The world's time limit, or fewer actions if there are too many histories."""
    horizon = BEGINNING if pomdp.time_limit is None or math.isinf(pomdp.time_limit) else pomdp.time_limit
    try:
        unroll(pomdp, uniform(pomdp), horizon, limit=min(QUICK, NODES))
    except TooLargeError as error:
        return min(BEGINNING, max(FEWEST, 2 * (error.depth or 0) // 3))
    return horizon
