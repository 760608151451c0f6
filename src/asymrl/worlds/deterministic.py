"""Worlds that leave nothing to chance after their start: an episode is a walk on a table, or a little arithmetic.

A world that has such a table, or such rules, registers a function for its class:

    @deterministic_table.register
    def _(world: MyWorld) -> DeterministicTable | None: ...

    @scalar_rules.register
    def _(world: MyWorld) -> ScalarRules | None: ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


def is_unchanged(world: Any, base: type, *names: str) -> bool:
    """Whether a world has these methods from `base`, and not from a subclass that does something else."""
    return all(getattr(type(world), name) is getattr(base, name) for name in names)


class TransitionTable(NamedTuple):
    """The outcome of every action in every place, row `place * actions + action`."""

    place: Int[Array | np.ndarray, "rows"]
    sight: Int[Array | np.ndarray, "rows"]  # index of the observation
    reward: Float[Array | np.ndarray, "rows"]
    ended: Int[Array | np.ndarray, "rows"]  # 1 if the episode ends, else 0


class DeterministicTable(NamedTuple):
    """The episode that starts in a state, as a walk on a table. Places and sights are indices."""

    table: Callable[[Any], TransitionTable]
    """The table, given the first state."""
    sights: Callable[[Any], Any]
    """All possible observations, `[sight, ...]`, given the first state."""
    first: Callable[[Any, Any], tuple[Any, Any]]
    """Place and sight of the first state and observation."""
    at: Callable[[Any, Any], Any]
    """The state in a place, given the first state and the place."""
    shared: bool
    """Whether all episodes have the same table and the same sights; the first state is then ignored."""


@functools.singledispatch
def deterministic_table(world: Any) -> DeterministicTable | None:
    """The episodes of a world as walks on a table, if nothing after the start is random and its class says so."""
    del world
    return None


Scalars = tuple[Any, ...]


class ScalarRules(NamedTuple):
    """An episode as arithmetic on a few numbers, written for one episode, with scalars and look-ups only.

    The functions get `tables` as their first argument, which they index with one scalar at a time: in a kernel these
    are references to memory.
    """

    tables: tuple[Array | np.ndarray, ...]
    """One-dimensional arrays that the functions look things up in."""
    numbers: Callable[[Any], Scalars]
    """The numbers that describe a state."""
    state: Callable[[Scalars], Any]
    """The state that numbers describe."""
    step: Callable[[tuple[Any, ...], Scalars, Any], tuple[Scalars, Any, Any]]
    """The numbers after an action, the reward, and whether the episode ends."""
    sight: Callable[[tuple[Any, ...], Scalars], Sequence[tuple[Any, Any]]]
    """The observation: rows of `basis` and their weights, to be added up."""
    basis: Float[Array | np.ndarray, "rows size"]
    """Every observation is a weighted sum of these vectors."""

    def observation(self, numbers: Scalars) -> Float[Array, "size"]:
        """The observation as a vector."""
        tables = tuple(map(jnp.asarray, self.tables))
        terms = [weight * jnp.asarray(self.basis)[row] for row, weight in self.sight(tables, numbers)]
        return functools.reduce(jnp.add, terms)


@functools.singledispatch
def scalar_rules(world: Any) -> ScalarRules | None:
    """The episodes of a world as arithmetic on a few numbers, if its class says so."""
    del world
    return None
