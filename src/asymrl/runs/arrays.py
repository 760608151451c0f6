"""A batch of runs as named arrays, and back."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np

from asymrl.learning.state import RunState
from asymrl.runs.batch import Batch

KEY = "key"  # the only leaf that is not an array of numbers


def to_arrays(runs: RunState, count: int) -> dict[str, np.ndarray]:
    """Everything in the first `count` runs of a batch, on the host, each array `[run, ...]` under its path."""
    arrays = eqx.filter(runs, eqx.is_array)
    arrays = eqx.tree_at(lambda r: r.key, arrays, jax.random.key_data(arrays.key))
    leaves = jax.tree_util.tree_leaves_with_path(jax.device_get(arrays))
    return {_name(path): np.ascontiguousarray(leaf[:count]) for path, leaf in leaves}


def key_kind(runs: RunState) -> str:
    """The name of the random number generator of the runs."""
    return str(jax.random.key_impl(runs.key))


def from_arrays(batch: Batch, arrays: dict[str, np.ndarray], kind: str) -> RunState:
    """The batch of runs that `to_arrays` saved.

    Curves with fewer points than the settings ask for, from before a run was made longer, are filled up.

    Raises:
        ValueError: naming the first array that is missing, superfluous or of another shape or type.
    """
    template = _template(batch)
    shapes, static = eqx.partition(template, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    paths, structure = jax.tree_util.tree_flatten_with_path(shapes)
    expected = {_name(path): leaf for path, leaf in paths}
    if odd := sorted(set(expected) ^ set(arrays)):
        raise ValueError(f"array {odd[0]} is {'missing' if odd[0] in expected else 'not one of these networks'}")
    arrays = _filled_up(arrays, expected["curve"].shape[0])
    leaves = []
    for name, leaf in expected.items():
        found, shape = arrays[name], (len(batch), *leaf.shape)
        if name == KEY:
            leaves.append(_keys(found, len(batch), kind))
        elif found.shape != shape or found.dtype != leaf.dtype:
            raise ValueError(f"array {name} is {found.dtype}{list(found.shape)}, expected {leaf.dtype}{list(shape)}")
        else:
            leaves.append(jax.numpy.asarray(found))
    return eqx.combine(jax.tree.unflatten(structure, leaves), static)


def _template(batch: Batch) -> RunState:
    """A run of the batch with shapes in place of arrays. Computes nothing."""
    return batch.program().template()


def _keys(data: np.ndarray, count: int, kind: str) -> jax.Array:
    wanted = str(jax.random.key_impl(jax.random.key(0)))
    if kind != wanted:
        raise ValueError(f"its random numbers are of the kind {kind}; set JAX_DEFAULT_PRNG_IMPL={kind} to go on")
    shape = (count, *jax.random.key_data(jax.random.key(0)).shape)
    if data.shape != shape or data.dtype != np.uint32:
        raise ValueError(f"array {KEY} is {data.dtype}{list(data.shape)}, expected uint32{list(shape)}")
    return jax.random.wrap_key_data(jax.numpy.asarray(data))


def _filled_up(arrays: dict[str, np.ndarray], points: int) -> dict[str, np.ndarray]:
    """The arrays with room for so many points."""
    curve = arrays["curve"]
    if curve.ndim != 3 or curve.shape[1] >= points:
        return arrays
    room = np.full((curve.shape[0], points - curve.shape[1], curve.shape[2]), np.nan, curve.dtype)
    # A curve that had no room left has counted points which it could not keep.
    logged = np.minimum(arrays["logged"], curve.shape[1]).astype(arrays["logged"].dtype)
    return {**arrays, "curve": np.concatenate([curve, room], axis=1), "logged": logged}


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
