"""The spaces of the worlds in Gymnasium's terms, and values on their way between the two."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from asymrl.worlds.spaces import Box, Discrete, Indices, Record, Space


def to_gymnasium(space: Space) -> gymnasium.Space[Any]:
    """The Gymnasium space with the same values.

    Arrays of indices become a `Box` of small integers, the form that MiniGrid made common and that libraries
    read; `MultiDiscrete` grids are refused by some of them.
    """
    match space:
        case Discrete(n):
            return gymnasium.spaces.Discrete(n)
        case Indices(n, shape):
            return gymnasium.spaces.Box(0, n - 1, shape, space.dtype.type)
        case Box(shape):
            low, high = space.bounds()
            return gymnasium.spaces.Box(low.copy(), high.copy(), shape, space.dtype.type)
        case Record():
            # From pairs, so that Gymnasium keeps our order instead of sorting the keys.
            return gymnasium.spaces.Dict([(name, to_gymnasium(part)) for name, part in space.items()])


def to_world(space: Space, value: Any) -> Any:
    """A value, single or batched, as arrays of the dtypes that the world uses."""
    if isinstance(space, Record):
        return {name: to_world(part, value[name]) for name, part in space.items()}
    return np.asarray(value, space.dtype)


def batch_to_gymnasium(space: Space, values: Any) -> Any:
    """Values of many worlds, `[num_envs, ...]`, as fresh NumPy arrays that are the caller's own."""
    if isinstance(space, Record):
        return {name: batch_to_gymnasium(part, values[name]) for name, part in space.items()}
    return np.array(values, np.int64 if isinstance(space, Discrete) else space.dtype)


def entry(values: Any, i: int) -> Any:
    """The value of world `i` in a batch of values."""
    if isinstance(values, dict):
        return {name: entry(part, i) for name, part in values.items()}
    return values[i]
