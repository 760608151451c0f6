"""How large the tables of a whole grid search are, how long they take to write, and how long questions to them take.

    python benchmarks/results.py [--runs 36000] [--points 200] [--folder FOLDER]

Nothing is trained: the curves are random walks, whose digits compress no better than those of real ones. Everything
else is what `asymrl reproduce grid` leaves behind.
"""

from __future__ import annotations

import importlib.util
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import tyro

from asymrl.learners.state import METRICS
from asymrl.report.paper.parts import GRID_STEPS, grid_runs
from asymrl.runs.description import SETTINGS_FILE
from asymrl.runs.result_files import METRICS_FILE, RUNS_FILE
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.runs.tables import COMPLETE, RunResult
from asymrl.settings.hyperparameters import PAPER_WORLDS
from asymrl.settings.methods import METHODS

GRID = 45  # settings per world and method


@dataclass(frozen=True)
class Options:
    """What to measure."""

    runs: int = 36_000
    """About how many; a whole number of seeds for each of the 8 x 5 x 45 settings."""
    points: int = 200
    """Of each learning curve."""
    folder: Path | None = None
    """Where to leave the store. None: nowhere."""


def random_results(runs: Sequence[Run], points: int) -> dict[int, RunResult]:
    """Finished runs with random learning curves."""
    generator, results = np.random.default_rng(0), {}
    for number in range(len(runs)):
        curve = np.full((points, len(METRICS)), np.nan, np.float32)
        steps = np.linspace(0, GRID_STEPS, points, endpoint=False)
        curve[:, 0] = steps + generator.integers(200, size=points)
        # Episodes of 20 to 100 steps, whose returns are means over the last hundred.
        lengths = generator.uniform(20, 100, size=points)
        curve[:, 1] = np.cumsum(GRID_STEPS / points / lengths).round()
        curve[:, 2] = curve[:, 1] / 2
        curve[:, 3] = (100 * generator.normal(size=points).cumsum()).round() / 100
        curve[:, 4] = lengths.round(2)
        curve[:, 5:11] = generator.lognormal(size=(points, 6))
        results[number] = RunResult(COMPLETE, GRID_STEPS, int(curve[-1, 1]), int(curve[-1, 2]), curve=curve)
    return results


QUERY = """
    select world, method, actor_rate, critic_rate, entropy_weight, avg("return") as final
    from '{path}' where timestep >= 1800000 group by all order by all
"""


def ask_polars(path: Path) -> int:
    keys = ["world", "method", "actor_rate", "critic_rate", "entropy_weight"]
    rows = pl.scan_parquet(path).filter(pl.col("timestep") >= 1_800_000)
    return len(rows.group_by(keys).agg(pl.col("return").mean()).collect())


def ask_pandas(path: Path) -> int:
    import pandas as pd  # pyright: ignore[reportMissingImports]

    keys = ["world", "method", "actor_rate", "critic_rate", "entropy_weight"]
    table: Any = pd.read_parquet(path, columns=[*keys, "timestep", "return"])
    rows = table[table["timestep"] >= 1_800_000]
    return len(rows.groupby(keys, observed=True)["return"].mean())


def ask_duckdb(path: Path) -> int:
    import duckdb  # pyright: ignore[reportMissingImports]

    return len(duckdb.connect().execute(QUERY.format(path=path)).fetchall())


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    found = work()
    return time.perf_counter() - begin, found


def measure(options: Options, place: Path) -> None:
    seeds = max(1, round(options.runs / (len(PAPER_WORLDS) * len(METHODS) * GRID)))
    runs = grid_runs(PAPER_WORLDS, METHODS, range(seeds))
    took, store = timed(lambda: Store.create(place, runs, keeps_networks=False))
    print(f"runs listed      {len(runs)} in {size(place / SETTINGS_FILE)}, {took:.1f} s")
    results = random_results(runs, options.points)
    took, _ = timed(lambda: store.write_tables(results))
    store.release()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    rows = len(runs) * options.points
    sizes = f"{size(place / METRICS_FILE)} and {size(place / RUNS_FILE)}"
    print(f"tables written   {rows} rows, {sizes}, {took:.1f} s, {memory:.1f} GB of memory")
    took, unfinished = timed(lambda: Store.open(place).unfinished())
    print(f"opened           {len(unfinished)} runs left to train, {took:.1f} s")
    for name, needs, ask in (
        ("polars", "polars", ask_polars),
        ("pandas", "pyarrow", ask_pandas),
        ("duckdb", "duckdb", ask_duckdb),
    ):
        if importlib.util.find_spec(name) and importlib.util.find_spec(needs):
            took, groups = timed(lambda ask=ask: ask(place / METRICS_FILE))
            print(f"{name:16} final return of {groups} settings in {took:.2f} s")


def size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"


def main(options: Options) -> None:
    if options.folder is not None:
        measure(options, options.folder)
        return
    with tempfile.TemporaryDirectory() as place:
        measure(options, Path(place))


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
