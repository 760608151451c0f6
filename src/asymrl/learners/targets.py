"""Target networks: copies that follow their networks now and then, or a little at a time."""

from __future__ import annotations

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asymrl.learners.numbers import Numbers
from asymrl.settings import MOST_STEPS, A2CSettings, DQNSettings

Model = TypeVar("Model")


def update_target(
    model: Model,
    target: Model,
    settings: A2CSettings | DQNSettings,
    numbers: Numbers,
    timesteps: Int[Array, ""],
    next_target: Int[Array, ""],
    on: Bool[Array, ""],
) -> tuple[Model, Int[Array, ""]]:
    """The target after this update, and the timestep at which the next copy is due.

    A frozen target is copied when that is due, a Polyak target moves at every update; unless the run is `on`, nothing
    changes.
    """
    if settings.target == "polyak":
        return polyak_update(model, target, jnp.where(on, numbers.polyak, 0.0)), next_target
    due = on & (timesteps >= next_target)
    # A sum beyond 32 bits would be negative, and a copy due at every update.
    following = timesteps + jnp.minimum(numbers.target_period, MOST_STEPS - timesteps)
    new, (old, static) = eqx.filter(model, eqx.is_array), eqx.partition(target, eqx.is_array)
    copied = jax.tree.map(lambda new, old: jnp.where(due, new, old), new, old)
    return eqx.combine(copied, static), jnp.where(due, following, next_target)


def polyak_update(model: Model, target: Model, share: Float[Array, ""]) -> Model:
    """The target with this share of the model in it."""
    new, (old, static) = eqx.filter(model, eqx.is_array), eqx.partition(target, eqx.is_array)

    def leaf(new: Array, old: Array) -> Array:
        # A full copy must be exact, and an unmoved target untouched.
        return jnp.where(share == 1, new, jnp.where(share == 0, old, share * new + (1 - share) * old))

    return eqx.combine(jax.tree.map(leaf, new, old), static)
