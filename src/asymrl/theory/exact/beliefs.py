"""Exact beliefs b(h) = Pr(S | h), given that the episode goes on, in float64 and sparse.

`worlds.critic_inputs.BeliefFilter` is the same, compiled, for training programs.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int

from asymrl.theory.exact.histories import History, describe
from asymrl.worlds.pomdp import Pomdp

GRAIN = 1e-12  # beliefs that differ by less count as equal


def first_belief(pomdp: Pomdp, observation: int | None = None) -> Float64[np.ndarray, "S"]:
    """The belief after the first observation; without one, or with the constant symbol, the start distribution."""
    if pomdp.first_observation is None:
        return pomdp.start.copy()
    if observation is None:
        raise ValueError(f"{pomdp.name} shows an observation first: its histories begin with a pair (None, o)")
    joint = pomdp.start * pomdp.first_observation[:, observation]
    total = joint.sum()
    return joint / total if total > 0 else joint


def next_beliefs(
    pomdp: Pomdp, beliefs: Float64[np.ndarray, "n S"], a: Int[np.ndarray, "n"], o: Int[np.ndarray, "n"]
) -> tuple[Float64[np.ndarray, "n S"], Float64[np.ndarray, "n"]]:
    """b(hao) for each history, and Pr(o, not ended | h, a); zeros where that is 0."""
    n, S = beliefs.shape
    row, s = np.nonzero(beliefs)
    pair, k = outcomes_of(pomdp, s * pomdp.actions + a[row], s * pomdp.actions + a[row] + 1)
    row, s = row[pair], s[pair]
    matches = pomdp.observation[k] == o[row]  # an end has no observation and never matches
    row, s, k = row[matches], s[matches], k[matches]
    weight = beliefs[row, s] * pomdp.probability[k]
    joint = np.bincount(row * S + pomdp.next_state[k], weight, minlength=n * S).reshape(n, S)
    total = joint.sum(1)
    return joint / np.where(total > 0, total, 1.0)[:, None], total


def belief_of(pomdp: Pomdp, h: History) -> Float64[np.ndarray, "S"]:
    """b(h).

    Raises:
        ValueError: if the history is impossible; the message names the pair.
    """
    belief, rest = begin_history(pomdp, h)
    for t, (a, o) in enumerate(rest):
        if a is None or not 0 <= a < pomdp.actions or not 0 <= o < pomdp.observations:
            raise ValueError(
                f"{pomdp.name}: pair {t} of the history is {(a, o)}, expected an action from 0 to "
                f"{pomdp.actions - 1} and an observation from 0 to {pomdp.observations - 1}"
            )
        following, probability = next_beliefs(pomdp, belief[None], np.array([a]), np.array([o]))
        if not probability[0] > 0:
            raise ValueError(
                f"{pomdp.name}: impossible history: after {describe(pomdp, (*h[: len(h) - len(rest)], *rest[:t]))}, "
                f"action {pomdp.action_names[a]!r} cannot be followed by observation {pomdp.observation_names[o]!r}"
            )
        belief = following[0]
    return belief


def begin_history(pomdp: Pomdp, h: History) -> tuple[Float64[np.ndarray, "S"], History]:
    """The belief after the first observation of a history, and the pairs that follow it."""
    if not isinstance(h, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in h):
        raise ValueError(f"{pomdp.name}: {h!r} is not a history; give a tuple of pairs (action, observation)")
    if pomdp.first_observation is None:
        return pomdp.start.copy(), h[1:] if h[:1] == ((None, pomdp.observations),) else h
    if not h or h[0][0] is not None or not 0 <= h[0][1] < pomdp.observations:
        raise ValueError(f"{pomdp.name} shows an observation first: its histories begin with a pair (None, o)")
    belief = first_belief(pomdp, h[0][1])
    if not belief.any():
        raise ValueError(
            f"{pomdp.name}: impossible history: {pomdp.observation_names[h[0][1]]!r} is never the first observation"
        )
    return belief, h[1:]


def outcomes_of(
    pomdp: Pomdp, low: Int[np.ndarray, "n"], high: Int[np.ndarray, "n"]
) -> tuple[Int[np.ndarray, "m"], Int[np.ndarray, "m"]]:
    """The outcomes of the rows low[i] .. high[i] - 1: i and the number of the outcome, for each."""
    begin, count = pomdp.first[low], pomdp.first[high] - pomdp.first[low]
    which = np.repeat(np.arange(len(low)), count)
    return which, np.arange(len(which)) + np.repeat(begin - (np.cumsum(count) - count), count)


def fingerprint(
    row: Int[np.ndarray, "m"], state: Int[np.ndarray, "m"], belief: Float64[np.ndarray, "m"], rows: int
) -> Int[np.ndarray, "rows 2"]:
    """128 bits for each row of a sparse table of beliefs, equal for equal beliefs.

    Beliefs are compared after rounding to GRAIN, without entries that round to zero. Two beliefs on different sides of
    a rounding boundary count as different, which costs time but no accuracy.
    """
    quantum = np.rint(belief / GRAIN).astype(np.uint64)
    row, state, quantum = (x[quantum > 0] for x in (row, state, quantum))
    total = np.zeros((rows, 2), np.uint64)
    for i, seed in enumerate((0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)):
        mixed = _mixed(_mixed(state.astype(np.uint64) + np.uint64(seed)) ^ quantum)
        np.add.at(total[:, i], row, mixed)
    return total.view(np.int64)


def _mixed(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every bit of the input affects every bit of the output."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
