"""How a weight changes over training."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from asymrl.learners.numbers import Numbers
from asymrl.settings import A2CSettings, PPOSettings

SCHEDULES = ("constant", "linear", "exponential")


def scheduled(
    name: str,
    step: Int[Array, ""],
    *,
    start: Float[Array, ""] | float,
    end: Float[Array, ""] | float,
    steps: Float[Array, ""] | float,
) -> Float[Array, ""]:
    """The weight after `step` timesteps.

    `constant` stays at `start`; `linear` reaches `end` after `steps`; `exponential` halves every `steps`.
    """
    start, end = jnp.asarray(start, jnp.float32), jnp.asarray(end, jnp.float32)
    if name == "constant":
        return start
    progress = step.astype(jnp.float32) / jnp.maximum(jnp.asarray(steps, jnp.float32) - 1, 1)
    if name == "linear":
        share = jnp.clip(progress, 0.0, 1.0)
        return start * (1 - share) + end * share
    if name == "exponential":
        return start * 0.5 ** (step.astype(jnp.float32) / jnp.asarray(steps, jnp.float32))
    raise ValueError(f"unknown schedule {name!r}; choose one of {', '.join(SCHEDULES)}")


def negentropy_weight(
    timesteps: Int[Array, ""], settings: A2CSettings | PPOSettings, numbers: Numbers
) -> Float[Array, ""]:
    """The weight lambda of the negative entropy at this time."""
    return scheduled(
        settings.entropy_schedule,
        timesteps,
        start=numbers.entropy_weight,
        end=numbers.entropy_end,
        steps=numbers.entropy_steps,
    )
