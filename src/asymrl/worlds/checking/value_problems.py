"""Compares values with what is declared and with each other, and writes them as text, for the model checker."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from asymrl.worlds.checking.sampling import (
    CheckError as CheckError,
    to_numpy,
)
from asymrl.worlds.spaces import (
    Box,
    Indices,
    MultiDiscrete,
    Record,
    Space,
)

# Different compilations may round sums differently.
TOLERANCE = 1e-6


def shape_problem(space: Space, given: Any) -> str | None:
    """Why an array of this shape and dtype cannot be in a space, or None."""
    if isinstance(space, Record):
        names = [name for name, _ in space.items()]
        if not isinstance(given, dict) or set(given) != set(names):
            return f"is {shape_text(given)}, expected a dictionary with the keys {', '.join(names)}"
        problems = ((name, shape_problem(part, given[name])) for name, part in space.items())
        return next((f"at {name!r} {problem}" for name, problem in problems if problem), None)
    expected = jax.ShapeDtypeStruct(space.shape, space.dtype)
    if getattr(given, "shape", None) != expected.shape or given.dtype != expected.dtype:
        return f"is {shape_text(given)}, expected {shape_text(expected)}"
    return None


def state_problem(expected: Any, given: Any) -> str | None:
    """Why a state is not of the expected kind, or None."""
    if jax.tree.structure(expected) != jax.tree.structure(given):
        return f"{jax.tree.structure(given)}, expected {jax.tree.structure(expected)}"
    pairs = zip(jax.tree.leaves_with_path(expected), jax.tree.leaves(given), strict=True)
    for (path, one), other in pairs:
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            name = jax.tree_util.keystr(path) or "it"
            return f"{name} is {shape_text(other)}, expected {shape_text(one)}"
    return None


def stacked_space(space: Space, lead: tuple[int, ...]) -> Space:
    """The space of arrays of values, with these leading axes."""
    if isinstance(space, Record):
        return Record(tuple((name, stacked_space(part, lead)) for name, part in space.items()))
    if isinstance(space, Box):
        return Box((*lead, *space.shape), space.low, space.high)
    if isinstance(space, Indices):
        return dataclasses.replace(space, shape=(*lead, *space.shape))
    if isinstance(space, MultiDiscrete):  # dtypes have been checked before
        return Box((*lead, *space.shape), 0.0, tuple(size - 1.0 for size in space.sizes))
    return Indices(space.n, lead)


def first_difference(one: Any, other: Any, *, axes: int) -> tuple[int, ...] | None:
    """The first index, counting `axes` axes, at which two trees of arrays differ, or None."""
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if np.array_equal(left, right):
            continue
        apart = ~np.isclose(left.astype(float), right.astype(float), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        apart = apart.reshape(*apart.shape[:axes], -1).any(-1)
        if apart.any():
            return tuple(int(i) for i in np.argwhere(apart)[0])
    return None


def stacked(results: list[Any]) -> Any:
    """Trees of arrays as one, along a new first axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *map(to_numpy, results))


def at_index(tree: Any, index: Any) -> Any:
    """The entry of every array of a tree at an index."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def shape_text(value: Any) -> str:
    """The dtype and shape of an array, such as float32[3, 2]."""
    if hasattr(value, "dtype"):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return f"a {type(value).__name__}"


def value_text(value: Any) -> str:
    """A value in one line, shortened if it is long."""
    with np.printoptions(precision=4, threshold=32, edgeitems=4):
        return " ".join(str(value).split())
