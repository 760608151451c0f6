"""A memory that looks back over the whole episode: causal self-attention."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.nn.layers import Linear
from asymrl.nn.memory import Memory, inputs_of_episode, one_step


class Attention(Memory):
    """One layer of causal multi-head self-attention, a ReLU, and a linear layer with a ReLU.

    There is no positional encoding, as in the authors' code. While acting, the keys and values of
    the past are kept: at most `horizon` of them.
    """

    queries: Linear
    keys: Linear
    values: Linear
    mix: Linear
    out: Linear
    size: int = eqx.field(static=True)
    heads: int = eqx.field(static=True)
    horizon: int = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, inputs: int, size: int, *, heads: int, horizon: int):
        if size % heads:
            raise ValueError(f"attention: {size} features can't be shared by {heads} heads; choose a divisor of {size}")
        keys = jax.random.split(key, 5)
        self.queries, self.keys, self.values = (Linear(k, inputs, size) for k in keys[:3])
        self.mix = Linear(keys[3], size, size, gain=2.0**0.5)
        self.out = Linear(keys[4], size, size, gain=2.0**0.5)
        self.size, self.heads, self.horizon = size, heads, horizon

    def initial(self, episodes: int) -> tuple[Int[Array, ""], Array, Array]:
        past = jnp.zeros((self.horizon, episodes, self.size))
        return jnp.int32(0), past, past

    def projection(self) -> tuple[Float[Array, "inputs width"], Float[Array, "width"]]:
        parts = (self.queries, self.keys, self.values)
        weight = jnp.concatenate([part.weight for part in parts], axis=1)
        return weight, jnp.concatenate([part.bias for part in parts])

    def advance(
        self, carry: tuple[Array, Array, Array], projected: Float[Array, "episode width"]
    ) -> tuple[tuple[Array, Array, Array], Float[Array, "episode size"]]:
        t, keys, values = carry
        query, key, value = jnp.split(projected, 3, axis=-1)
        keys = jax.lax.dynamic_update_index_in_dim(keys, key, t, 0)
        values = jax.lax.dynamic_update_index_in_dim(values, value, t, 0)
        mask = (jnp.arange(self.horizon) <= t)[None]
        return (t + 1, keys, values), self._attend(query[None], keys, values, mask)[0]

    def follow(
        self, projected: Float[Array, "time episode width"], inputs: Int[Array, ""] | None = None
    ) -> Float[Array, "time episode size"]:
        del inputs
        T = projected.shape[0]
        mask = jnp.arange(T)[None, :] <= jnp.arange(T)[:, None]
        queries, keys, values = jnp.split(projected, 3, axis=-1)
        return self._attend(queries, keys, values, mask)

    def begin_streams(self, streams: int) -> tuple[Int[Array, "stream"], Array, Array]:
        """How many inputs the current episode has had, and keys and values of the last `horizon`, the newest last."""
        past = jnp.zeros((streams, self.horizon, self.size))
        return jnp.zeros(streams, jnp.int32), past, past

    def follow_from(
        self,
        carry: tuple[Array, Array, Array],
        first: Bool[Array, "time stream"],
        projected: Float[Array, "time stream width"],
    ) -> tuple[tuple[Array, Array, Array], Float[Array, "time stream size"]]:
        age, past_keys, past_values = jax.lax.stop_gradient(carry)
        T, ages = projected.shape[0], inputs_of_episode(age, first)
        queries, keys, values = jnp.split(projected, 3, axis=-1)
        keys = jnp.concatenate([past_keys.swapaxes(0, 1), keys])
        values = jnp.concatenate([past_values.swapaxes(0, 1), values])
        # How many steps before each query each input was; not after it, and not before the episode began.
        ago = self.horizon + jnp.arange(T)[:, None] - jnp.arange(self.horizon + T)[None]
        mask = (ago[None] >= 0) & (ago[None] < ages.T[..., None])
        carry = (ages[-1], keys[T:].swapaxes(0, 1), values[T:].swapaxes(0, 1))
        return carry, self._attend(queries, keys, values, mask[:, None])

    def advance_from(
        self,
        carry: tuple[Array, Array, Array],
        first: Bool[Array, "stream"],
        projected: Float[Array, "stream width"],
    ) -> tuple[tuple[Array, Array, Array], Float[Array, "stream size"]]:
        return one_step(self, carry, first, projected)

    def _attend(
        self,
        queries: Float[Array, "query episode size"],
        keys: Float[Array, "past episode size"],
        values: Float[Array, "past episode size"],
        mask: Bool[Array, "query past"] | Bool[Array, "episode #head query past"],
    ) -> Float[Array, "query episode size"]:
        q, k, v = (x.reshape(*x.shape[:-1], self.heads, -1) for x in (queries, keys, values))
        scores = jnp.einsum("qehd,pehd->ehqp", q, k) / q.shape[-1] ** 0.5
        scores = jnp.where(jnp.broadcast_to(mask, scores.shape), scores, -jnp.inf)
        context = jnp.einsum("ehqp,pehd->qehd", jax.nn.softmax(scores, axis=-1), v)
        context = self.mix(context.reshape(queries.shape))
        return jax.nn.relu(self.out(jax.nn.relu(context)))
