"""Stores of runs that were never trained: what can be done with a run does not depend on how good it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from asymrl.learners.learner import new_run
from asymrl.learners.state import METRICS, RECENT, RunState, training_world
from asymrl.runs.arrays import SavedRuns
from asymrl.runs.runs import Run
from asymrl.runs.states import key_kind, to_arrays
from asymrl.runs.store import Store
from asymrl.runs.tables import COMPLETE, RunResult
from asymrl.settings import A2CSettings, Settings


def small(world: str = "good-bad", **changes: Any) -> Settings:
    return A2CSettings(**{"world": world, "method": "a2c", "memory_size": 8, "hidden": (8,), "time_limit": 8} | changes)


def random_states(settings: Settings, seeds: Sequence[int]) -> RunState:
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


def store_with_networks(path: Path, settings: Settings, recent_returns: Sequence[float], first_seed: int = 0) -> Path:
    """A store with a seed for each of these returns of the last 100 episodes, saved in the middle of training."""
    runs = [Run(settings, first_seed + i) for i in range(len(recent_returns))]
    states = random_states(settings, [run.seed for run in runs])
    returns = np.repeat(np.asarray(recent_returns, np.float32)[:, None], RECENT, axis=1)
    counted = jnp.asarray(np.full(len(runs), 200, np.int32))
    states = eqx.tree_at(lambda r: (r.recent_returns, r.episodes), states, (jnp.asarray(returns), counted))
    store = Store.create(path, runs)
    try:
        store.save(SavedRuns(tuple(runs), to_arrays(states), key_kind(states), (0.0,) * len(runs)), "pool")
    finally:
        store.release()
    return path


def made_result(run: Run, points: int = 20) -> RunResult:
    """A finished run whose return is its seed plus the share of training that is over."""
    curve = np.full((points, len(METRICS)), np.nan, np.float32)
    share = np.arange(points) / points
    columns = {"timestep": share * run.settings.steps, "return": run.seed + share, "length": 10 + run.seed}
    columns |= dict.fromkeys(("critic_gradient_norm", "actor_gradient_norm", "negentropy_weight"), 0.5)
    columns |= dict.fromkeys(("update", "critic_loss", "policy_loss", "negentropy_loss"), run.seed)
    columns |= {"episode": 100 + run.seed}
    for name, values in columns.items():
        curve[:, METRICS.index(name)] = values
    return RunResult(
        status=COMPLETE,
        timesteps=run.settings.steps,
        episodes=100 + run.seed,
        recent_return=float(curve[-1, METRICS.index("return")]),
        recent_length=float(10 + run.seed),
        curve=curve,
    )


def store_with_curves(path: Path, runs: Sequence[Run], probe_values: dict[str, float] | None = None) -> Path:
    """A store of such runs, without networks. `probe_values`: measured eleven times in each of them."""
    store = Store.create(path, runs, keeps_networks=False)
    results = {number: made_result(run) for number, run in enumerate(runs)}
    names = tuple(probe_values or ())
    if probe_values:
        for number, run in enumerate(runs):
            times = np.linspace(0, run.settings.steps, 11).astype(np.int32)
            values = np.tile(np.asarray(list(probe_values.values()), np.float32), (11, 1))
            results[number] = results[number]._replace(probe_timesteps=times, probe_values=values)
    try:
        store.write_tables(results, names)
    finally:
        store.release()
    return path
