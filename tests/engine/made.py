"""Results of runs that were never trained: what is done with results does not depend on where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asymrl.engine.runs import Run
from asymrl.engine.store import Store
from asymrl.engine.tables import COMPLETE, RunResult
from asymrl.learning.state import METRICS


def made_result(run: Run, points: int = 20) -> RunResult:
    """A finished run whose return is its seed plus the share of training that is over."""
    curve = np.full((points, len(METRICS)), np.nan, np.float32)
    share = np.arange(points) / points
    columns = {"timestep": share * run.settings.steps, "return": run.seed + share, "length": 10 + run.seed}
    columns |= dict.fromkeys(("critic_gradient_norm", "actor_gradient_norm", "negentropy_weight"), 0.5)
    columns |= dict.fromkeys(("episode", "update", "critic_loss", "policy_loss", "negentropy_loss"), run.seed)
    for name, values in columns.items():
        curve[:, METRICS.index(name)] = values
    return RunResult(
        status=COMPLETE,
        timesteps=run.settings.steps,
        recent_return=float(curve[-1, METRICS.index("return")]),
        recent_length=float(10 + run.seed),
        curve=curve,
    )


def made_store(path: Path, runs: Sequence[Run], probe_values: dict[str, float] | None = None) -> Path:
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
