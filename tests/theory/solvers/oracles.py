"""Slow, obvious versions of what the solvers compute, for small problems."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from asymrl.theory.exact.policies import HistoryPolicy
from asymrl.worlds import FiniteWorld
from asymrl.worlds.pomdp import Pomdp


def random_world(seed: int, S: int = 3, A: int = 2, O: int = 2, *, shows_first: bool = False) -> FiniteWorld:
    """A world with random tables in which some actions end the episode."""
    rng = np.random.default_rng(seed)
    return FiniteWorld.from_tables(
        f"random-{seed}",
        rng.dirichlet(np.full(S, 0.5), (S, A)),
        rng.dirichlet(np.full(O, 0.5), (A, S)),
        rng.normal(size=(S, A)),
        rng.dirichlet(np.ones(S)),
        rng.random((S, A)) < 0.2,
        rng.dirichlet(np.ones(O), S) if shows_first else None,
        discount=0.9,
        time_limit=4,
    )


def tables(world: FiniteWorld) -> tuple[np.ndarray, np.ndarray]:
    """T `[S, A, S]`, with nothing in rows that end the episode, and O `[A, S, O]`, in float64."""
    S, A = world.D.shape
    T = world.transitions.dense(np.float64).reshape(S, A, S)
    O = world.observations.dense(np.float64).reshape(A, S + 1, -1)[:, :S]
    return np.where(world.D[..., None], 0.0, T), O


def optimum(world: FiniteWorld, horizon: int, discount: float) -> float:
    """The optimal return, by trying every action after every history."""
    T, O = tables(world)

    def value(joint: np.ndarray, steps: int) -> float:
        if steps == 0 or joint.sum() == 0:
            return 0.0
        best = -np.inf
        for a in range(len(O)):
            ahead = sum(value((joint @ T[:, a]) * O[a, :, o], steps - 1) for o in range(O.shape[-1]))
            best = max(best, float(joint @ world.rewards[:, a]) + discount * ahead)
        return best

    if world.first_observations is None:
        return value(world.start, horizon)
    first = world.first_observations.dense(np.float64)
    return sum(value(world.start * first[:, o], horizon) for o in range(first.shape[1]))


def expected_return(pomdp: Pomdp, policy: HistoryPolicy, horizon: int, discount: float) -> float:
    """What a policy gets, by following the probability of every (memory, state) forwards."""
    constant = np.eye(pomdp.observations + 1)[[-1] * pomdp.states]
    first = constant if pomdp.first_observation is None else pomdp.first_observation
    memories: dict[bytes, Any] = {}
    mass: dict[tuple[bytes, int], float] = defaultdict(float)

    def key(memory: Any) -> bytes:
        keys = policy.keys(memory)
        assert keys is not None
        memories.setdefault(keys.tobytes(), memory)
        return keys.tobytes()

    for s, o in np.argwhere(pomdp.start[:, None] * first).tolist():
        mass[key(policy.begin(np.array([o]))), s] += pomdp.start[s] * first[s, o]
    total = 0.0
    for t in range(horizon):
        following: dict[tuple[bytes, int], float] = defaultdict(float)
        for (z, s), p in mass.items():
            pi = policy.act(memories[z])[0]
            for a in np.flatnonzero(pi):
                for i in range(pomdp.first[s * pomdp.actions + a], pomdp.first[s * pomdp.actions + a + 1]):
                    weight = p * pi[a] * pomdp.probability[i]
                    total += discount**t * weight * pomdp.reward[i]
                    if not pomdp.done[i]:
                        after = policy.advance(memories[z], np.array([0]), np.array([a]), pomdp.observation[[i]])
                        following[key(after), int(pomdp.next_state[i])] += weight
        mass = following
    return total
