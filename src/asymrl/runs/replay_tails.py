"""The unused end of a replay, which is not written to disk: a run seldom fills its whole replay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

REPLAY = "replay."  # name prefix of the arrays of a replay
MOST_BYTES = 2**36  # of an array whose end is restored


def without_tail(name: str, array: np.ndarray) -> np.ndarray:
    """An array `[run, row, ...]` of a replay without its last rows that are zero in all runs; others unchanged."""
    if not name.startswith(REPLAY) or array.ndim < 2:
        return array
    used = array.reshape(len(array), array.shape[1], -1).any(axis=(0, 2))
    return array[:, : int(np.flatnonzero(used)[-1]) + 1 if used.any() else 0]


def with_tail(name: str, array: np.ndarray, described: Mapping[str, Any] | None) -> np.ndarray:
    """An array as it was before `without_tail`, of the shape that a manifest describes.

    Raises:
        ValueError: if it cannot have had that shape.
    """
    if not name.startswith(REPLAY) or array.ndim < 2 or described is None:
        return array
    shape = tuple(int(size) for size in described["shape"])
    if shape == array.shape:
        return array
    is_longer = len(shape) == array.ndim and shape[1] > array.shape[1]
    if not is_longer or (shape[0], *shape[2:]) != (array.shape[0], *array.shape[2:]):
        raise ValueError(f"array {name} is {list(array.shape)}, expected {list(shape)}")
    if math.prod(shape) * array.itemsize > MOST_BYTES:
        raise ValueError(f"array {name} would be {list(shape)}")
    whole = np.zeros(shape, array.dtype)
    whole[:, : array.shape[1]] = array
    return whole
