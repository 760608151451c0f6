"""The features of the grids of whole episodes, times a matrix, where only the agent moves.

An episode then has at most one grid per cell that the agent visits: a dozen on average in two episodes of a few
dozen steps, though some runs visit many more. One row is computed per visited cell, packed as in `lane_blocks`; only
the small kernels must be copied to each block. The large matrix is used whole, although its first rows are for other
features: a slice without them would be a copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asymrl.kernels.grid_windows import Convolutions, Windows, agent_changes, agent_stamp, without_agent
from asymrl.kernels.lane_blocks import BLOCK, Blocks, over_lanes
from asymrl.nn.features import Parts, sum_of
from asymrl.nn.grid_state import GridState, agent_numbers
from asymrl.nn.layers import Features, product

USUAL = 0.55  # share of all cells that the run with the most visits has visited, among some hundreds
MANY = 48  # from this many runs on, the large products are also compiled for that share


def project_episodes(
    plain: Callable[..., Array],
    phi: Features,
    others: Float[Array, "time episode others"] | None,
    value: Any,
    weight: Float[Array, "inputs width"],
) -> Float[Array, "time episode width"]:
    """The fast path of `layers.project_episodes` for grids in which only the agent moves, also as parts of a record."""
    if isinstance(phi, Parts):
        of_others, *weights = phi.split(others, weight)
        parts = zip(phi.names, phi.parts, weights, strict=True)
        projected = [project_episodes(plain, part, None, value[name], rows) for name, part, rows in parts]
        return sum_of(projected if others is None else [product(others, of_others), *projected])
    if not isinstance(phi, GridState) or phi.place is None or value["agent_id_grid"].ndim != 4:
        return plain(phi, others, value, weight)
    T, E, H, W = value["agent_id_grid"].shape
    inner = phi.place.inner(value["agent_id_grid"]).reshape(T, E, -1) > 0
    cells = phi.place.inner(np.arange(H * W).reshape(H, W)).reshape(-1)
    grids = phi.embedding(value["grid"][0].astype(jnp.int32))[..., 0]
    zeros = weight.shape[0] - phi.size - (0 if others is None else others.shape[-1])
    agent = agent_numbers(value, zeros)
    beside = agent if others is None else jnp.concatenate([others, agent], axis=-1)
    convolutions = Convolutions(phi.kernels, phi.biases)
    read = grid_product(convolutions, weight, grids, beside.reshape(T * E, -1), visits(inner, cells))
    return read.reshape(T, E, -1)


class Visits(NamedTuple):
    """The cells that the agent visits in some episodes, one row each."""

    episode: Int[Array, "row"]
    cell: Int[Array, "row"]  # in the whole grid, row by row
    used: Int[Array, ""]  # how many rows
    row: Int[Array, "step"]  # the row of each step; steps are those of `[time, episode]`, flattened


def visits(marked: Bool[Array, "time episode cell"], cells: Int[np.ndarray, "cell"]) -> Visits:
    """Which cells are visited, and when. `cells` says where in the whole grid they are."""
    _, E, C = marked.shape
    is_visited = jnp.any(marked, axis=0).reshape(-1)
    rank = jnp.cumsum(is_visited) - 1
    rows = C * E  # though a short episode has fewer: a shape that all lengths share is compiled once
    place = jnp.argmax(is_visited[None] & (rank[None] == jnp.arange(rows)[:, None]), axis=-1)
    at = jnp.arange(E)[None] * C + jnp.argmax(marked, axis=-1)
    # After the end of an episode there may be no marked cell; any row will do.
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


class _Chunk:
    """Some blocks: their lanes, their rows, and the windows around the agents."""

    def __init__(self, blocks: Blocks, i: Array, visits: Visits, shape: tuple[int, int], layers: int):
        self.lane, self.row = blocks.lanes_and_rows(i)
        self.row = jnp.minimum(self.row, visits.cell.shape[1] - 1)
        self.episode, cell = (part[self.lane[:, None], self.row] for part in (visits.episode, visits.cell))
        self.windows = [Windows.around(cell, shape, 1 + k) for k in range(layers)]

    def of_rows(self, values: Float[Array, "lane episode cell channels"]) -> Float[Array, "b r cell channels"]:
        """The values of the episode of each row."""
        return values[self.lane[:, None], self.episode]

    def cut(self, values: list[Float[Array, "lane episode cell channels"]]) -> list[Array]:
        """`Windows.cut` of these, for each convolution, without gathering the rest."""

        def one(value: Array, window: Windows) -> Float[Array, "b r window channels"]:
            cells = value[self.lane[:, None, None], self.episode[..., None], window.place]
            return jnp.where(window.inside[..., None], cells, 0.0)

        return [one(*pair) for pair in zip(values, self.windows, strict=True)]


@over_lanes
def _features(convolutions: Convolutions, grids: Array, visits: Visits) -> tuple[Array, list[Array]]:
    """The outputs of the last convolution, packed, and those of all convolutions without the agent.

    The packed array has an axis of lanes in name only: the entries of a lane may belong to another.
    """
    (lanes, rows), shape = visits.cell.shape, (grids.shape[2], grids.shape[3])
    blocks, layers = Blocks.of(visits.used, rows), len(convolutions.kernels)
    without = jax.vmap(without_agent)(convolutions, grids)
    stamps = jax.vmap(agent_stamp)(convolutions.kernels[0])

    def compute(i: Array, packed: Array) -> Array:
        chunk = _Chunk(blocks, i, visits, shape, layers)
        *hidden, last = chunk.cut(without)
        kernels = [kernel[chunk.lane] for kernel in convolutions.kernels[1:]]
        changes = jax.vmap(agent_changes)(stamps[chunk.lane], kernels, hidden, chunk.windows[:-1])
        window, everywhere = chunk.windows[-1], jax.nn.relu(chunk.of_rows(without[-1]))
        features = jnp.where(window.near[..., None], window.paste(jax.nn.relu(last + changes)), everywhere)
        return blocks.write(packed, features, i)

    packed = blocks.over_chunks(compute, blocks.room(BLOCK, *without[-1].shape[2:]))
    return packed.reshape(lanes, -1, *packed.shape[1:]), without


@over_lanes
def _features_gradient(
    convolutions: Convolutions, grids: Array, visits: Visits, last: Array, without: list[Array], of_rows: Array
) -> tuple[Convolutions, Array]:
    """The gradients of the convolutions and grids, from those of the features, `[lane, row, ...]`."""
    rows, episodes, shape = visits.cell.shape[1], grids.shape[1], (grids.shape[2], grids.shape[3])
    blocks, layers = Blocks.of(visits.used, rows), len(convolutions.kernels)
    packed = last.reshape(-1, *last.shape[2:])
    stamps = jax.vmap(agent_stamp)(convolutions.kernels[0])
    parameters = [stamps, *convolutions.kernels[1:]]
    room = [blocks.room(*leaf.shape[1:]) for leaf in parameters], [blocks.room(*leaf.shape[1:]) for leaf in without]

    def compute(i: Array, gradients: Any) -> Any:
        chunk = _Chunk(blocks, i, visits, shape, layers)
        output = blocks.read(packed, i)
        flow = of_rows[chunk.lane[:, None], chunk.row].reshape(output.shape)
        is_used = chunk.row < visits.used[chunk.lane][:, None]  # the last block of a lane is not quite full
        # Also correct far away from the agent: there the outputs are those without it.
        flow = jnp.where((output > 0) & is_used[..., None, None], flow, 0.0)
        *hidden, _ = chunk.cut(without)
        *windows, window = chunk.windows
        kernels = [kernel[chunk.lane] for kernel in convolutions.kernels[1:]]

        def changes(stamp: Array, kernels: list[Array], hidden: list[Array]) -> Array:
            return jax.vmap(agent_changes)(stamp, kernels, hidden, windows)

        _, back = jax.vjp(changes, stamps[chunk.lane], kernels, hidden)
        of_stamp, of_kernels, of_hidden = back(window.cut(flow))
        of_without = [each.paste(part) for each, part in zip(windows, of_hidden, strict=True)] + [flow]
        is_of = (chunk.episode[:, None] == jnp.arange(episodes)[None, :, None]).astype(flow.dtype)
        of_episodes = [
            (is_of @ part.reshape(*chunk.row.shape, -1)).reshape(-1, episodes, *part.shape[2:]) for part in of_without
        ]
        parts = [of_stamp, *of_kernels], of_episodes
        return jax.tree.map(lambda room, part: blocks.write(room, part, i), gradients, parts)

    gradients = blocks.over_chunks(compute, room)
    (of_stamps, *of_changes), of_without = jax.tree.map(blocks.sums, gradients)
    _, back = jax.vjp(jax.vmap(without_agent), convolutions, grids)
    of_convolutions, of_grids = back(of_without)
    _, back = jax.vjp(jax.vmap(agent_stamp), convolutions.kernels[0])
    parts = zip(of_convolutions.kernels, [*back(of_stamps), *of_changes], strict=True)
    of_kernels = [part + more for part, more in parts]
    return Convolutions(tuple(of_kernels), of_convolutions.biases), of_grids


def _heights(lanes: int, rows: int) -> list[int]:
    """The numbers of rows per run that the large products are compiled for: the usual one and the largest."""
    usual = 16 * round(USUAL * rows / 16)
    # For few runs, copying the matrix to the chosen branch takes longer than computing all rows.
    return [usual, rows] if lanes >= MANY and 0 < usual < rows else [rows]


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
    others, heights = beside.shape[-1], _heights(*visits.cell.shape)

    def looked_up(height: int) -> Callable[..., Array]:
        def product(weight: Array, last: Array, visits: Visits) -> Array:
            table = _padded_rows(last, visits, height, others) @ weight
            return jnp.take_along_axis(table, visits.row[..., None], axis=1, mode="clip")

        return product

    branches = [looked_up(height) for height in heights]
    grid_part = jax.lax.switch(_which(visits.used, heights), branches, weight, last, visits)
    return beside @ weight[:, :others] + grid_part


@over_lanes
def _product_gradient(
    weight: Array, beside: Array, last: Array, visits: Visits, gradient: Array
) -> tuple[Array, Array, Array]:
    """The gradients of the matrix, of the other inputs, and of the features of each row."""
    others, rows = beside.shape[-1], visits.cell.shape[1]
    heights = _heights(*visits.cell.shape)

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
    # Overwrites the zeros there; concatenating would copy the matrix.
    of_weight = jax.lax.dynamic_update_slice(of_weight, beside.mT @ gradient, (0, 0, 0))
    return of_weight, gradient @ weight[:, :others].mT, of_rows
