"""Policies over indices: one of many, the best of many, and several at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

NO_ACTION = -1  # placeholder before the first action of an episode; its features are zeros

NEVER = -1e30  # the logit of an action that does not exist; its gradient is 0, while that of -inf is NaN


@dataclass(frozen=True)
class _OneOfMany:
    """What all policies over n actions share. The most likely action has the largest parameter."""

    n: int

    @property
    def outputs(self) -> int:
        """How many numbers the policy network gives."""
        return self.n

    @property
    def spreads(self) -> int:
        """How many logarithmic spreads the policy has in addition: none."""
        return 0

    def chance(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*batch"]:
        """The random numbers of actions, drawn beforehand."""
        return jax.random.uniform(key, shape)

    def mode(self, parameters: Float[Array, "*batch n"]) -> Int[Array, "*batch"]:
        """The most likely action."""
        return jnp.argmax(parameters, -1).astype(jnp.int32)

    def none(self, *shape: int) -> Int[Array, "*batch"]:
        """The placeholder before the first action."""
        return jnp.full(shape, NO_ACTION, jnp.int32)

    def in_units(self, shown: Float[np.ndarray, "*batch numbers"]) -> Float[np.ndarray, "*batch numbers"]:
        """What `shown` gives, in the units of the world: the same."""
        return shown

    def to_world(self, actions: Int[Array, "*batch"]) -> Int[Array, "*batch"]:
        """The actions as the world takes them."""
        return actions


@dataclass(frozen=True)
class Categorical(_OneOfMany):
    """One of n actions. The parameters are logits."""

    def choose(self, logits: Float[Array, "*batch n"], chance: Float[Array, "*batch"]) -> Int[Array, "*batch"]:
        """An action drawn by inversion with a uniform number."""
        shares = jnp.cumsum(jax.nn.softmax(logits, axis=-1), axis=-1)
        below = jnp.sum(shares[..., :-1] <= chance[..., None], axis=-1)
        return below.astype(jnp.int32)

    def log_probability(
        self, logits: Float[Array, "*batch n"], actions: Int[Array, "*batch"]
    ) -> Float[Array, "*batch"]:
        action_mask = jax.nn.one_hot(actions, self.n, dtype=bool)
        return jnp.sum(jnp.where(action_mask, jax.nn.log_softmax(logits), 0.0), axis=-1)

    def negentropy(self, logits: Float[Array, "*batch n"]) -> Float[Array, "*batch"]:
        """sum_a pi log pi."""
        log_policy = jax.nn.log_softmax(logits)
        return jnp.sum(jnp.exp(log_policy) * log_policy, axis=-1)

    def shown(self, logits: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        """The policy as people are shown it: the probabilities."""
        return jax.nn.softmax(logits)

    def draw(self, shown: Float[np.ndarray, "n"], generator: np.random.Generator | None) -> Any:
        """An action from what `shown` gives: drawn with the generator, or without one the most likely."""
        if generator is None:
            return np.int32(shown.argmax())
        return np.int32(np.sum(np.cumsum(shown)[:-1] <= generator.random()))


@dataclass(frozen=True)
class Greedy(_OneOfMany):
    """The best of n actions, or while exploring, sometimes a random one.

    The parameters are action values Q(h, .); of equal values the first is the best.
    """

    def chance(
        self, key: PRNGKeyArray, shape: tuple[int, ...], epsilon: Float[Array, ""] | float = 0.0
    ) -> Float[Array, "*batch"]:
        """The random numbers of actions: with probability `epsilon` a uniform number below 1, otherwise 1."""
        uniform = jax.random.uniform(key, shape)
        return jnp.where(uniform < epsilon, uniform / epsilon, 1.0)

    def choose(self, values: Float[Array, "*batch n"], chance: Float[Array, "*batch"]) -> Int[Array, "*batch"]:
        """The best action, or where `chance` is below 1, the random action that it encodes."""
        explored = jnp.minimum((chance * self.n).astype(jnp.int32), self.n - 1)
        return jnp.where(chance < 1, explored, self.mode(values))

    def log_probability(
        self, values: Float[Array, "*batch n"], actions: Int[Array, "*batch"]
    ) -> Float[Array, "*batch"]:
        """0 for the best action, -inf for the others."""
        return jnp.where(actions == self.mode(values), 0.0, -jnp.inf)

    def negentropy(self, values: Float[Array, "*batch n"]) -> Float[Array, "*batch"]:
        """Zero: nothing is left to chance."""
        return jnp.zeros(values.shape[:-1])

    def shown(self, values: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        """The policy as people are shown it: the action values."""
        return values

    def draw(self, shown: Float[np.ndarray, "n"], generator: np.random.Generator | None) -> Any:
        """The best action, with or without a generator."""
        del generator
        return np.int32(shown.argmax())


@dataclass(frozen=True)
class MultiCategorical:
    """Several choices at once, independent of each other given the history. The parameters are the logits of the first
    entry, then those of the second, and so on.
    """

    sizes: tuple[int, ...]

    @property
    def outputs(self) -> int:
        """How many numbers the policy network gives."""
        return sum(self.sizes)

    @property
    def spreads(self) -> int:
        """How many logarithmic spreads the policy has in addition: none."""
        return 0

    @property
    def each(self) -> Categorical:
        """The distribution of each entry, once all are padded to the same number of logits; see `entries`."""
        return Categorical(max(self.sizes))

    def entries(self, logits: Float[Array, "*batch all"]) -> Float[Array, "*batch entries most"]:
        """The logits of each entry, padded with actions that are never taken."""
        parts = jnp.split(logits, np.cumsum(self.sizes)[:-1], axis=-1)
        missing = [(0, max(self.sizes) - size) for size in self.sizes]
        no_padding = [(0, 0)] * (logits.ndim - 1)
        rows = [jnp.pad(part, [*no_padding, m], constant_values=NEVER) for part, m in zip(parts, missing, strict=True)]
        return jnp.stack(rows, axis=-2)

    def split(self, shown: Float[np.ndarray, "all"]) -> list[Float[np.ndarray, "_"]]:
        """What `shown` gives, entry by entry."""
        return np.split(shown, np.cumsum(self.sizes)[:-1])

    def chance(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*batch entries"]:
        """The random numbers of actions, drawn beforehand."""
        return jax.random.uniform(key, (*shape, len(self.sizes)))

    def choose(
        self, logits: Float[Array, "*batch all"], chance: Float[Array, "*batch entries"]
    ) -> Int[Array, "*batch entries"]:
        """Each entry drawn by inversion with its own uniform number."""
        drawn = self.each.choose(self.entries(logits), chance)
        # Where rounding makes the probabilities sum to less than 1, a padding action could be drawn.
        return jnp.minimum(drawn, jnp.broadcast_to(np.asarray(self.sizes, np.int32) - 1, drawn.shape))

    def mode(self, logits: Float[Array, "*batch all"]) -> Int[Array, "*batch entries"]:
        """The most likely index of each entry."""
        return self.each.mode(self.entries(logits))

    def log_probability(
        self, logits: Float[Array, "*batch all"], actions: Int[Array, "*batch entries"]
    ) -> Float[Array, "*batch"]:
        return jnp.sum(self.each.log_probability(self.entries(logits), actions), axis=-1)

    def negentropy(self, logits: Float[Array, "*batch all"]) -> Float[Array, "*batch"]:
        """The sum over all entries."""
        return jnp.sum(self.each.negentropy(self.entries(logits)), axis=-1)

    def shown(self, logits: Float[Array, "*batch all"]) -> Float[Array, "*batch all"]:
        """The policy as people are shown it: the probabilities of each entry, one after another."""
        shares = self.each.shown(self.entries(logits))
        return jnp.concatenate([shares[..., i, :size] for i, size in enumerate(self.sizes)], axis=-1)

    def none(self, *shape: int) -> Int[Array, "*batch entries"]:
        """The placeholder before the first action."""
        return jnp.full((*shape, len(self.sizes)), NO_ACTION, jnp.int32)

    def in_units(self, shown: Float[np.ndarray, "*batch numbers"]) -> Float[np.ndarray, "*batch numbers"]:
        """What `shown` gives, in the units of the world: the same."""
        return shown

    def to_world(self, actions: Int[Array, "*batch entries"]) -> Int[Array, "*batch entries"]:
        """The actions as the world takes them."""
        return actions

    def draw(self, shown: Float[np.ndarray, "all"], generator: np.random.Generator | None) -> Any:
        """An action from what `shown` gives: drawn with the generator, or without one the most likely."""
        return np.array([self.each.draw(shares, generator) for shares in self.split(shown)], np.int32)
