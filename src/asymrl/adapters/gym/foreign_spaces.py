"""Gymnasium's spaces in our terms, with the functions that turn their values into arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from asymrl.worlds.spaces import Box, Discrete, Indices, Record, Space
from asymrl.worlds.stepped_world import Conversion

MOST_SYMBOLS = 1024  # a larger array of small integers is taken for a picture, not for symbols


class Reading(NamedTuple):
    """A space of ours, and how a value of the other space becomes one of it."""

    space: Space
    read: Callable[[Any], Any]
    conversions: tuple[Conversion, ...] = ()
    """The same as data, where the space is known."""


def reading(space: gymnasium.Space[Any], where: str) -> Reading | None:
    """How to read the values of a Gymnasium space, or None if they say nothing that a network could read (texts).

    Args:
        space: of observations, or of latent states.
        where: what to call it in errors.

    Raises:
        ValueError: if there is no way to read it.
    """
    match space:
        case spaces.Discrete():
            first = int(space.start)
            return Reading(
                Discrete(int(space.n)), lambda value: np.int32(int(value) - first), (Conversion(first=first),)
            )
        case spaces.MultiBinary():
            shape = (math.prod(space.shape),)
            return Reading(Indices(2, shape), lambda value: np.asarray(value, np.uint8).reshape(shape), (Conversion(),))
        case spaces.MultiDiscrete():
            return _several_indices(space)
        case spaces.Box():
            return _box(space)
        case spaces.Dict():
            return _record([(str(name), name, part) for name, part in space.spaces.items()], where)
        case spaces.Tuple():
            return _record([(str(i), i, part) for i, part in enumerate(space.spaces)], where)
        case spaces.Text():
            return None
    if isinstance(space.sample(), str):  # MiniGrid has a space of its own for its missions
        return None
    raise ValueError(
        f"{where}: {type(space).__name__} spaces can not be read; use Discrete, Box, MultiDiscrete, MultiBinary, Dict "
        "or Tuple, or wrap the environment"
    )


def _several_indices(space: spaces.MultiDiscrete) -> Reading:
    shape, first = (math.prod(space.shape),), np.asarray(space.start).ravel()
    target = Indices(int(np.max(space.nvec)), shape)
    conversion = Conversion(first=tuple(first.tolist()))
    return Reading(target, lambda value: (np.asarray(value).ravel() - first).astype(target.dtype), (conversion,))


def _box(space: spaces.Box) -> Reading:
    size = math.prod(space.shape)
    if np.issubdtype(space.dtype, np.integer):
        low, high = int(space.low.min()), int(space.high.max())
        if size <= MOST_SYMBOLS and high - low < 256:
            return Reading(
                Indices(high - low + 1, (size,)),
                lambda value: (np.asarray(value, np.int64).ravel() - low).astype(np.uint8),
                (Conversion(first=low),),
            )
        # A picture: numbers between 0 and 1.
        scale = np.float32(1.0 / max(high - low, 1))
        return Reading(
            Box((size,), 0.0, 1.0),
            lambda value: (np.asarray(value, np.float32).ravel() - np.float32(low)) * scale,
            (Conversion(first=low, scale=float(scale)),),
        )
    bounds = (tuple(map(float, end.ravel())) for end in (space.low, space.high))
    return Reading(Box((size,), *bounds), lambda value: np.asarray(value, np.float32).reshape(size), (Conversion(),))


def _record(parts: list[tuple[str, Any, gymnasium.Space[Any]]], where: str) -> Reading | None:
    found = [(name, key, reading(part, f"{where} {name!r}")) for name, key, part in parts]
    kept = [(name, key, how) for name, key, how in found if how is not None]
    if not kept:
        return None

    def read(value: Any) -> dict[str, Any]:
        return {name: how.read(value[key]) for name, key, how in kept}

    conversions = tuple(
        part._replace(path=(name, *part.path), keys=(key, *part.keys))
        for name, key, how in kept
        for part in how.conversions
    )
    return Reading(Record(tuple((name, how.space) for name, _, how in kept)), read, conversions)


def reading_of_value(value: Any, where: str) -> Reading:
    """How to read values like this one, of which no space is known: numbers, arrays of them, or records."""
    if isinstance(value, dict):
        parts = [(str(name), name, reading_of_value(part, f"{where} {name!r}")) for name, part in value.items()]
        return Reading(
            Record(tuple((name, how.space) for name, _, how in parts)),
            lambda value: {name: how.read(value[key]) for name, key, how in parts},
        )
    try:
        size = np.asarray(value, np.float32).size
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{where} is a {type(value).__name__}, which can not be read as numbers; name a function that gives an "
            "array or a dictionary of arrays"
        ) from error

    def read(value: Any) -> np.ndarray:
        array = np.asarray(value, np.float32).ravel()
        if array.size != size:
            raise ValueError(f"{where} has {array.size} numbers, and had {size} before; its size must not change")
        return array

    return Reading(Box((size,)), read)
