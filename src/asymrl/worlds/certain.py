"""Worlds that leave nothing to chance after their start: an episode is a walk on a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int


def is_unchanged(world: Any, base: type, *names: str) -> bool:
    """Whether a world has these methods from `base`, and not from a subclass that does something else."""
    return all(getattr(type(world), name) is getattr(base, name) for name in names)


class Table(NamedTuple):
    """What comes of every action in every place, row `place * actions + action`."""

    place: Int[Array | np.ndarray, "rows"]
    sight: Int[Array | np.ndarray, "rows"]  # which of all observations is seen
    reward: Float[Array | np.ndarray, "rows"]
    ended: Int[Array | np.ndarray, "rows"]  # 1 if the episode ends, else 0


class Certain(NamedTuple):
    """How the episode that starts in a state is a walk on a table. Places and sights are indices."""

    table: Callable[[Any], Table]
    """The table, by the first state."""
    sights: Callable[[Any], Any]
    """All that may be seen, `[sight, ...]`, by the first state."""
    first: Callable[[Any, Any], tuple[Any, Any]]
    """Place and sight of the first state and observation."""
    at: Callable[[Any, Any], Any]
    """The state in a place, by the first state and the place."""
    shared: bool
    """Whether all episodes have the same table and the same sights; the first state is then not looked at."""
