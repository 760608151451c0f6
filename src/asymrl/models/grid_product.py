"""Three convolutions over the grids of whole episodes, times a matrix, where only the agent moves.

An episode then has no more different grids than the agent visits cells. A few dozen steps of two episodes visit a
dozen cells on average, but some runs many more, and in a batch every run would be computed as the one that needs
most. The rows to be convolved, one per cell visited, are therefore packed: blocks of a few rows of one run each,
behind each other without gaps, computed a chunk of blocks at a time until none are left. Only the small kernels must
be copied to each block. The large matrix stays where it is, also where other features are multiplied with its first
rows: a part of it would be a copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

BLOCK = 8  # rows of one run that are computed together
USUAL = (0.3, 0.55)  # shares of all cells that are visited by a run alone, and by the one of hundreds that visits most


class Visits(NamedTuple):
    """The cells that the agent visits in some episodes, one row each."""

    episode: Int[Array, "row"]
    cell: Int[Array, "row"]  # in the whole grid, row by row
    used: Int[Array, ""]  # how many rows
    row: Int[Array, "step"]  # the row of each step; steps are those of `[time, episode]`, flattened


class Convolutions(NamedTuple):
    """The parameters of the convolutions."""

    kernels: tuple[Float[Array, "_ _"], ...]  # [9 * inputs, outputs], the 3 x 3 neighbourhood first
    biases: tuple[Float[Array, "_"], ...]


def convolve(
    planes: Float[Array, "*batch H W inputs"], kernel: Float[Array, "taps outputs"]
) -> Float[Array, "*batch H W outputs"]:
    """A 3 x 3 convolution with zero padding, as a product with the neighbourhoods.

    With weights of its own for each run, a convolution would become a grouped one, which is very slow.
    """
    H, W = planes.shape[-3:-1]
    padded = jnp.pad(planes, [(0, 0)] * (planes.ndim - 3) + [(1, 1), (1, 1), (0, 0)])
    taps = [padded[..., i : i + H, j : j + W, :] for i in range(3) for j in range(3)]
    return jnp.concatenate(taps, axis=-1) @ kernel


def layer(
    planes: Float[Array, "*batch H W inputs"], kernel: Float[Array, "taps outputs"], bias: Float[Array, "outputs"]
) -> Float[Array, "*batch H W outputs"]:
    """A convolution and its bias, before the ReLU."""
    y = convolve(planes, kernel)
    return y + jnp.broadcast_to(bias, y.shape)


def visits(marked: Bool[Array, "time episode cell"], cells: Int[np.ndarray, "cell"]) -> Visits:
    """Which cells are visited, and when. `cells` says where in the whole grid they are."""
    _, E, C = marked.shape
    is_visited = jnp.any(marked, axis=0).reshape(-1)
    rank = jnp.cumsum(is_visited) - 1
    rows = C * E  # though a short episode has fewer: what is the same for all lengths is compiled once
    place = jnp.argmax(is_visited[None] & (rank[None] == jnp.arange(rows)[:, None]), axis=-1)
    at = jnp.arange(E)[None] * C + jnp.argmax(marked, axis=-1)
    # After the end of an episode there may be no cell at all; any will do.
    row = jnp.clip(rank[at], 0, rows - 1).reshape(-1).astype(jnp.int32)
    return Visits(
        episode=(place // C).astype(jnp.int32),
        cell=jnp.asarray(cells, jnp.int32)[place % C],
        used=jnp.minimum(rank[-1] + 1, rows).astype(jnp.int32),
        row=row,
    )


@jax.custom_vjp
def grid_product(
    convolutions: Convolutions,
    weight: Float[Array, "inputs width"],
    grids: Float[Array, "episode H W planes"],
    beside: Float[Array, "step others"],
    visits: Visits,
) -> Float[Array, "step width"]:
    """`concatenate([beside, features], -1) @ weight`, where the features of a step are those of the cell it visits.

    Args:
        convolutions: of the embedded grid, with the agent's cell as one more plane.
        weight: first the rows of the other inputs, then those of the features.
        grids: embedded, without the agent.
        beside: other inputs of each step.
        visits: which rows to compute, and which of them each step needs.
    """
    features, _ = _features(convolutions, grids, visits)
    return _product(weight, beside, features, visits)


def _product_forward(
    convolutions: Convolutions, weight: Array, grids: Array, beside: Array, visits: Visits
) -> tuple[Array, Any]:
    features, hidden = _features(convolutions, grids, visits)
    return _product(weight, beside, features, visits), (convolutions, weight, grids, beside, visits, features, hidden)


def _product_backward(saved: Any, gradient: Array) -> tuple[Convolutions, Array, Array, Array, Visits]:
    convolutions, weight, grids, beside, visits, features, hidden = saved
    of_weight, of_beside, of_rows = _product_gradient(weight, beside, features, visits, gradient)
    of_convolutions, of_grids = _features_gradient(convolutions, grids, visits, features, hidden, of_rows)
    nothing: Any = jax.tree.map(lambda leaf: np.zeros(leaf.shape, jax.dtypes.float0), visits)
    return of_convolutions, of_weight, of_grids, of_beside, nothing


grid_product.defvjp(_product_forward, _product_backward)


def over_lanes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one run, from one of all runs with an axis `lane` in front of each array: `vmap` hands it all of
    them at once, and it may arrange their work among them.
    """

    @jax.custom_batching.custom_vmap
    def one(*given: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[0], function(*jax.tree.map(lambda leaf: leaf[None], given)))

    @one.def_vmap
    def all_lanes(size: int, batched: Any, *given: Any) -> Any:
        def spread(leaf: Array, is_batched: bool) -> Array:
            return leaf if is_batched else jnp.broadcast_to(leaf, (size, *leaf.shape))

        result = function(*jax.tree.map(spread, given, tuple(batched)))
        return result, jax.tree.map(lambda _: True, result)

    return one


class Blocks(NamedTuple):
    """Where the rows of all lanes are when they are packed."""

    first: Int[Array, "lane"]  # block of each lane
    end: Int[Array, "lane"]  # the block behind its last
    most: int  # blocks of a lane
    chunk: int  # blocks that are computed at once

    @classmethod
    def of(cls, counts: Int[Array, "lane"], rows: int) -> Blocks:
        lanes = counts.shape[0]
        blocks = -(-counts // BLOCK)
        end = jnp.cumsum(blocks)
        # Small enough that the last, not quite full, is little waste; it must divide what there is room for.
        return cls(end - blocks, end, -(-rows // BLOCK), lanes // 2 if lanes % 2 == 0 else lanes)

    @property
    def chunks(self) -> Int[Array, ""]:
        return -(-self.end[-1] // self.chunk)

    def lanes_and_rows(self, i: Int[Array, ""]) -> tuple[Int[Array, "block"], Int[Array, "block row"]]:
        """Whose the blocks of a chunk are, and which of its rows they have. Of blocks that nobody needs, anything."""
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
        """The first rows of each lane. Those that it does not have are anything."""
        flat = packed.reshape(-1, *packed.shape[2:])
        at = self.first[:, None] * BLOCK + jnp.arange(rows)[None]
        return flat[jnp.minimum(at, flat.shape[0] - 1)]

    def sums(self, packed: Float[Array, "block ..."]) -> Float[Array, "lane ..."]:
        """Over the blocks of each lane, always in the same order."""
        blocks, total = self.end - self.first, 0
        for j in range(self.most):
            part = packed[jnp.minimum(self.first + j, packed.shape[0] - 1)]
            total += jnp.where((j < blocks).reshape(-1, *[1] * (part.ndim - 1)), part, 0.0)
        return jnp.asarray(total)


def _planes(
    grids: Float[Array, "lane episode H W planes"], visits: Visits, lane: Int[Array, "b"], row: Int[Array, "b r"]
) -> Float[Array, "b r H W planes+1"]:
    H, W = grids.shape[2:4]
    row = jnp.minimum(row, visits.cell.shape[1] - 1)
    episode, cell = visits.episode[lane[:, None], row], visits.cell[lane[:, None], row]
    agent = (cell[..., None] == jnp.arange(H * W)[None, None]).astype(jnp.float32).reshape(*row.shape, H, W, 1)
    return jnp.concatenate([grids[lane[:, None], episode], agent], axis=-1)


def _kernels_of(convolutions: Convolutions, lane: Int[Array, "b"]) -> list[tuple[Array, Array]]:
    return [(kernel[lane], bias[lane]) for kernel, bias in zip(convolutions.kernels, convolutions.biases, strict=True)]


@over_lanes
def _features(convolutions: Convolutions, grids: Array, visits: Visits) -> tuple[Array, tuple[Array, ...]]:
    """The outputs of the last convolution and of those before, packed.

    The axis of lanes is only there in name: what stands at a lane may be another's.
    """
    (lanes, rows), (H, W) = visits.cell.shape, grids.shape[2:4]
    blocks = Blocks.of(visits.used, rows)
    sizes = [bias.shape[-1] for bias in convolutions.biases]
    room = tuple(blocks.room(BLOCK, H, W, size) for size in sizes)

    def compute(i: Array, packed: tuple[Array, ...]) -> tuple[Array, ...]:
        lane, row = blocks.lanes_and_rows(i)
        planes, outputs = _planes(grids, visits, lane, row), []
        for kernel, bias in _kernels_of(convolutions, lane):
            planes = jax.nn.relu(jax.vmap(layer)(planes, kernel, bias))
            outputs.append(planes)
        return tuple(blocks.write(*pair, i) for pair in zip(packed, outputs, strict=True))

    *hidden, last = jax.lax.fori_loop(0, blocks.chunks, compute, room)
    return jax.tree.map(lambda leaf: leaf.reshape(lanes, -1, *leaf.shape[1:]), (last, tuple(hidden)))


@over_lanes
def _features_gradient(
    convolutions: Convolutions, grids: Array, visits: Visits, last: Array, hidden: tuple[Array, ...], of_rows: Array
) -> tuple[Convolutions, Array]:
    """The gradients of the convolutions and grids, from those of the features, `[lane, row, ...]`."""
    lanes, rows = visits.cell.shape
    blocks = Blocks.of(visits.used, rows)
    packed = [leaf.reshape(-1, *leaf.shape[2:]) for leaf in (*hidden, last)]
    shapes = [leaf.shape[1:] for leaf in (*convolutions.kernels, *convolutions.biases)]
    room = [blocks.room(*shape) for shape in shapes], blocks.room(BLOCK, *grids.shape[2:])

    def compute(i: Array, found: Any) -> Any:
        lane, row = blocks.lanes_and_rows(i)
        outputs = [blocks.read(each, i) for each in packed]
        inputs = [_planes(grids, visits, lane, row), *outputs[:-1]]
        flow = of_rows[lane[:, None], jnp.minimum(row, rows - 1)].reshape(outputs[-1].shape)
        # The last block of a lane is not quite full.
        is_used = row < visits.used[lane][:, None]
        flow = jnp.where(is_used.reshape(*row.shape, 1, 1, 1), flow, 0.0)
        of_kernels, of_biases = [], []
        layers = zip(inputs, outputs, _kernels_of(convolutions, lane), strict=True)
        for planes, output, (kernel, bias) in reversed(list(layers)):
            flow = jnp.where(output > 0, flow, 0.0)
            _, back = jax.vjp(jax.vmap(layer), planes, kernel, bias)
            flow, of_kernel, of_bias = back(flow)
            of_kernels.insert(0, of_kernel)
            of_biases.insert(0, of_bias)
        of_grids = flow[..., :-1]
        return jax.tree.map(
            lambda room, part: blocks.write(room, part, i), found, ([*of_kernels, *of_biases], of_grids)
        )

    of_parameters, of_planes = jax.lax.fori_loop(0, blocks.chunks, compute, room)
    sums = [blocks.sums(each) for each in of_parameters]
    layers = len(convolutions.kernels)
    is_used = jnp.arange(rows)[None] < visits.used[:, None]
    of_planes = blocks.rows_of_lanes(of_planes, rows).reshape(lanes, rows, -1)
    of_planes = jnp.where(is_used[..., None], of_planes, 0.0)
    is_of = visits.episode[:, None, :] == jnp.arange(grids.shape[1])[None, :, None]
    of_grids = (is_of.astype(jnp.float32) @ of_planes).reshape(grids.shape)
    return Convolutions(tuple(sums[:layers]), tuple(sums[layers:])), of_grids


def _heights(rows: int) -> list[int]:
    """How many rows of a run the large products are compiled for: as many as there may be, and what is usual."""
    usual = {16 * round(share * rows / 16) for share in USUAL}
    return [*sorted(height for height in usual if 0 < height < rows), rows]


def _which(counts: Int[Array, "lane"], heights: list[int]) -> Int[Array, ""]:
    return sum(((jnp.max(counts) > height).astype(jnp.int32) for height in heights[:-1]), jnp.int32(0))


def _padded_rows(last: Array, visits: Visits, height: int, others: int) -> Float[Array, "lane row inputs"]:
    """The features of the first rows of each lane, with zeros in place of the other inputs."""
    blocks = Blocks.of(visits.used, visits.cell.shape[1])
    packed = last.reshape(-1, BLOCK, math.prod(last.shape[3:]))
    rows = blocks.rows_of_lanes(packed, height)
    is_used = (jnp.arange(height)[None] < visits.used[:, None])[..., None]
    return jnp.pad(jnp.where(is_used, rows, 0.0), ((0, 0), (0, 0), (others, 0)))


@over_lanes
def _product(weight: Array, beside: Array, last: Array, visits: Visits) -> Array:
    others, heights = beside.shape[-1], _heights(visits.cell.shape[1])

    def looked_up(height: int) -> Callable[..., Array]:
        def product(weight: Array, last: Array, visits: Visits) -> Array:
            table = _padded_rows(last, visits, height, others) @ weight
            return jnp.take_along_axis(table, visits.row[..., None], axis=1, mode="clip")

        return product

    branches = [looked_up(height) for height in heights]
    found = jax.lax.switch(_which(visits.used, heights), branches, weight, last, visits)
    return beside @ weight[:, :others] + found


@over_lanes
def _product_gradient(
    weight: Array, beside: Array, last: Array, visits: Visits, gradient: Array
) -> tuple[Array, Array, Array]:
    """The gradients of the matrix, of the other inputs, and of the features of each row."""
    others, rows = beside.shape[-1], visits.cell.shape[1]
    heights = _heights(rows)

    def at_height(height: int) -> Callable[..., tuple[Array, Array]]:
        def products(weight: Array, last: Array, visits: Visits, gradient: Array) -> tuple[Array, Array]:
            hot = jax.nn.one_hot(visits.row, height, dtype=gradient.dtype)
            of_table = hot.mT @ gradient
            of_weight = _padded_rows(last, visits, height, others).mT @ of_table
            of_rows = (of_table @ weight.mT)[..., others:]
            return of_weight, jnp.pad(of_rows, ((0, 0), (0, rows - height), (0, 0)))

        return products

    branches = [at_height(height) for height in heights]
    of_weight, of_rows = jax.lax.switch(_which(visits.used, heights), branches, weight, last, visits, gradient)
    # Written over the zeros that stand there; put together, the matrix would be copied.
    of_weight = jax.lax.dynamic_update_slice(of_weight, beside.mT @ gradient, (0, 0, 0))
    return of_weight, gradient @ weight[:, :others].mT, of_rows
