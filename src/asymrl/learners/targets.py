"""Target networks: copies that follow their networks now and then, or a little at a time."""

from __future__ import annotations

from typing import Any, TypeVar

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
    timesteps: Int[Array, "run"],
    next_target: Int[Array, "run"],
    active: Bool[Array, "run"],
) -> tuple[Model, Int[Array, "run"]]:
    """The targets `[run, ...]` after this update, and the timestep at which the next copy is due.

    A frozen target is copied when that is due, a Polyak target moves at every update; those of runs that are not
    `active` stay as they are.
    """
    if settings.target == "polyak":
        return moved(model, target, jnp.where(active, numbers.polyak, 0.0)), next_target
    due = active & (timesteps >= next_target)
    # A sum beyond 32 bits would be negative, and a copy due at every update.
    following = timesteps + jnp.minimum(numbers.target_period, MOST_STEPS - timesteps)
    return copied(model, target, due), jnp.where(due, following, next_target)


def copied(model: Model, target: Model, due: Bool[Array, "run"]) -> Model:
    """The targets with a copy of the model where that is due.

    The runs are copied one by one, since few are due: a selection by run would read and write the networks of all,
    and so would a condition around it.
    """
    new = eqx.filter(model, eqx.is_array)
    old, static = eqx.partition(target, eqx.is_array)
    place = jnp.cumsum(due)

    def copy(i: Int[Array, ""], old: Any) -> Any:
        run = jnp.sum(place <= i)  # the index of the run that is due as number i, from 0

        def leaf(new: Array, old: Array) -> Array:
            return jax.lax.dynamic_update_index_in_dim(old, jax.lax.dynamic_index_in_dim(new, run), run, 0)

        return jax.tree.map(leaf, new, old)

    return eqx.combine(jax.lax.fori_loop(0, place[-1], copy, old), static)


def moved(model: Model, target: Model, shares: Float[Array, "run"]) -> Model:
    """The target with this share of the model in it, by run."""
    new = eqx.filter(model, eqx.is_array)
    old, static = eqx.partition(target, eqx.is_array)

    def leaf(new: Array, old: Array) -> Array:
        share = shares.reshape(-1, *[1] * (new.ndim - 1))
        # A full copy must be exact, and an unmoved target untouched.
        return jnp.where(share == 1, new, jnp.where(share == 0, old, share * new + (1 - share) * old))

    return eqx.combine(jax.tree.map(leaf, new, old), static)
