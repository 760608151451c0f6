"""Length buckets: learning passes of a few fixed lengths, so that short episodes need not pay for long ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from asymrl.learners.episodes import RUN_AXIS, Episodes

SHORTEST = 16  # no learning pass is compiled for fewer steps, unless the time limit is lower
RATIO = 2.5  # between two lengths that are compiled: each adds a fifth to the time of compilation


def in_bucket(function: Callable[..., Any], time_limit: int, longest: Int[Array, ""], *arguments: Any) -> Any:
    """The arrays of `function(length, *arguments)`, with the first compiled length that is at least `longest`.

    Vectorised over runs, one length is chosen that fits all of them: under an ordinary `vmap` every length would be
    computed.
    """
    lengths = bucket_lengths(time_limit)
    arrays, static = eqx.partition(arguments, eqx.is_array)

    def at_length(length: int, arrays: Any) -> Any:
        return eqx.filter(function(length, *eqx.combine(arrays, static)), eqx.is_array)

    branches = [partial(at_length, length) for length in lengths]

    @jax.custom_batching.custom_vmap
    def call(longest: Int[Array, ""], arrays: Any) -> Any:
        return jax.lax.switch(first_that_fits(longest, lengths), branches, arrays)

    @call.def_vmap
    def call_for_all_runs(size: int, is_batched: Any, longest: Int[Array, "*run"], arrays: Any) -> Any:
        places = run_axes(arrays)
        arrays = jax.tree.map(
            lambda leaf, axis, batched: jnp.moveaxis(leaf, 0, axis) if batched else leaf, arrays, places, is_batched[1]
        )
        axes = jax.tree.map(lambda axis, batched: axis if batched else None, places, is_batched[1])
        of_all = [jax.vmap(branch, in_axes=(axes,), axis_size=size) for branch in branches]
        result = jax.lax.switch(first_that_fits(jnp.max(longest), lengths), of_all, arrays)
        return result, jax.tree.map(lambda _: True, result)

    return call(longest, arrays)


def run_axes(arrays: Any) -> Any:
    """Where each array has its axis of runs: first, but in episodes time comes first, as everywhere else."""

    def axes(part: Any) -> Any:
        if not isinstance(part, Episodes):
            return 0
        return Episodes(*(jax.tree.map(lambda _, n=n: n, field) for field, n in zip(part, RUN_AXIS, strict=True)))

    return jax.tree.map(axes, arrays, is_leaf=lambda part: isinstance(part, Episodes))


def first_that_fits(longest: Int[Array, ""], lengths: Sequence[int]) -> Int[Array, ""]:
    """The index of the first length, in order, that is long enough. A search would be a loop on the device."""
    return sum(((longest > length).astype(jnp.int32) for length in lengths[:-1]), jnp.int32(0))


def bucket_lengths(time_limit: int) -> tuple[int, ...]:
    """The lengths that a learning pass is compiled for."""
    lengths = [time_limit]
    while (shorter := math.ceil(lengths[0] / RATIO)) >= SHORTEST:
        lengths.insert(0, shorter)
    return tuple(lengths)
