"""Folders of runs that were never trained: what can be done with a run does not depend on how good it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp

from asymrl.learning.run import RECENT, new_runs, training_world
from asymrl.learning.settings import Settings
from asymrl.runs.batch import Batch
from asymrl.runs.folder import RunFolder


def small(world: str = "good-bad", **changes) -> Settings:
    return Settings(**{"world": world, "method": "a2c", "memory_size": 8, "hidden": (8,), "time_limit": 8} | changes)


def make_folder(path: Path, settings: Settings, final_returns: Sequence[float], first_seed: int = 0) -> Path:
    """A run folder with a seed for each of these final returns."""
    seeds = tuple(range(first_seed, first_seed + len(final_returns)))
    batch = Batch((settings,) * len(seeds), seeds)
    runs = new_runs(training_world(settings), settings, jnp.asarray(seeds))
    returns = jnp.broadcast_to(jnp.asarray(final_returns)[:, None], (len(seeds), RECENT))
    runs = eqx.tree_at(lambda r: (r.recent_returns, r.episodes), runs, (returns, jnp.full(len(seeds), 200)))
    folder = RunFolder.create(path, batch)
    try:
        folder.save(runs)
    finally:
        folder.release()
    return path
