"""Critics by what they read, by listing every trajectory and every state that can be drawn. For tiny problems."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from asymrl.worlds.pomdp import Pomdp
from tests.oracles.trajectories import Act, History, Trajectory, trajectories


class Episode(NamedTuple):
    """A trajectory with the critic's values at each action, as V and as the bootstrap of the step before."""

    probability: float
    path: Trajectory
    V: list[float]
    bootstrap: list[float]

    def errors(self, discount: float) -> list[float]:
        """The TD error of each action."""
        later = [*self.bootstrap[1:], 0.0]
        return [r + discount * v - u for r, v, u in zip(self.path.rewards, later, self.V, strict=True)]


class ListedCritic:
    """A table V(x) trained with TD(0), where x is what the critic reads: "state", "belief+time", ..."""

    def __init__(self, pomdp: Pomdp, act: Act, horizon: int, sees: str, history: bool, label: np.ndarray | None = None):
        self.pomdp, self.act, self.g = pomdp, act, pomdp.discount
        self.parts, self.history, self.label = sees.split("+") if sees else [], history, label
        self.paths = list(trajectories(pomdp, act, horizon))
        mass: dict[History, np.ndarray] = defaultdict(lambda: np.zeros(pomdp.states))
        for path in self.paths:
            for t in range(len(path.actions)):
                mass[path.histories[t]][path.states[t]] += path.probability
        self.beliefs = {h: m / m.sum() for h, m in mass.items()}

    def inputs(self, path: Trajectory, t: int) -> list[tuple[float, Any]]:
        """Everything that the critic may read at time t, with its probability."""
        h, s = path.histories[t], path.states[t]
        belief = self.beliefs[h]
        drawn = np.flatnonzero(belief) if "sampled-state" in self.parts else [None]

        def x(draw: Any) -> tuple:
            each = {"state": s, "time": t, "belief": tuple(belief.round(9)), "sampled-state": draw}
            if self.label is not None:
                each["label"] = self.label[s]
            return (h if self.history else None, *(each[part] for part in self.parts))

        return [(1.0 if draw is None else belief[draw], x(draw)) for draw in drawn]

    @cached_property
    def table(self) -> dict[Any, float]:
        """Solves V(x) = E[r + gamma V(x') | x], the mean over all visits and draws."""
        number: dict[Any, int] = {}
        rows: list[tuple[int, float, float, list[tuple[float, int]]]] = []
        for path in self.paths:
            for t, r in enumerate(path.rewards):
                after = self.inputs(path, t + 1) if t + 1 < len(path.actions) else []
                to = [(q, number.setdefault(y, len(number))) for q, y in after]
                for p, x in self.inputs(path, t):
                    rows.append((number.setdefault(x, len(number)), path.probability * p, r, to))
        K, R, visits = np.eye(len(number)), np.zeros(len(number)), np.zeros(len(number))
        for i, p, _, _ in rows:
            visits[i] += p
        for i, p, r, to in rows:
            R[i] += p / visits[i] * r
            for q, j in to:
                K[i, j] -= self.g * p * q / visits[i]
        solution = np.linalg.solve(K, R)
        return {x: float(solution[i]) for x, i in number.items()}

    def mean_at(self, path: Trajectory, t: int) -> float:
        """E[V(x) | h_t, s_t]."""
        return sum(p * self.table[x] for p, x in self.inputs(path, t))

    def history_means(self) -> dict[History, float]:
        """E[V(x) | h]."""
        total, mass = defaultdict(float), defaultdict(float)
        for path in self.paths:
            for t in range(len(path.actions)):
                total[path.histories[t]] += path.probability * self.mean_at(path, t)
                mass[path.histories[t]] += path.probability
        return {h: total[h] / mass[h] for h in total}

    def episodes(self, independent: bool = False) -> Iterator[Episode]:
        """All trajectories with all draws: one a step, or another one where the value is a bootstrap."""
        for path in self.paths:
            draws = [[(p, self.table[x]) for p, x in self.inputs(path, t)] for t in range(len(path.actions))]
            for one in itertools.product(*draws):
                for other in itertools.product(*draws) if independent else [one]:
                    p = path.probability * np.prod([q for q, _ in one])
                    p *= np.prod([q for q, _ in other]) if independent else 1.0
                    yield Episode(float(p), path, [v for _, v in one], [v for _, v in other])

    def target_variance(self) -> float:
        """The mean over visits of Var(r + gamma V(x') | x)."""
        moments: dict[Any, np.ndarray] = defaultdict(lambda: np.zeros(3))
        for path in self.paths:
            for t, r in enumerate(path.rewards):
                after = self.inputs(path, t + 1) if t + 1 < len(path.actions) else []
                targets = [(q, r + self.g * self.table[y]) for q, y in after] or [(1.0, r)]
                for p, x in self.inputs(path, t):
                    for q, y in targets:
                        moments[x] += path.probability * p * q * np.array([1, y, y**2])
        return sum(m[2] - m[1] ** 2 / m[0] for m in moments.values()) / sum(m[0] for m in moments.values())

    def advantage_variance(self, lambda_: float, independent: bool) -> float:
        """The mean over visits of Var(A | h, a), where A is the sum of (gamma lambda)^k times later TD errors."""
        moments: dict[Any, np.ndarray] = defaultdict(lambda: np.zeros(3))
        for episode in self.episodes(independent):
            advantage = 0.0
            for t, delta in reversed(list(enumerate(episode.errors(self.g)))):
                advantage = delta + self.g * lambda_ * advantage
                key = episode.path.histories[t], episode.path.actions[t]
                moments[key] += episode.probability * np.array([1, advantage, advantage**2])
        return sum(m[2] - m[1] ** 2 / m[0] for m in moments.values()) / sum(m[0] for m in moments.values())

    def gradient(
        self, row: Callable[[History], Any] = lambda h: h, independent: bool = False
    ) -> tuple[dict[Any, np.ndarray], float]:
        """Mean and total variance of the sum of gamma^t delta_t grad log pi(a_t; h_t), with a softmax for each row."""
        mean: dict[Any, np.ndarray] = defaultdict(lambda: np.zeros(self.pomdp.actions))
        second = 0.0
        for episode in self.episodes(independent):
            estimate: dict[Any, np.ndarray] = defaultdict(lambda: np.zeros(self.pomdp.actions))
            for t, delta in enumerate(episode.errors(self.g)):
                h, a = episode.path.histories[t], episode.path.actions[t]
                estimate[row(h)] += self.g**t * delta * (np.eye(self.pomdp.actions)[a] - self.act(h))
            for key, part in estimate.items():
                mean[key] += episode.probability * part
                second += episode.probability * float(part @ part)
        return mean, second - sum(float(part @ part) for part in mean.values())
