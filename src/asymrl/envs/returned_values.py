"""Checks what a user's environment returns: a mistake is reported where it is made, not where it shows much later."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces


class ReturnedValueError(Exception):
    """Something that an environment returned cannot be used."""


def reset_values(returned: Any) -> tuple[Any, dict[str, Any]]:
    """Observation and info, as `reset` returned them. Raises ReturnedValueError if it did not."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise ReturnedValueError(
            f"it returned {_kind(returned)}, expected (observation, info); an environment with the old interface of "
            "Gym returns the observation only"
        )
    _check_info(returned[1])
    return returned


def step_values(returned: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    """Observation, reward, both ends and info, as `step` returned them. Raises ReturnedValueError if it did not."""
    if not isinstance(returned, tuple) or len(returned) != 5:
        old = isinstance(returned, tuple) and len(returned) == 4
        raise ReturnedValueError(
            f"it returned {_kind(returned)}, expected (observation, reward, terminated, truncated, info)"
            + ("; the old interface of Gym has one `done` instead of terminated and truncated" if old else "")
        )
    observation, reward, terminated, truncated, info = returned
    number = _number(reward)
    if not math.isfinite(number):
        raise ReturnedValueError(f"the reward is {number}")
    for name, end in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(end, bool | np.bool_ | int | np.integer):
            raise ReturnedValueError(f"{name} is {_kind(end)}, expected True or False")
    _check_info(info)
    return observation, number, bool(terminated), bool(truncated), info


def _number(reward: Any) -> float:
    if not isinstance(reward, str | bytes):
        with contextlib.suppress(TypeError, ValueError):
            return float(reward)
    raise ReturnedValueError(f"the reward is {_kind(reward)}, expected a number")


def _check_info(info: Any) -> None:
    if not isinstance(info, dict):
        raise ReturnedValueError(f"info is {_kind(info)}, expected a dictionary")


def check_value(space: spaces.Space[Any], value: Any, what: str) -> None:
    """Raises ReturnedValueError, calling the value `what`, if it does not have the form that a space declares.

    Checks keys, shapes, the range of integers, and that numbers are finite. Violations of other bounds and of exact
    types are common, and do no harm.
    """
    match space:
        case spaces.Dict():
            if not isinstance(value, Mapping) or not set(space.spaces) <= set(value):
                keys = ", ".join(map(str, space.spaces))
                raise ReturnedValueError(f"{what} is {_kind(value)}, expected a dictionary with the keys {keys}")
            for name, part in space.spaces.items():
                check_value(part, value[name], f"{what} {name!r}")
        case spaces.Tuple():
            if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
                raise ReturnedValueError(f"{what} is {_kind(value)}, expected a tuple of {len(space.spaces)}")
            for i, part in enumerate(space.spaces):
                check_value(part, value[i], f"{what} {i}")
        case spaces.Discrete():
            _check_integers(value, (), int(space.start), int(space.start + space.n) - 1, what)
        case spaces.MultiDiscrete():
            _check_integers(value, space.shape, space.start, space.start + space.nvec - 1, what)
        case spaces.MultiBinary():
            _check_integers(value, space.shape, 0, 1, what)
        case spaces.Box() if np.issubdtype(space.dtype, np.integer):
            _check_integers(value, space.shape, space.low, space.high, what)
        case spaces.Box():
            check_finite(_array(value, space.shape, what), what)
        case _:
            pass


def check_finite(value: Any, what: str) -> None:
    """Raises ReturnedValueError if an array, or one of a dictionary of them, holds a number that is not finite."""
    if isinstance(value, dict):
        for name, part in value.items():
            check_finite(part, f"{what} {name!r}")
    elif np.issubdtype(np.asarray(value).dtype, np.floating) and not np.isfinite(value).all():
        array = np.asarray(value)
        at = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        raise ReturnedValueError(f"{what} is {array[at]}{_place(at)}")


def _array(value: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """The value as an array of numbers of this shape; a single number may have any shape of one entry."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise ReturnedValueError(f"{what} is {_kind(value)}, whose parts have different lengths") from None
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ReturnedValueError(f"{what} is {_kind(value)}, expected numbers")
    if array.shape != shape and not array.size == math.prod(shape) == 1:
        raise ReturnedValueError(f"{what} has shape {array.shape}, expected {shape}")
    return array


def _check_integers(value: Any, shape: tuple[int, ...], low: Any, high: Any, what: str) -> None:
    array = _array(value, shape, what)
    if np.issubdtype(array.dtype, np.floating) and not (array == np.floor(array)).all():
        raise ReturnedValueError(f"{what} is {_kind(value)}, expected integers")
    array = array.reshape(shape)
    outside = (array < low) | (array > high)
    if outside.any():
        at = tuple(np.argwhere(outside)[0].tolist())
        least, most = (np.broadcast_to(end, shape)[at] for end in (low, high))
        raise ReturnedValueError(f"{what} is {array[at]}{_place(at)}, outside {least}..{most}")


def _place(at: Sequence[int]) -> str:
    """Where in an array; nothing for a single number."""
    return f" at {', '.join(map(str, at))}" if at else ""


def _kind(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, Mapping):
        return f"a dictionary with the keys {', '.join(map(str, value)) or 'none'}"
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
