"""Conversion between Gymnasium's spaces and ours, in both directions, and of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from asymrl.worlds.spaces import Box, Discrete, Image, Indices, MultiDiscrete, Record, Space
from asymrl.worlds.stepped_world import Conversion

MOST_SYMBOLS = 1024  # a larger array of small integers is treated as numbers, not as symbols
LARGEST_RANGE = 2**24  # of integers that are scaled to 0..1; wider bounds carry no meaning
SMALLEST_PICTURE, MOST_CHANNELS = 8, 16
UNREADABLE = {
    "Text": "leave it out with gymnasium.wrappers.FilterObservation, or turn it into numbers in a wrapper",
    "Sequence": "its length changes; fill it up to a fixed length in a wrapper, and give a Box",
    "Graph": "its size changes; give nodes and edges as Boxes of a fixed size in a wrapper",
    "OneOf": "give a Dict of all alternatives, and a Discrete that says which one it is, in a wrapper",
}


def to_gymnasium(space: Space) -> gymnasium.Space[Any]:
    """The Gymnasium space with the same values.

    Arrays of indices become a `Box` of small integers, as in MiniGrid, since some libraries do not
    support `MultiDiscrete` grids.
    """
    match space:
        case Discrete(n):
            return spaces.Discrete(n)
        case MultiDiscrete(sizes):
            return spaces.MultiDiscrete(list(sizes))
        case Indices(n, shape):
            return spaces.Box(0, n - 1, shape, space.dtype.type)
        case Box(shape):
            low, high = space.bounds()
            return spaces.Box(low.copy(), high.copy(), shape, space.dtype.type)
        case Record():
            # A list of pairs, since Gymnasium sorts the keys of a dictionary.
            return spaces.Dict([(name, to_gymnasium(part)) for name, part in space.items()])


def to_world(space: Space, value: Any) -> Any:
    """A value, single or batched, as arrays of the dtypes that the world uses."""
    if isinstance(space, Record):
        return {name: to_world(part, value[name]) for name, part in space.items()}
    return np.asarray(value, space.dtype)


def values_to_gymnasium(space: Space, values: Any) -> Any:
    """Values of a world, or of many, `[num_envs, ...]`, as new NumPy arrays that the caller may change."""
    if isinstance(space, Record):
        return {name: values_to_gymnasium(part, values[name]) for name, part in space.items()}
    if isinstance(space, Discrete):
        return np.array(values, np.int64)[()]  # a single index becomes a number
    return np.array(values, space.dtype)


def entry(values: Any, i: int) -> Any:
    """The value of world `i` in a batch of values."""
    if isinstance(values, dict):
        return {name: entry(part, i) for name, part in values.items()}
    return values[i]


class Encoding(NamedTuple):
    """A space of ours, and a function that turns the values of an environment into values of it."""

    space: Space
    read: Callable[[Any], Any]
    conversions: tuple[Conversion, ...] = ()
    """The same function as data, if the environment declares a space."""


def encoding_of_space(space: gymnasium.Space[Any], where: str, *, symbols: int | None = None) -> Encoding | None:
    """How to encode the values of a Gymnasium space, or None for the texts of MiniGrid, which are left out.

    Args:
        space: of observations or latent states.
        where: its name in errors.
        symbols: how many there are, if arrays of bytes are symbols even where they look like pictures.

    Raises:
        ValueError: if the space is not supported.
    """
    match space:
        case spaces.Discrete():
            first = int(space.start)
            return Encoding(
                Discrete(int(space.n)), lambda value: np.int32(int(value) - first), (Conversion(first=first),)
            )
        case spaces.MultiBinary():
            shape = (math.prod(space.shape),)
            return Encoding(
                Indices(2, shape), lambda value: np.asarray(value, np.uint8).reshape(shape), (Conversion(),)
            )
        case spaces.MultiDiscrete():
            return _several_indices(space)
        case spaces.Box():
            return _picture(space) if symbols is None and _picture_axes(space) else _box(space, symbols)
        case spaces.Dict():
            return _record([(str(name), name, part) for name, part in space.spaces.items()], where, symbols)
        case spaces.Tuple():
            return _record([(str(i), i, part) for i, part in enumerate(space.spaces)], where, symbols)
    if type(space).__name__ == "MissionSpace":  # MiniGrid's
        return None
    kind = type(space).__name__
    advice = UNREADABLE.get(kind, "use Discrete, Box, MultiDiscrete, MultiBinary, Dict or Tuple in a wrapper")
    raise ValueError(f"{where} is a {kind} space, which networks here cannot read: {advice}")


def _several_indices(space: spaces.MultiDiscrete) -> Encoding:
    shape, first = (math.prod(space.shape),), np.asarray(space.start).ravel()
    target = Indices(int(np.max(space.nvec)), shape)
    conversion = Conversion(first=tuple(first.tolist()))
    return Encoding(target, lambda value: (np.asarray(value).ravel() - first).astype(target.dtype), (conversion,))


def _picture_axes(space: spaces.Box) -> tuple[int, ...] | None:
    """The order of axes in which an array of bytes is a picture `[height, width, channels]`; None if it is no picture.

    Two axes are height and width. With three, channels come last or first, and are no more than the pixels of a side.
    """
    if space.dtype != np.uint8 or space.low.any() or not (space.high == 255).all():
        return None
    return _axes_of_picture(space.shape)


def _axes_of_picture(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    orders = {2: [(0, 1)], 3: [(0, 1, 2), (1, 2, 0)]}.get(len(shape), [])
    for axes in orders:
        height, width, *channels = (shape[axis] for axis in axes)
        if min(height, width) >= SMALLEST_PICTURE and all(c <= min(MOST_CHANNELS, height, width) for c in channels):
            return axes
    return None


def _picture(space: spaces.Box) -> Encoding:
    axes = _picture_axes(space)
    assert axes is not None
    shape = (*(space.shape[axis] for axis in axes), *([1] if len(axes) == 2 else []))
    own = None if axes == tuple(range(len(axes))) else axes

    def read(value: Any) -> np.ndarray:
        array = np.asarray(value, np.uint8)
        return (array if own is None else array.transpose(own)).reshape(shape)

    return Encoding(Image(shape=shape), read, (Conversion(axes=own),))


def _box(space: spaces.Box, symbols: int | None) -> Encoding:
    size = math.prod(space.shape)
    if np.issubdtype(space.dtype, np.integer):
        low, high = int(space.low.min()), int(space.high.max())
        if size <= MOST_SYMBOLS and high - low < 256:
            return Encoding(
                Indices(min(high - low + 1, symbols or LARGEST_RANGE), (size,)),
                lambda value: (np.asarray(value, np.int64).ravel() - low).astype(np.uint8),
                (Conversion(first=low),),
            )
        if high - low >= LARGEST_RANGE:
            return Encoding(Box((size,)), lambda value: np.asarray(value, np.float32).reshape(size), (Conversion(),))
        # Numbers between 0 and 1.
        scale = np.float32(1.0 / max(high - low, 1))
        return Encoding(
            Box((size,), 0.0, 1.0),
            lambda value: (np.asarray(value, np.float32).ravel() - np.float32(low)) * scale,
            (Conversion(first=low, scale=float(scale)),),
        )
    bounds = (tuple(map(float, end.ravel())) for end in (space.low, space.high))
    return Encoding(Box((size,), *bounds), lambda value: np.asarray(value, np.float32).reshape(size), (Conversion(),))


def _record(parts: list[tuple[str, Any, gymnasium.Space[Any]]], where: str, symbols: int | None) -> Encoding | None:
    encodings = [
        (name, key, encoding_of_space(part, f"{where} {name!r}", symbols=symbols)) for name, key, part in parts
    ]
    readable_parts = [(name, key, how) for name, key, how in encodings if how is not None]
    if not readable_parts:
        return None

    def read(value: Any) -> dict[str, Any]:
        # A policy may act on some parts of a dictionary only.
        there = [part for part in readable_parts if not isinstance(value, Mapping) or part[1] in value]
        return {name: how.read(value[key]) for name, key, how in there}

    conversions = tuple(
        part._replace(path=(name, *part.path), keys=(key, *part.keys))
        for name, key, how in readable_parts
        for part in how.conversions
    )
    return Encoding(Record(tuple((name, how.space) for name, _, how in readable_parts)), read, conversions)


def encoding_of_value(value: Any, where: str) -> Encoding:
    """How to encode values like this one, for which no space is declared: numbers, arrays or dictionaries of them."""
    if isinstance(value, dict):
        parts = [(str(name), name, encoding_of_value(part, f"{where} {name!r}")) for name, part in value.items()]
        return Encoding(
            Record(tuple((name, how.space) for name, _, how in parts)),
            lambda value: {name: how.read(value[key]) for name, key, how in parts},
        )
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and _axes_of_picture(value.shape):
        return _picture(spaces.Box(0, 255, value.shape, np.uint8))
    try:
        size = np.asarray(value, np.float32).size
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{where} is a {type(value).__name__}, which cannot be read as numbers; name a function that returns "
            "an array or a dictionary of arrays"
        ) from error

    def read(value: Any) -> np.ndarray:
        array = np.asarray(value, np.float32).ravel()
        if array.size != size:
            raise ValueError(f"{where} has {array.size} numbers but had {size} before; its size must not change")
        return array

    return Encoding(Box((size,)), read)
