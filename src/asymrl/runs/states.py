"""States of runs as named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import equinox as eqx
import jax
import numpy as np

from asymrl.learners.program import Program
from asymrl.learners.state import RunState
from asymrl.runs.arrays import ADDED, SavedRuns, filled_up

KEY = "key"  # the only leaf that is not an array of numbers
OTHER_VERSION = (
    "it was changed, or the runs were trained with another version of asymrl or of their environment: "
    "open them with that"
)


def to_arrays(states: RunState) -> dict[str, np.ndarray]:
    """Everything in the states, on the host, each array `[run, ...]` under its path."""
    arrays = eqx.filter(states, eqx.is_array)
    arrays = eqx.tree_at(lambda state: state.key, arrays, jax.random.key_data(arrays.key))
    leaves = jax.tree_util.tree_leaves_with_path(jax.device_get(arrays))
    return {_name(path): np.asarray(leaf) for path, leaf in leaves}


def key_kind(states: RunState) -> str:
    """The name of the random number generator of the states."""
    return str(jax.random.key_impl(states.key))


def without_training_state(saved: SavedRuns) -> SavedRuns:
    """Saved runs without what only further training needs: optimisers, target networks, replays."""
    networks = {name: saved.arrays[name] for name in sorted(saved.arrays) if not _is_for_training(name)}
    return saved._replace(arrays=networks)


def from_saved(program: Program, saved: SavedRuns, *, to_train: bool = True) -> RunState:
    """The states that were saved, `[run, ...]`.

    Curves from before a run was made longer, with fewer points than the settings need, are filled up.

    Args:
        program: of the runs.
        saved: their arrays.
        to_train: False if the runs are only inspected: then shapes take the place of the arrays that
            `without_training_state` leaves out.

    Raises:
        ValueError: naming the first array that is missing, superfluous or of another shape or type.
    """
    shapes, static = eqx.partition(program.template(), lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    arrays = _fitting_arrays(program, saved, to_train=to_train)
    leaves = [
        leaf
        if isinstance(leaf, jax.ShapeDtypeStruct)
        else jax.random.wrap_key_data(jax.numpy.asarray(leaf))
        if name == KEY
        else jax.numpy.asarray(leaf)
        for name, leaf in arrays.items()
    ]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(shapes), leaves), static)


def array_shapes(program: Program) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes of everything in a run, by name, in the order of its leaves."""
    shapes = eqx.filter(program.template(), lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    return {_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(shapes)}


def with_arrays(states: RunState, given: Sequence[Mapping[str, np.ndarray]]) -> RunState:
    """States `[run, ...]` with the given arrays in the first runs: by name for each run, without the run axis."""
    arrays, static = eqx.partition(states, eqx.is_array)

    def replaced(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        rows = [row for row, each in enumerate(given) if _name(path) in each]
        return leaf.at[np.asarray(rows)].set(np.stack([given[row][_name(path)] for row in rows])) if rows else leaf

    return eqx.combine(jax.tree_util.tree_map_with_path(replaced, arrays), static)


def saved_problem(program: Program, saved: SavedRuns) -> str | None:
    """Why runs cannot go on from where they were saved, or None if they can."""
    try:
        _fitting_arrays(program, saved, to_train=True)
    except ValueError as error:
        return str(error)
    return None


def _fitting_arrays(program: Program, saved: SavedRuns, *, to_train: bool) -> dict[str, Any]:
    """The saved arrays by name, in the order of the leaves of a run; a shape for each that was left out."""
    expected, arrays = array_shapes(program), saved.states()
    training_names = {name for name in expected if _is_for_training(name)}
    if not to_train:
        networks = {name: array for name, array in arrays.items() if not _is_for_training(name)}
        arrays = {**networks, **{name: expected[name] for name in training_names}}
    elif training_names and not training_names & set(arrays):
        raise ValueError("only its networks were kept, not the state of its optimisers, so it cannot be trained on")
    added = {
        name: np.full((len(saved.runs), *expected[name].shape), ADDED[name], expected[name].dtype)
        for name in ADDED
        if name in expected
    }
    arrays = {**added, **arrays}
    if odd := sorted(set(expected) ^ set(arrays)):
        what = "missing" if odd[0] in expected else "not one of these networks"
        raise ValueError(f"array {odd[0]} is {what}; {OTHER_VERSION}")
    arrays = _with_room(arrays, expected["curve"].shape[0])
    for name, leaf in expected.items():
        array, shape = arrays[name], (len(saved.runs), *leaf.shape)
        if name == KEY:
            _check_keys(array, len(saved.runs), saved.key_kind)
        elif array is not leaf and (array.shape != shape or array.dtype != leaf.dtype):
            raise ValueError(
                f"array {name} is {array.dtype}{list(array.shape)}, expected {leaf.dtype}{list(shape)}; {OTHER_VERSION}"
            )
    return {name: arrays[name] for name in expected}


def _check_keys(data: np.ndarray, count: int, kind: str) -> None:
    expected = str(jax.random.key_impl(jax.random.key(0)))
    if kind != expected:
        raise ValueError(f"its random numbers are of the kind {kind}; set JAX_DEFAULT_PRNG_IMPL={kind} to go on")
    shape = (count, *jax.random.key_data(jax.random.key(0)).shape)
    if data.shape != shape or data.dtype != np.uint32:
        raise ValueError(f"array {KEY} is {data.dtype}{list(data.shape)}, expected uint32{list(shape)}")


def _with_room(arrays: dict[str, np.ndarray], points: int) -> dict[str, np.ndarray]:
    """The arrays with room for this many points in the curves."""
    curve = arrays["curve"]
    if curve.ndim != 3 or curve.shape[1] >= points:
        return arrays
    # A full curve has counted points that it could not keep.
    logged = np.minimum(arrays["logged"], curve.shape[1]).astype(arrays["logged"].dtype)
    return {**arrays, "curve": filled_up(curve, points), "logged": logged}


def _is_for_training(name: str) -> bool:
    """Whether an array belongs to a learner's own part of the state, which acting and judging do not need."""
    return name.split(".")[0] not in {field.name for field in fields(RunState)}


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
