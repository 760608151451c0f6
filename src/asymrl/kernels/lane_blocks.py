"""Packs the work of many runs, of which a few need much and most need little.

In a batch every run takes as long as the one that needs the most. Rows of work are therefore packed into blocks, each
with a few rows of one run, one after another without gaps, and computed a chunk of blocks at a time. The axis of runs
is explicit here, and called `lane`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

T = TypeVar("T")

BLOCK = 8  # rows of one run that are computed together
SEVERAL = 4  # this many lanes occur only on an accelerator; a pool on a CPU core has one
ENOUGH = 64  # blocks that keep an accelerator busy: with fewer, starting a chunk takes longer than computing it
AT_ONCE = 320  # up to this many blocks, computing them all is faster than asking the device how many chunks there are


def over_lanes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of one run from a function of all runs, whose arrays have a leading axis `lane`. `vmap` passes
    all runs at once, so the function can distribute their work.
    """

    @jax.custom_batching.custom_vmap
    def one(*arguments: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[0], function(*jax.tree.map(lambda leaf: leaf[None], arguments)))

    @one.def_vmap
    def all_lanes(size: int, batched: Any, *arguments: Any) -> Any:
        def spread(leaf: Array, is_batched: bool) -> Array:
            return leaf if is_batched else jnp.broadcast_to(leaf, (size, *leaf.shape))

        result = function(*jax.tree.map(spread, arguments, tuple(batched)))
        return result, jax.tree.map(lambda _: True, result)

    return one


def chunk_size(lanes: int, most: int) -> int:
    """How many blocks to compute at once, if each lane has at most `most`.

    Small enough that the last chunk, which is not quite full, wastes little, but large enough to keep an accelerator
    busy. It divides the number of blocks that there is room for.
    """
    room, half = lanes * most, -(-lanes // 2)
    if lanes >= SEVERAL and room <= AT_ONCE:
        return room
    target = min(max(half, ENOUGH), room) if lanes >= SEVERAL else half
    return next(size for size in range(target, room + 1) if room % size == 0)


class Blocks(NamedTuple):
    """Where the packed rows of all lanes are."""

    first: Int[Array, "lane"]  # the first block of each lane
    end: Int[Array, "lane"]  # the block after its last
    most: int  # blocks of a lane
    chunk: int  # blocks that are computed at once

    @classmethod
    def of(cls, counts: Int[Array, "lane"], rows: int) -> Blocks:
        lanes, most = counts.shape[0], -(-rows // BLOCK)
        blocks = -(-counts // BLOCK)
        end = jnp.cumsum(blocks)
        return cls(end - blocks, end, most, chunk_size(lanes, most))

    @property
    def chunks(self) -> Int[Array, ""]:
        return -(-self.end[-1] // self.chunk)

    def over_chunks(self, compute: Callable[[Int[Array, ""], T], T], start: T) -> T:
        """`compute(i, result)` for each chunk in turn."""
        if self.chunk == self.first.shape[0] * self.most:
            return compute(jnp.int32(0), start)
        return jax.lax.fori_loop(0, self.chunks, compute, start)

    def lanes_and_rows(self, i: Int[Array, ""]) -> tuple[Int[Array, "block"], Int[Array, "block row"]]:
        """The lane of each block of a chunk, and which rows of that lane it holds. Arbitrary for unused blocks."""
        block = i * self.chunk + jnp.arange(self.chunk)
        lane = jnp.sum(self.end[None, :] <= block[:, None], axis=1)
        lane = jnp.minimum(lane, self.end.shape[0] - 1)
        row = (block - self.first[lane])[:, None] * BLOCK + jnp.arange(BLOCK)[None]
        return lane, jnp.clip(row, 0, self.most * BLOCK - 1)

    def room(self, *shape: int) -> Float[Array, "block ..."]:
        return jnp.zeros((self.first.shape[0] * self.most, *shape))

    def write(self, packed: Array, chunk: Array, i: Int[Array, ""]) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(packed, chunk, i * self.chunk, 0)

    def read(self, packed: Array, i: Int[Array, ""]) -> Array:
        return jax.lax.dynamic_slice_in_dim(packed, i * self.chunk, self.chunk, 0)

    def rows_of_lanes(self, packed: Float[Array, "block row ..."], rows: int) -> Float[Array, "lane row ..."]:
        """The first `rows` rows of each lane; arbitrary beyond those that it has."""
        flat = packed.reshape(-1, *packed.shape[2:])
        at = self.first[:, None] * BLOCK + jnp.arange(rows)[None]
        return flat[jnp.minimum(at, flat.shape[0] - 1)]

    def sums(self, packed: Float[Array, "block ..."]) -> Float[Array, "lane ..."]:
        """Sums over the blocks of each lane, always in the same order."""
        blocks, total = self.end - self.first, 0
        for j in range(self.most):
            part = packed[jnp.minimum(self.first + j, packed.shape[0] - 1)]
            total += jnp.where((j < blocks).reshape(-1, *[1] * (part.ndim - 1)), part, 0.0)
        return jnp.asarray(total)
