"""Worlds that leave nothing to chance after their start: an episode is a walk on a table.

A world that has such a table registers a function for its class:

    @deterministic_table.register
    def _(world: MyWorld) -> DeterministicTable | None: ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int


def is_unchanged(world: Any, base: type, *names: str) -> bool:
    """Whether a world has these methods from `base`, and not from a subclass that does something else."""
    return all(getattr(type(world), name) is getattr(base, name) for name in names)


class TransitionTable(NamedTuple):
    """What comes of every action in every place, row `place * actions + action`."""

    place: Int[Array | np.ndarray, "rows"]
    sight: Int[Array | np.ndarray, "rows"]  # which of all observations is seen
    reward: Float[Array | np.ndarray, "rows"]
    ended: Int[Array | np.ndarray, "rows"]  # 1 if the episode ends, else 0


class DeterministicTable(NamedTuple):
    """How the episode that starts in a state is a walk on a table. Places and sights are indices."""

    table: Callable[[Any], TransitionTable]
    """The table, by the first state."""
    sights: Callable[[Any], Any]
    """All that may be seen, `[sight, ...]`, by the first state."""
    first: Callable[[Any, Any], tuple[Any, Any]]
    """Place and sight of the first state and observation."""
    at: Callable[[Any, Any], Any]
    """The state in a place, by the first state and the place."""
    shared: bool
    """Whether all episodes have the same table and the same sights; the first state is then not looked at."""


@functools.singledispatch
def deterministic_table(world: Any) -> DeterministicTable | None:
    """How an episode of a world is a walk on a table, if nothing after its start is random and its class says so."""
    del world
    return None
