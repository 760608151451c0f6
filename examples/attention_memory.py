"""A memory of your own: it looks back over the last steps of the episode with attention.

asymrl train heaven-hell-3 --seeds 1 --memory examples/attention_memory.py:Attention
"""

import equinox as eqx
import jax
import jax.numpy as jnp

STEPS = 50  # that it can look back


class Attention(eqx.Module):
    """Causal self-attention with one head, then a layer with a ReLU. The order of the past steps does not count."""

    queries: jax.Array
    keys: jax.Array
    values: jax.Array
    out: jax.Array

    def __init__(self, size, key):
        keys = jax.random.split(key, 4)
        self.queries, self.keys, self.values = (jax.random.normal(k, (size, size)) * size**-0.5 for k in keys[:3])
        self.out = jax.random.normal(keys[3], (size, size)) * (2 / size) ** 0.5

    def initial(self):
        """Keys, values, and 1 for each of the past steps that there was, the newest last."""
        past = jnp.zeros((STEPS, self.keys.shape[0]))
        return past, past, jnp.zeros(STEPS)

    def step(self, state, x):
        keys, values, exists = (
            jnp.concatenate([past[1:], new[None]])
            for past, new in zip(state, (x @ self.keys, x @ self.values, jnp.ones(())), strict=True)
        )
        scores = keys @ (x @ self.queries) * x.shape[0] ** -0.5
        weights = jax.nn.softmax(jnp.where(exists > 0, scores, -1e9))
        return (keys, values, exists), jax.nn.relu(jax.nn.relu(weights @ values) @ self.out)
