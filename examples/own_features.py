"""Networks of your own: features of an observation and a memory, as Equinox modules.

asymrl train CartPole-v1 --seeds 1 --observation-features examples/own_features.py:Waves
asymrl train CartPole-v1 --seeds 1 --memory examples/own_features.py:Leaky
"""

import equinox as eqx
import jax
import jax.numpy as jnp


class Waves(eqx.Module):
    """Features of a vector of numbers: sines of learned frequencies."""

    layer: eqx.nn.Linear

    def __init__(self, space, key):
        self.layer = eqx.nn.Linear(space.shape[0], 32, key=key)

    def __call__(self, value):
        return jnp.sin(self.layer(value))


class Leaky(eqx.Module):
    """A memory of running means that forget at learned rates."""

    forget: jax.Array

    def __init__(self, size, key):
        self.forget = jax.random.uniform(key, (size,), minval=-3.0, maxval=3.0)

    def initial(self):
        return jnp.zeros_like(self.forget)

    def step(self, state, x):
        keep = jax.nn.sigmoid(self.forget)
        state = keep * state + (1 - keep) * jnp.tanh(x)
        return state, state
