"""The exact belief b(h) = Pr(S | h, the episode goes on), compiled, updated alongside an episode of a finite world."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asymrl.worlds.pomdp import Pomdp

LARGEST_TABLE = 1 << 18  # a table Pr(s', o | s, a) with at most this many entries is kept dense


class BeliefFilter(eqx.Module):
    """b(h) -> b(hao), compiled: `vmap` it over histories, `scan` it over time.

    Small problems have one matrix Pr(s', o | s, a) for each action and observation. In larger ones the outcomes of a
    state and an action are padded to rows of equal length. Outcomes that end the episode have probability 0, so that
    every belief is conditional on the episode going on.
    """

    matrices: Float[Array | np.ndarray, "A O S S"] | None
    next_state: Int[Array | np.ndarray, "S A K"] | None
    observation: Int[Array | np.ndarray, "S A K"] | None
    probability: Float[Array | np.ndarray, "S A K"] | None
    start: Float[Array | np.ndarray, "S"]
    first_observation: Float[Array | np.ndarray, "S O"] | None

    def __init__(self, pomdp: Pomdp, *, largest_table: int = LARGEST_TABLE):
        S, A, O = pomdp.states, pomdp.actions, pomdp.observations
        going_on = np.where(pomdp.done, 0.0, pomdp.probability)
        self.matrices = self.next_state = self.observation = self.probability = None
        self.start, self.first_observation = pomdp.start, pomdp.first_observation
        size = A * O * S * S
        if size <= largest_table:
            s, a = pomdp.rows()
            self.matrices = np.zeros((A, O, S, S))
            np.add.at(self.matrices, (a, pomdp.observation, s, pomdp.next_state), going_on)
            return
        lengths = np.diff(pomdp.first)
        row = np.repeat(np.arange(S * A), lengths)
        place = np.arange(len(row)) - pomdp.first[row]

        def padded(values: np.ndarray, dtype: type) -> np.ndarray:
            table = np.zeros((S * A, int(lengths.max())), dtype)
            table[row, place] = values
            return table.reshape(S, A, -1)

        self.next_state = padded(pomdp.next_state, np.int32)
        self.observation = padded(pomdp.observation, np.int32)
        self.probability = padded(going_on, float)

    def begin(self, observation: Int[Array, ""]) -> Float[Array, "S"]:
        """The belief after the first observation; a constant symbol carries no information."""
        start = jnp.asarray(self.start)
        if self.first_observation is None:
            return start
        return _normalised(start * jnp.asarray(self.first_observation)[:, observation])[0]

    def __call__(
        self, belief: Float[Array, "S"], action: Int[Array, ""], observation: Int[Array, ""]
    ) -> tuple[Float[Array, "S"], Float[Array, ""]]:
        """The next belief, and the probability of this observation without an end; zeros if that is impossible."""
        if self.matrices is not None:
            # In full precision on every device: a filter never recovers what it loses.
            matrix = jnp.asarray(self.matrices)[action, observation]
            return _normalised(jnp.dot(belief, matrix, precision=jax.lax.Precision.HIGHEST))
        matches = jnp.asarray(self.observation)[:, action] == observation
        weight = jnp.where(matches, jnp.asarray(self.probability)[:, action] * belief[:, None], 0.0)
        joint = jnp.zeros_like(belief).at[jnp.asarray(self.next_state)[:, action]].add(weight)
        return _normalised(joint)


def _normalised(joint: Float[Array, "S"]) -> tuple[Float[Array, "S"], Float[Array, ""]]:
    total = joint.sum()
    return jnp.where(total > 0, joint / jnp.where(total > 0, total, 1.0), 0.0), total
