"""Rows of several runs, packed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from asymrl.kernels.lane_blocks import AT_ONCE, BLOCK, ENOUGH, Blocks, chunk_size, over_lanes


@pytest.mark.parametrize("counts", [[1], [9, 0, 8, 17], [3, 40, 1, 16, 25]])
def test_every_row_is_in_one_block(counts: list[int]):
    rows = 40
    blocks = Blocks.of(jnp.asarray(counts), rows)
    chunks = [blocks.lanes_and_rows(jnp.int32(i)) for i in range(int(blocks.chunks))]
    used = int(blocks.end[-1])
    assert used == sum(-(-count // BLOCK) for count in counts)
    pairs = [
        (int(lane), int(row))
        for lanes, of_block in chunks
        for lane, block in zip(lanes, of_block, strict=True)
        for row in block
    ][: used * BLOCK]
    assert [pair for pair in pairs if pair[1] < counts[pair[0]]] == [
        (i, r) for i, n in enumerate(counts) for r in range(n)
    ]
    packed = jnp.asarray([row for _, row in pairs] + [-1] * (len(counts) * rows - len(pairs))).reshape(-1, BLOCK)
    again = blocks.rows_of_lanes(packed, 5)
    for count, lane in zip(counts, again, strict=True):
        np.testing.assert_array_equal(lane[:count], np.arange(min(count, 5)))
    np.testing.assert_array_equal(blocks.sums(jnp.ones(packed.shape[:1])), [-(-count // BLOCK) for count in counts])


@given(lanes=st.integers(1, 400), most=st.integers(1, 20))
def test_chunks_fill_the_room_exactly(lanes: int, most: int):
    size = chunk_size(lanes, most)
    assert (lanes * most) % size == 0
    assert size >= min(lanes // 2, lanes * most)


def test_a_core_computes_block_by_block_and_an_accelerator_many_at_once():
    assert chunk_size(1, 7) == 1
    assert chunk_size(20, 7) == 140 <= AT_ONCE
    assert chunk_size(100, 7) >= ENOUGH
    assert chunk_size(300, 7) == 150


@pytest.mark.parametrize(("lanes", "loops"), [(5, 0), (100, 1)])
def test_few_blocks_are_computed_without_a_loop(lanes: int, loops: int):
    """The host waits for the condition of a loop, and what stands around one cannot be started at once."""
    rows = 40
    counts = jnp.arange(lanes) % rows

    def numbered(counts: jax.Array) -> jax.Array:
        blocks = Blocks.of(counts, rows)

        def compute(i: jax.Array, packed: jax.Array) -> jax.Array:
            lane, row = blocks.lanes_and_rows(i)
            return blocks.write(packed, (1000 * lane[:, None] + row).astype(jnp.float32), i)

        return blocks.rows_of_lanes(blocks.over_chunks(compute, blocks.room(BLOCK)), rows)

    assert str(jax.make_jaxpr(numbered)(counts)).count("while[") == loops
    for lane, (numbers, count) in enumerate(zip(np.asarray(jax.jit(numbered)(counts)), counts, strict=True)):
        np.testing.assert_array_equal(numbers[: int(count)], 1000 * lane + np.arange(count))


def test_vmap_hands_over_all_lanes():
    """Each lane gets its share of the sum over all; what all share is the same for each of them."""
    share = over_lanes(lambda x, scale: scale * x / jnp.sum(x))
    assert share(jnp.float32(3), jnp.float32(2)) == 2
    shares = jax.jit(jax.vmap(share, (0, None)))(jnp.array([1.0, 3.0]), jnp.float32(8))
    np.testing.assert_array_equal(shares, [2, 6])
