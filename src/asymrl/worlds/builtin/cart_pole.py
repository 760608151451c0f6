"""Cart-Pole with hidden velocities: balance a pole on a cart, seeing where both are but not how fast they move."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from asymrl.worlds.spaces import Box
from asymrl.worlds.world import Action, Signal, Step, World

GRAVITY = 9.8
CART_MASS, POLE_MASS = 1.0, 0.1
TOTAL_MASS = CART_MASS + POLE_MASS
HALF_LENGTH = 0.5  # of the pole
FORCE = 10.0
SECONDS = 0.02  # per step
MAX_POSITION = 2.4
MAX_ANGLE = math.radians(12)
START = 0.05  # every number of the first state lies within this distance of 0
TIME_LIMIT = 500


class CartPole(World):
    """Gymnasium's CartPole-v1 (Barto, Sutton and Anderson, 1983), where the agent sees positions only.

    The state is `[position, velocity, angle, angular velocity]` and is its own latent. The agent observes the position
    of the cart and the angle of the pole; with `velocities`, the whole state. Every step earns 1. The episode ends when
    the cart leaves the track, |position| > 2.4, or the pole leans by more than 12 degrees.
    """

    name: str = eqx.field(static=True, default="cart-pole")
    velocities: bool = eqx.field(static=True, default=False)
    discount: float = eqx.field(static=True, default=0.99)
    time_limit: int | None = eqx.field(static=True, default=TIME_LIMIT)

    @property
    def action_names(self) -> tuple[str, ...]:
        return ("left", "right")

    @property
    def observation_space(self) -> Box:
        # The last step may lead beyond the limits; Gymnasium declares twice the limits.
        high = (2 * MAX_POSITION, 2 * MAX_ANGLE)
        return self.latent_space if self.velocities else Box((2,), tuple(-x for x in high), high)

    @property
    def latent_space(self) -> Box:
        high = (2 * MAX_POSITION, math.inf, 2 * MAX_ANGLE, math.inf)
        return Box((4,), tuple(-x for x in high), high)

    def signals(self) -> dict[str, Signal]:
        return super().signals() | {
            "velocities": Signal(lambda s: s[..., 1::2], Box((2,)), "the velocities of the cart and the pole"),
        }

    def reset(self, key: PRNGKeyArray) -> Float[Array, "4"]:
        return jax.random.uniform(key, (4,), minval=-START, maxval=START)

    def step(self, key: PRNGKeyArray, state: Float[Array, "4"], action: Action) -> Step:
        _, velocity, angle, spin = state
        force = jnp.where(jnp.asarray(action) == 1, FORCE, -FORCE)
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        push = (force + POLE_MASS * HALF_LENGTH * spin**2 * sine) / TOTAL_MASS
        inertia = HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cosine**2 / TOTAL_MASS)
        spin_change = (GRAVITY * sine - cosine * push) / inertia
        acceleration = push - POLE_MASS * HALF_LENGTH * spin_change * cosine / TOTAL_MASS
        change = jnp.stack([velocity, acceleration, spin, spin_change])
        next_state = state + SECONDS * change
        terminated = (jnp.abs(next_state[0]) > MAX_POSITION) | (jnp.abs(next_state[2]) > MAX_ANGLE)
        return Step(next_state, jnp.float32(1.0), terminated)

    def first_observation(self, key: PRNGKeyArray, state: Float[Array, "4"]) -> Float[Array, "shown"]:
        return state if self.velocities else state[::2]

    def observe(
        self, key: PRNGKeyArray, state: Float[Array, "4"], action: Action, next_state: Float[Array, "4"]
    ) -> Float[Array, "shown"]:
        return self.first_observation(key, next_state)

    def latent(self, state: Float[Array, "4"]) -> Float[Array, "4"]:
        return state

    def from_latent(self, latent: Float[Array, "4"]) -> Float[Array, "4"]:
        return jnp.asarray(latent, jnp.float32)
