"""Action spaces of Gymnasium environments as ours, and our actions as theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from asymrl.worlds.spaces import ActionSpace, Box, Discrete, MultiDiscrete, Record

SUPPORTED = "Discrete, MultiDiscrete, MultiBinary, Box, or a Dict or Tuple of these"
LARGEST_EXACT = 2.0**53  # beyond it, floats cannot hold all whole numbers; such a bound counts as none


class ActionEncoding(NamedTuple):
    """An action space of ours, and a function that turns its values into actions of an environment."""

    space: ActionSpace
    act: Callable[[Any], Any]


def action_encoding(space: gymnasium.Space[Any], where: str) -> ActionEncoding:
    """How a policy of ours acts in a Gymnasium action space.

    Args:
        space: of the environment.
        where: its name in errors.

    Raises:
        ValueError: if the space, or a part of it, is not supported.
    """
    match space:
        case spaces.Discrete():
            first = int(space.start)
            return ActionEncoding(Discrete(int(space.n)), lambda action: int(action) + first)
        case spaces.MultiDiscrete():
            return _indices(space.nvec, space.start, space)
        case spaces.MultiBinary():
            return _indices(np.full(space.shape, 2), 0, space)
        case spaces.Box():
            return _numbers(space, where)
        case spaces.Dict() | spaces.Tuple():
            return _record(space, where)
    raise ValueError(f"{where}: {type(space).__name__} spaces are not supported; use {SUPPORTED}, or wrap it")


def _indices(counts: np.ndarray, start: Any, space: gymnasium.Space[Any]) -> ActionEncoding:
    """Several choices at once, of any shape and starting anywhere."""
    shape, dtype = np.shape(counts), space.dtype
    return ActionEncoding(
        MultiDiscrete(tuple(np.ravel(counts).tolist())),
        lambda action: np.asarray(np.reshape(action, shape) + start, dtype),
    )


def _numbers(space: spaces.Box, where: str) -> ActionEncoding:
    shape, dtype, least, most = space.shape, space.dtype, space.low, space.high
    if 0 in shape:
        raise ValueError(f"{where}: {space} has no entries; leave it out")
    whole = not np.issubdtype(dtype, np.floating)
    ends = (np.asarray(end, np.float64).ravel() for end in (least, most))
    low, high = (np.where(np.abs(end) >= LARGEST_EXACT, np.copysign(np.inf, end), end).tolist() for end in ends)

    def act(action: Any) -> np.ndarray:
        placed = np.asarray(action, np.float64).reshape(shape)
        if whole:
            # Clipped before the conversion, where a number outside would wrap around.
            nearest = np.clip(np.rint(placed), np.asarray(least, np.float64), np.asarray(most, np.float64))
            return np.asarray(nearest, dtype)
        # Rounded to float32, an action on the bound may lie outside a float64 bound.
        return np.asarray(np.clip(placed.astype(dtype), least, most))  # np.clip makes no array of a single number

    return ActionEncoding(Box((len(low),), tuple(low), tuple(high)), act)


def _record(space: spaces.Dict | spaces.Tuple, where: str) -> ActionEncoding:
    pairs = list(space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces))
    if not pairs:
        raise ValueError(f"{where}: {type(space).__name__} has no parts; an action needs at least one")
    names = [str(key) for key, _ in pairs]
    parts = [action_encoding(part, f"{where}, part {name!r}") for name, (_, part) in zip(names, pairs, strict=True)]
    keys = [key for key, _ in pairs]
    record = Record(tuple((name, part.space) for name, part in zip(names, parts, strict=True)))

    def act(action: dict[str, Any]) -> Any:
        taken = [part.act(action[name]) for name, part in zip(names, parts, strict=True)]
        return tuple(taken) if isinstance(space, spaces.Tuple) else dict(zip(keys, taken, strict=True))

    return ActionEncoding(record, act)
