"""The numeric settings of runs as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Array

from asymrl.learning.settings import Settings


class Numbers(NamedTuple):
    """Numeric settings as arrays; with several runs, one of each per run. They come from the host as NumPy arrays."""

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
    names = ("steps", "log_period", "target_period")
    whole = {name: getattr(settings, name) for name in names}
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
        **{name: np.asarray(value, np.int32) for name, value in whole.items()},  # pyright: ignore[reportArgumentType]
        **{name: np.asarray(value, np.float32) for name, value in reals.items()},  # pyright: ignore[reportArgumentType]
    )


def stack_numbers(settings: Sequence[Settings]) -> Numbers:
    """The numbers of several runs, one of each per run."""
    return Numbers(*(np.stack(column) for column in zip(*map(numbers_of, settings), strict=True)))  # pyright: ignore[reportArgumentType]
