"""Convolutions over a grid in which only the agent moves.

Their outputs without the agent are the same at all times of an episode. The agent changes the first one in the 3 x 3
cells around it, the next in 5 x 5, the one after that in 7 x 7. Convolutions are linear, so each multiplies only the
changes of its inputs with its kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asymrl.nn.grid_state import convolution


class Convolutions(NamedTuple):
    """The parameters of the convolutions."""

    kernels: tuple[Float[Array, "_ _"], ...]  # [9 * inputs, outputs], the 3 x 3 neighbourhood first
    biases: tuple[Float[Array, "_"], ...]


class Windows(NamedTuple):
    """Square windows around the agents of some rows, and where they lie in the grid."""

    inside: Bool[Array, "*rows window"]  # whether a place of the window is in the grid
    place: Int[Array, "*rows window"]  # which cell that is
    near: Bool[Array, "*rows cell"]  # whether a cell is in the window
    at: Int[Array, "*rows cell"]  # which place that is

    @classmethod
    def around(cls, cell: Int[Array, "*rows"], shape: tuple[int, int], radius: int) -> Windows:
        (H, W), size = shape, 2 * radius + 1
        y, x = (part[..., None] for part in (cell // W, cell % W))

        def spread(numbers: np.ndarray) -> Array:
            return jnp.broadcast_to(jnp.asarray(numbers, jnp.int32), (*cell.shape, numbers.size))

        down, right = (spread(part.ravel() - radius) for part in np.indices((size, size)))
        rows, columns = y + down, x + right
        inside = (rows >= 0) & (rows < H) & (columns >= 0) & (columns < W)
        place = jnp.clip(rows, 0, H - 1) * W + jnp.clip(columns, 0, W - 1)
        below, beside = (
            spread(part.ravel()) - of + radius for part, of in zip(np.indices((H, W)), (y, x), strict=True)
        )
        near = (below >= 0) & (below < size) & (beside >= 0) & (beside < size)
        return cls(inside, place, near, jnp.clip(below, 0, size - 1) * size + jnp.clip(beside, 0, size - 1))

    def cut(self, cells: Float[Array, "*rows cell channels"]) -> Float[Array, "*rows window channels"]:
        """The contents of the windows; zeros outside the grid."""
        return _gather(cells, self.place, self.inside)

    def paste(self, window: Float[Array, "*rows window channels"]) -> Float[Array, "*rows cell channels"]:
        """The windows in a grid of zeros."""
        return _gather(window, self.at, self.near)


def _gather(values: Array, index: Array, is_there: Array) -> Array:
    return jnp.where(is_there[..., None], jnp.take_along_axis(values, index[..., None], axis=-2, mode="clip"), 0.0)


def spread(
    change: Float[Array, "*rows window inputs"], kernel: Float[Array, "taps outputs"]
) -> Float[Array, "*rows wider outputs"]:
    """How the outputs of a convolution change if its inputs change in a square window.

    The changes are in a window that is wider by one on each side.
    """
    size = math.isqrt(change.shape[-2])
    inputs, outputs = change.shape[-1], kernel.shape[-1]
    by_tap = change @ kernel.reshape(9, inputs, outputs).swapaxes(0, 1).reshape(inputs, -1)
    by_tap = by_tap.reshape(*change.shape[:-2], size, size, 9 * outputs)
    leading = [(0, 0)] * (change.ndim - 2)
    # Split, not sliced: the gradient of nine slices is a sum of nine arrays that are zero except in one part.
    parts = jax.lax.split(by_tap, [outputs] * 9, axis=by_tap.ndim - 1)
    shifted = [
        jnp.pad(parts[3 * i + j], [*leading, (2 - i, i), (2 - j, j), (0, 0)]) for i in range(3) for j in range(3)
    ]
    return sum(shifted[1:], shifted[0]).reshape(*change.shape[:-2], -1, outputs)


def without_agent(
    convolutions: Convolutions, grids: Float[Array, "episode H W planes"]
) -> list[Float[Array, "episode cell channels"]]:
    """The outputs of the convolutions before their ReLU, as if there were no agent."""
    planes = jnp.concatenate([grids, jnp.zeros_like(grids[..., :1])], axis=-1)
    outputs = []
    for kernel, bias in zip(convolutions.kernels, convolutions.biases, strict=True):
        outputs.append(convolution(planes, kernel, bias))
        planes = jax.nn.relu(outputs[-1])
    return [output.reshape(output.shape[0], -1, output.shape[-1]) for output in outputs]


def agent_stamp(kernel: Float[Array, "taps outputs"]) -> Float[Array, "window outputs"]:
    """What the agent adds to the first convolution around it: the taps of its plane, which is the last, mirrored."""
    return kernel.reshape(9, -1, kernel.shape[-1])[::-1, -1]


def agent_changes(
    stamp: Float[Array, "window channels"],
    kernels: Sequence[Float[Array, "_ _"]],
    before: Sequence[Float[Array, "*rows window channels"]],
    windows: Sequence[Windows],
) -> Float[Array, "*rows window channels"]:
    """How the agent changes the last convolution, from windows of the outputs of all earlier ones without it."""
    change = jnp.broadcast_to(stamp, before[0].shape)
    for without, window, kernel in zip(before, windows, kernels, strict=True):
        after = jax.nn.relu(without + change) - jax.nn.relu(without)
        change = spread(jnp.where(window.inside[..., None], after, 0.0), kernel)
    return change
