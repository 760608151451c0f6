"""A memory that looks back over the whole episode: causal self-attention."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.models.layers import Linear
from asymrl.models.memory import Memory


class Attention(Memory):
    """One layer of causal multi-head self-attention, a ReLU, and a linear layer with a ReLU.

    There is no code for the position in time, as in the authors' program. While acting, the keys and values of
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

    def step(
        self, carry: tuple[Array, Array, Array], x: Float[Array, "episode inputs"]
    ) -> tuple[tuple[Array, Array, Array], Float[Array, "episode size"]]:
        t, keys, values = carry
        keys = jax.lax.dynamic_update_index_in_dim(keys, self.keys(x), t, 0)
        values = jax.lax.dynamic_update_index_in_dim(values, self.values(x), t, 0)
        seen = (jnp.arange(self.horizon) <= t)[None]
        return (t + 1, keys, values), self._attend(self.queries(x)[None], keys, values, seen)[0]

    def sequence(self, xs: Float[Array, "time episode inputs"]) -> Float[Array, "time episode size"]:
        T = xs.shape[0]
        seen = jnp.arange(T)[None, :] <= jnp.arange(T)[:, None]
        return self._attend(self.queries(xs), self.keys(xs), self.values(xs), seen)

    def _attend(
        self,
        queries: Float[Array, "query episode size"],
        keys: Float[Array, "past episode size"],
        values: Float[Array, "past episode size"],
        seen: Bool[Array, "query past"],
    ) -> Float[Array, "query episode size"]:
        q, k, v = (x.reshape(*x.shape[:-1], self.heads, -1) for x in (queries, keys, values))
        scores = jnp.einsum("qehd,pehd->ehqp", q, k) / q.shape[-1] ** 0.5
        scores = jnp.where(jnp.broadcast_to(seen, scores.shape), scores, -jnp.inf)
        found = jnp.einsum("ehqp,pehd->qehd", jax.nn.softmax(scores, axis=-1), v)
        found = self.mix(found.reshape(queries.shape))
        return jax.nn.relu(self.out(jax.nn.relu(found)))
