"""Learning passes of a few fixed lengths: short episodes need not pay for long ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from asymrl.learners.episodes import RUN_AXIS, Episodes

SHORTEST = 16  # no learning pass is compiled for fewer steps, unless the time limit is lower
RATIO = 2.5  # between two lengths that are compiled: each adds a fifth to the time of compilation


def over_runs(
    one: Callable[..., Any],
    time_limit: int,
    episodes: Episodes,
    active: Bool[Array, "run"],
    models: tuple[Any, ...],
    others: tuple[Any, ...],
) -> Any:
    """`one(length, *models, episodes, *others)` for every run, with the shortest compiled length that fits them all.

    The choice is made outside the vmap: inside it, all lengths would be computed.
    """
    lengths = lengths_compiled(time_limit)
    longest = jnp.max(jnp.where(active[:, None], episodes.lengths, 0))
    arrays, static = eqx.partition(models, eqx.is_array)

    def at_length(length: int) -> Callable[..., Any]:
        def run(arrays: Any, episodes: Episodes, *others: Any) -> Any:
            return eqx.filter(one(length, *eqx.combine(arrays, static), episodes, *others), eqx.is_array)

        return jax.vmap(run, (0, RUN_AXIS, *[0] * len(others)))

    choice = which_fits(longest, lengths)
    return jax.lax.switch(choice, [at_length(length) for length in lengths], arrays, episodes, *others)


def which_fits(longest: Int[Array, ""], lengths: Sequence[int]) -> Int[Array, ""]:
    """The index of the first length, in order, that is long enough. A search would be a loop on the device."""
    return sum(((longest > length).astype(jnp.int32) for length in lengths[:-1]), jnp.int32(0))


def lengths_compiled(time_limit: int) -> tuple[int, ...]:
    """The episode lengths that the learning pass is compiled for. Short episodes need not pay for long ones."""
    lengths = [time_limit]
    while (shorter := math.ceil(lengths[0] / RATIO)) >= SHORTEST:
        lengths.insert(0, shorter)
    return tuple(lengths)
