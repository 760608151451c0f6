"""The numeric settings of runs as arrays."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from asymrl.learning.settings import Settings


class Numbers(NamedTuple):
    """Numeric settings as arrays; a batch of runs has one of each per run."""

    steps: Array
    log_period: Array
    target_period: Array
    actor_rate: Array
    critic_rate: Array
    adam_eps: Array
    clip_norm: Array
    entropy_start: Array
    entropy_end: Array
    entropy_steps: Array
    discount: Array
    td_lambda: Array
    polyak: Array
    stop_return: Array


def numbers_of(settings: Settings) -> Numbers:
    """The numbers of one run."""
    reals = {
        "actor_rate": settings.actor_rate,
        "critic_rate": settings.critic_rate,
        "adam_eps": settings.adam_eps,
        "clip_norm": np.inf if settings.clip_norm is None else settings.clip_norm,
        "entropy_start": settings.entropy_weight,
        "entropy_end": settings.entropy_weight / 10 if settings.entropy_end is None else settings.entropy_end,
        "entropy_steps": settings.entropy_steps,
        "discount": settings.discount,
        "td_lambda": settings.td_lambda,
        "polyak": settings.polyak,
        "stop_return": np.inf if settings.stop_return is None else settings.stop_return,
    }
    return Numbers(
        steps=jnp.int32(settings.steps),
        log_period=jnp.int32(settings.log_period),
        target_period=jnp.int32(settings.target_period),
        **{name: jnp.float32(value) for name, value in reals.items()},
    )
