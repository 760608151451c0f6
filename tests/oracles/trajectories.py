"""Exact values by listing every trajectory: no recursion, no belief, no graph. For tiny problems."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from asymrl.worlds.pomdp import NOTHING, Pomdp

History = tuple[tuple[int | None, int], ...]
Act = Callable[[History], np.ndarray]


def random_pomdp(
    seed: int,
    S: int = 3,
    A: int = 2,
    O: int = 2,
    *,
    shows_first: bool = False,
    ends: float = 0.3,
    discount: float = 0.9,
) -> Pomdp:
    """A problem with some impossible outcomes, some ends, and rewards that depend on everything."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(S * A):
        joint = rng.dirichlet(np.ones(S * O)) * (rng.random(S * O) < 0.6)
        joint[rng.integers(S * O)] += 0.1
        joint /= joint.sum()
        end = rng.random() * 0.5 if rng.random() < ends else 0.0
        outcomes = [(k // O, k % O, p * (1 - end), rng.normal(), False) for k, p in enumerate(joint) if p > 0]
        rows.append(outcomes + ([(0, NOTHING, end, rng.normal(), True)] if end else []))
    flat = [outcome for row in rows for outcome in row]
    next_state, observation, probability, reward, done = (np.array(column) for column in zip(*flat, strict=True))
    return Pomdp(
        name=f"random-{seed}",
        first=np.concatenate([[0], np.cumsum([len(row) for row in rows])]),
        next_state=next_state,
        observation=observation,
        probability=probability.astype(float),
        reward=reward.astype(float),
        done=done.astype(bool),
        start=rng.dirichlet(np.ones(S)),
        first_observation=rng.dirichlet(np.ones(O), S) if shows_first else None,
        discount=discount,
        time_limit=None,
        state_names=[f"s{i}" for i in range(S)],
        action_names=[f"a{i}" for i in range(A)],
        observation_names=[f"o{i}" for i in range(O)],
    )


def random_policy(seed: int, actions: int) -> Act:
    """Another distribution after every history, the same each time it is asked."""

    @functools.cache
    def act(h: History) -> np.ndarray:
        digits = [seed, len(h)] + [number + 2 for a, o in h for number in (-1 if a is None else a, o)]
        return np.random.default_rng(digits).dirichlet(np.ones(actions))

    return act


@dataclass(frozen=True)
class Trajectory:
    probability: float
    histories: list[History]
    states: list[int]
    actions: list[int]
    rewards: list[float]

    def returns(self, t: int, discount: float) -> float:
        return sum(discount**k * r for k, r in enumerate(self.rewards[t:]))


def trajectories(pomdp: Pomdp, act: Act, horizon: int) -> Iterator[Trajectory]:
    """All of them."""
    for s in np.flatnonzero(pomdp.start):
        if pomdp.first_observation is None:
            yield from _extend(pomdp, act, horizon, Trajectory(pomdp.start[s], [()], [int(s)], [], []))
            continue
        for o in np.flatnonzero(pomdp.first_observation[s]):
            p = pomdp.start[s] * pomdp.first_observation[s, o]
            yield from _extend(pomdp, act, horizon, Trajectory(p, [((None, int(o)),)], [int(s)], [], []))


def _extend(pomdp: Pomdp, act: Act, horizon: int, so_far: Trajectory) -> Iterator[Trajectory]:
    if len(so_far.actions) == horizon:
        yield so_far
        return
    h, s = so_far.histories[-1], so_far.states[-1]
    for a, pi in enumerate(act(h)):
        row = s * pomdp.actions + a
        for k in range(int(pomdp.first[row]), int(pomdp.first[row + 1])):
            p = so_far.probability * pi * pomdp.probability[k]
            actions, rewards = [*so_far.actions, a], [*so_far.rewards, float(pomdp.reward[k])]
            if pomdp.done[k]:
                yield Trajectory(p, so_far.histories, so_far.states, actions, rewards)
                continue
            histories = [*so_far.histories, (*h, (a, int(pomdp.observation[k])))]
            states = [*so_far.states, int(pomdp.next_state[k])]
            yield from _extend(pomdp, act, horizon, Trajectory(p, histories, states, actions, rewards))


def mean_returns(paths: list[Trajectory], discount: float, key: Callable[[Trajectory, int], object]) -> dict:
    """E[return from t on | key], over all trajectories and times with an action."""
    total, mass = defaultdict(float), defaultdict(float)
    for path in paths:
        for t in range(len(path.actions)):
            total[key(path, t)] += path.probability * path.returns(t, discount)
            mass[key(path, t)] += path.probability
    return {each: total[each] / mass[each] for each in total}


def gradient_moments(
    paths: list[Trajectory], act: Act, critic: Callable[[History, int], float], discount: float
) -> tuple[dict[History, np.ndarray], float]:
    """Mean and total variance of sum_t gamma^t delta_t grad log pi(a_t; h_t), a softmax for each history."""
    rows: dict[History, np.ndarray] = {}
    second = 0.0
    for path in paths:
        size = 0.0
        for t, a in enumerate(path.actions):
            h, s = path.histories[t], path.states[t]
            more = t + 1 < len(path.histories) and t + 1 < len(path.actions)
            later = critic(path.histories[t + 1], path.states[t + 1]) if more else 0.0
            delta = path.rewards[t] + discount * later - critic(h, s)
            score = np.eye(len(act(h)))[a] - act(h)
            told = discount**t * delta * score
            rows[h] = rows.get(h, np.zeros_like(told)) + path.probability * told
            size += float(told @ told)  # rows of different histories are orthogonal
        second += path.probability * size
    return rows, second - sum(float(row @ row) for row in rows.values())
