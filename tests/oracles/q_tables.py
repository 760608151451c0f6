"""Regressions of the DQN family with tables kept in dictionaries, on a list of all trajectories. For tiny problems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracles.trajectories import History, Trajectory

METHODS = ("dqn", "adqn", "adqn-vr", "adqn-state", "adqn-state-vr", "adqn-short", "adqn-short-vr")
Table = dict[Any, np.ndarray]


def privileged_row(method: str, timed: bool, path: Trajectory, t: int) -> Any:
    """The row of the privileged table that step t of a trajectory reads."""
    if "state" not in method:
        return path.histories[t], path.states[t]
    return (t, path.states[t]) if timed else path.states[t]


def next_tables(
    paths: Sequence[Trajectory],
    method: str,
    discount: float,
    actions: int,
    Q_h: Table,
    Q_p: Table,
    by_episode: bool,
    timed: bool = False,
) -> tuple[Table, Table]:
    """Both tables after regression to targets from frozen ones. Missing rows count as zeros."""
    zeros = np.zeros(actions)
    sums: dict[str, defaultdict[Any, np.ndarray]] = {}
    for name in ("h", "p"):
        sums[name] = defaultdict(lambda: np.zeros((2, actions)))
    for path in paths:
        T = len(path.actions)
        weight = path.probability / (T if by_episode else 1)
        for t, (a, r) in enumerate(zip(path.actions, path.rewards, strict=True)):
            h, row = path.histories[t], privileged_row(method, timed, path, t)
            from_history = from_privileged = r
            if t + 1 < T:
                of_history = Q_h.get(path.histories[t + 1], zeros)
                best = int(np.argmax(of_history >= of_history.max() - 1e-10))
                from_history += discount * of_history[best]
                later = Q_p.get(privileged_row(method, timed, path, t + 1), zeros)
                from_privileged += discount * later[best]
            sums["p"][row][:, a] += weight, weight * (from_history if "short" in method else from_privileged)
            if method.endswith("-vr"):
                sums["h"][h] += weight * np.stack([np.ones(actions), Q_p.get(row, zeros)])
            else:
                sums["h"][h][:, a] += weight, weight * (from_history if method == "dqn" else from_privileged)
    means = [{row: total / weight for row, (weight, total) in sums[name].items()} for name in ("h", "p")]
    return means[0], means[1]


def optimal_value(problem: Any, h: History, weights: np.ndarray, steps: int) -> tuple[float, list[float]]:
    """max_a Q(h, a) and Q(h, a) times the probability of the history, from unnormalised beliefs, by recursion."""
    values = []
    for a in range(problem.actions):
        value, later = 0.0, defaultdict(lambda: np.zeros(problem.states))
        for s in np.flatnonzero(weights):
            row = s * problem.actions + a
            for k in range(int(problem.first[row]), int(problem.first[row + 1])):
                value += weights[s] * problem.probability[k] * problem.reward[k]
                if not problem.done[k]:
                    later[int(problem.observation[k])][problem.next_state[k]] += weights[s] * problem.probability[k]
        if steps > 1:
            ahead = (optimal_value(problem, (*h, (a, o)), after, steps - 1)[0] for o, after in later.items())
            value += problem.discount * sum(ahead)
        values.append(value)
    return max(values), values
