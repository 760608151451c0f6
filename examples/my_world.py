"""A world of your own in pure JAX, in about twenty lines.

asymrl check examples/my_world.py:Corridor
asymrl train examples/my_world.py:Corridor --method a2c-asym-hs --steps 20000 --seeds 2
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from asymrl.worlds import Discrete, Step, World


class Corridor(World):
    """Find the door of a dark corridor. It is at the left or the right end, and only the middle shows which."""

    name: str = eqx.field(static=True, default="corridor")
    discount: float = eqx.field(static=True, default=0.95)
    time_limit: int | None = eqx.field(static=True, default=20)
    action_names = ("left", "right")
    observation_space = Discrete(4)  # a wall, nothing, "the door is left", "the door is right"
    latent_space = Discrete(10)  # five places times two doors

    def reset(self, key):
        return jax.random.randint(key, (), 0, 10)  # 2 * place + door

    def step(self, key, state, action):
        place, door = state // 2, state % 2
        moved = jnp.clip(place + 2 * action - 1, 0, 4)
        outside = (place == 4 * door) & (moved == place)
        return Step(2 * moved + door, jnp.where(outside, 1.0, -0.05), outside)

    def first_observation(self, key, state):
        place, door = state // 2, state % 2
        return jnp.where(place == 2, 2 + door, jnp.where((place == 0) | (place == 4), 0, 1))

    def observe(self, key, state, action, next_state):
        return self.first_observation(key, next_state)

    def latent(self, state):
        return state

    def from_latent(self, latent):
        return jnp.asarray(latent)
