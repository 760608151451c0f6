"""Car-Flag: a car between two flags, and a third one that shows which of them is good."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from asymrl.worlds.spaces import Box
from asymrl.worlds.world import DEFAULT_TIME_LIMIT, Action, Signal, Step, World

POWER = 0.0015
MAX_SPEED = 0.07
MAX_POSITION = 1.1
FLAG = 1.0  # the good and the bad flag stand at +1 and -1
INFO_FROM, INFO_TO = 0.5 - 0.2, 0.5 + 0.2


class CarFlag(World):
    """Car-Flag (paper, appendix "Car-Flag").

    The state is `[position, velocity, side of the good flag]` and is its own latent. The agent observes the same three
    numbers, but the last one is 0 except near the info flag, 0.3 <= position <= 0.7. Reaching a flag ends the episode
    with a reward of +1 or -1.
    """

    name: str = eqx.field(static=True, default="car-flag")
    discount: float = eqx.field(static=True, default=0.99)
    time_limit: int | None = eqx.field(static=True, default=DEFAULT_TIME_LIMIT)

    @property
    def action_names(self) -> tuple[str, ...]:
        left, right = ("left-high", "left-medium", "left-low"), ("right-low", "right-medium", "right-high")
        return (*left, "none", *right)

    @property
    def observation_space(self) -> Box:
        return Box((3,), (-MAX_POSITION, -MAX_SPEED, -1.0), (MAX_POSITION, MAX_SPEED, 1.0))

    @property
    def latent_space(self) -> Box:
        return self.observation_space

    def signals(self) -> dict[str, Signal]:
        return super().signals() | {
            "good-side": Signal(lambda s: s[..., 2:], Box((1,), -1.0, 1.0), "the side of the good flag"),
            "motion": Signal(
                lambda s: s[..., :2],
                Box((2,), (-MAX_POSITION, -MAX_SPEED), (MAX_POSITION, MAX_SPEED)),
                "position and velocity",
            ),
        }

    def reset(self, key: PRNGKeyArray) -> Float[Array, "3"]:
        side_key, position_key = jax.random.split(key)
        side = jnp.where(jax.random.bernoulli(side_key), 1.0, -1.0)
        position = jax.random.uniform(position_key, minval=-0.2, maxval=0.2)
        return jnp.stack([position, jnp.float32(0.0), side])

    def step(self, key: PRNGKeyArray, state: Float[Array, "3"], action: Action) -> Step:
        position, velocity, side = state
        numbers, reward, terminated = drive(position, velocity, side, action)
        return Step(jnp.stack(numbers), reward, terminated)

    def first_observation(self, key: PRNGKeyArray, state: Float[Array, "3"]) -> Float[Array, "3"]:
        position, velocity, side = state
        return jnp.stack([position, velocity, shown_side(position, side)])

    def observe(
        self, key: PRNGKeyArray, state: Float[Array, "3"], action: Action, next_state: Float[Array, "3"]
    ) -> Float[Array, "3"]:
        return self.first_observation(key, next_state)

    def latent(self, state: Float[Array, "3"]) -> Float[Array, "3"]:
        return state

    def from_latent(self, latent: Float[Array, "3"]) -> Float[Array, "3"]:
        return jnp.asarray(latent, jnp.float32)

    def latent_problem(self, latent: object) -> str | None:
        if problem := super().latent_problem(latent):
            return problem
        side = float(latent[2])  # pyright: ignore[reportIndexIssue]
        return None if side in (-1.0, 1.0) else f"has {side:g} as the side of the good flag, expected -1 or 1"


def drive(
    position: Array, velocity: Array, side: Array, action: Action
) -> tuple[tuple[Array, Array, Array], Array, Array]:
    """Position, velocity and side after an action, the reward, and whether a flag was reached."""
    force = jnp.asarray(action, jnp.float32) / 3 - 1
    velocity = jnp.clip(velocity + POWER * force, -MAX_SPEED, MAX_SPEED)
    position = jnp.clip(position + velocity, -MAX_POSITION, MAX_POSITION)
    velocity = jnp.where((position == -MAX_POSITION) & (velocity < 0), 0.0, velocity)
    terminated = jnp.abs(position) >= FLAG
    reward = jnp.where(terminated, jnp.where(position > 0, side, -side), 0.0)
    return (position, velocity, side), reward, terminated


def shown_side(position: Array, side: Array) -> Array:
    """The side of the good flag near the info flag, elsewhere 0."""
    return jnp.where((position >= INFO_FROM) & (position <= INFO_TO), side, 0.0)
