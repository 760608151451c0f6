"""Folders of runs that were never trained: what can be done with a run does not depend on how good it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from asymrl.runs.batch import Batch
from asymrl.runs.folder import RunFolder

from asymrl.learning.settings import Settings
from asymrl.learning.state import RECENT, RunState, new_run, training_world


def small(world: str = "good-bad", **changes: Any) -> Settings:
    return Settings(**{"world": world, "method": "a2c", "memory_size": 8, "hidden": (8,), "time_limit": 8} | changes)


def some_runs(settings: Settings, seeds: Sequence[int]) -> RunState:
    """Runs whose networks hold random numbers, made without the compilation that real beginnings need."""
    env = training_world(settings)
    shapes = eqx.filter_eval_shape(lambda: new_run(env, settings, 0))

    def fill(leaf: Any) -> Any:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(0), len(seeds))
        drawn = [np.random.default_rng(seed).normal(size=leaf.shape, scale=0.5) for seed in seeds]
        return jnp.asarray(np.stack(drawn).astype(leaf.dtype))

    return jax.tree.map(fill, shapes)


def make_folder(path: Path, settings: Settings, final_returns: Sequence[float], first_seed: int = 0) -> Path:
    """A run folder with a seed for each of these final returns."""
    seeds = tuple(range(first_seed, first_seed + len(final_returns)))
    runs = some_runs(settings, seeds)
    returns = np.repeat(np.asarray(final_returns, np.float32)[:, None], RECENT, axis=1)
    counted = jnp.asarray(np.full(len(seeds), 200, np.int32))
    runs = eqx.tree_at(lambda r: (r.recent_returns, r.episodes), runs, (jnp.asarray(returns), counted))
    folder = RunFolder.create(path, Batch((settings,) * len(seeds), seeds))
    try:
        folder.save(runs)
    finally:
        folder.release()
    return path
