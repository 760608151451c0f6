"""Products with the matrices of a policy, for the kernel that plays whole episodes.

A vector is a list of parts: the gates of the memory, or pieces of a hidden layer.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from asymrl.kernels.tensor_cores import COLUMNS, as_columns, column, product

Parts = list[Float[Array, "part"]]

TILE = 4096  # entries of a matrix that are read together
TILES = 4  # tiles read before the first is used, so that several reads overlap
PART = 128  # size of a part of a hidden layer, for tensor cores
# Tiles of PART x PART that stay in shared memory: the memory's three, which are needed first, and one more.
RESIDENT = 4
LARGEST = 65504.0  # the largest finite float16
AHEAD = 1  # tiles that are read ahead of use


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()


class PolicyProducts(abc.ABC):
    """Products with the memory's matrix, which is matrix 0, and with the matrices of the hidden layers, from 1 on."""

    @abc.abstractmethod
    def begin_step(self) -> None:
        """Called at the beginning of each step."""

    @abc.abstractmethod
    def product(self, vectors: list[Parts], i: int) -> list[Parts]:
        """`vector @ matrix` for each vector; an episode may have several."""


class PlainProducts(PolicyProducts):
    """In float32. Vectors are passed on through memory, and matrices are read in tiles spread over all threads.

    Vectors are multiplied one at a time: a tile then stays in the threads that read it. A product with a matrix of
    vectors would move it between threads.
    """

    def __init__(self, policy: Any, tape: Any, window: int | None, interpret: bool):
        self.matrices = [policy.hidden_weight, *(weight for weight, _ in policy.layers)]
        self.inputs = [tape.memory, tape.memory, *tape.hidden[:-1]]
        # The first layer's product wrote this memory in the previous step; the tape starts with an empty one.
        self.has_memory = window is None and len(policy.layers) > 0
        self.interpret = interpret

    def begin_step(self) -> None:
        """Nothing is read ahead."""

    def product(self, vectors: list[Parts], i: int) -> list[Parts]:
        weight, xs = self.matrices[i], self.inputs[i]
        at_once = xs.shape[0]
        if len(vectors) > at_once:
            groups = [vectors[j : j + at_once] for j in range(0, len(vectors), at_once)]
            return [parts for group in groups for parts in self.product(group, i)]
        if i > 0 or not self.has_memory:
            self.publish(xs, [vector for (vector,) in vectors])
        parts = 3 if i == 0 else 1
        K, N = weight.shape[0], weight.shape[1] // parts
        rows = max(1, min(K, TILE // weight.shape[1]))
        rows = rows if K % rows == 0 else power_of_two(rows) // 2
        tiles = min(TILES, K // rows)
        columns = [slice(j * N, (j + 1) * N) for j in range(parts)]
        episodes = range(len(vectors))

        def add_tiles(j: Array, sums: list[list[Array]]) -> list[list[Array]]:
            blocks = [_slice((j * tiles + k) * rows, rows) for k in range(tiles)]
            read = [([xs[e, k] for e in episodes], [weight[k, part] for part in columns]) for k in blocks]
            for pieces, matrices in read:
                matrices = [matrix.astype(jnp.float32) for matrix in matrices]
                sums = [
                    [total + x[:, None] * w for total, w in zip(totals, matrices, strict=True)]
                    for totals, x in zip(sums, pieces, strict=True)
                ]
            return sums

        zeros = [[jnp.zeros((rows, N), jnp.float32)] * parts for _ in episodes]
        sums = jax.lax.fori_loop(0, K // (rows * tiles), add_tiles, zeros)
        return [[jnp.sum(total, axis=0) for total in totals] for totals in sums]

    def publish(self, where: Any, values: list[Array]) -> None:
        """Writes vectors that all threads read next, once all have read the previous ones."""
        self.wait()
        for e, value in enumerate(values):
            where[e, :] = value
        self.wait()

    def wait(self) -> None:
        if not self.interpret:
            from jax.experimental.pallas import triton

            triton.debug_barrier()


class Tile(NamedTuple):
    """A piece of a matrix: which part of a vector it multiplies, and which part of the result it adds to."""

    weight: Any
    k: int
    n: int
    shape: tuple[int, int]

    def read(self) -> Float[Array, "inputs outputs"]:
        places = [slice(i * size, (i + 1) * size) for i, size in zip((self.k, self.n), self.shape, strict=True)]
        return self.weight[tuple(places)]


class TensorProducts(PolicyProducts):
    """On tensor cores. The first tiles stay in the program; the others are read again in each step, ahead of use."""

    def __init__(self, policy: Any):
        gates, layers = policy.hidden_weight, [weight for weight, _ in policy.layers]
        parts = [gates.shape[0], *(min(PART, weight.shape[1]) for weight in layers)]
        self.tiles = [_tiles(weight, part) for weight, part in zip([gates, *layers], parts, strict=True)]
        self.resident = [tile.read() for tile in self.in_order()[:RESIDENT]]
        self.ahead: list[Array] = []
        self.unread: Iterator[Tile] = iter(())

    def in_order(self) -> list[Tile]:
        return [tile for tiles in self.tiles for tile in tiles]

    def begin_step(self) -> None:
        self.unread = iter(self.in_order()[RESIDENT:])
        self.ahead = []
        self.read_ahead(AHEAD)

    def read_ahead(self, tiles: int) -> None:
        self.ahead += [tile.read() for tile in itertools.islice(self.unread, tiles)]

    def next(self) -> Array:
        self.read_ahead(1)
        return self.ahead.pop(0)

    def product(self, vectors: list[Parts], i: int) -> list[Parts]:
        dtype = self.tiles[i][0].weight.dtype
        if i > 1 and dtype == jnp.float16:  # memories are at most 1; outputs of layers are not bounded
            vectors = [[jnp.minimum(part, LARGEST) for part in parts] for parts in vectors]
        groups = [vectors[j : j + COLUMNS] for j in range(0, len(vectors), COLUMNS)]
        tables = [[as_columns(parts, dtype) for parts in zip(*group, strict=True)] for group in groups]
        before = sum(len(tiles) for tiles in self.tiles[:i])
        sums: list[dict[int, Array]] = [{} for _ in groups]
        for number, tile in enumerate(self.tiles[i], before):
            matrix = self.resident[number] if number < RESIDENT else self.next()
            for table, totals in zip(tables, sums, strict=True):
                totals[tile.n] = product(matrix.T, table[tile.k]) + totals.get(tile.n, 0.0)
        return [
            [column(total, j) for total in totals.values()]
            for group, totals in zip(groups, sums, strict=True)
            for j in range(len(group))
        ]


def _tiles(weight: Any, part: int) -> list[Tile]:
    """The tiles of a whole matrix, whose result has parts of this size."""
    rows = min(PART, weight.shape[0])
    return [
        Tile(weight, k, n, (rows, part)) for k in range(weight.shape[0] // rows) for n in range(weight.shape[1] // part)
    ]


def _slice(start: Array, size: int) -> Any:
    from jax.experimental import pallas as pl

    return pl.ds(start, size)
