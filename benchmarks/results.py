"""How large the table of a whole grid search is, and how long questions to it take.

    python benchmarks/results.py [--runs 36000] [--points 200] [--folder FOLDER]

Nothing is trained: the curves are random walks, whose digits compress no better than those of real ones. Everything
else, files of finished cells and the table made from them, is what a sweep leaves behind.
"""

from __future__ import annotations

import importlib.util
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import tyro
from asymrl.sweeps.cells import batch_of, by_shape
from asymrl.sweeps.ledger import SweepFolder
from asymrl.sweeps.results import Results
from asymrl.sweeps.table import collect_folder

from asymrl.learning.methods import METHODS
from asymrl.learning.state import METRICS
from asymrl.paper.evaluation import grid_cells
from asymrl.paper.hyperparameters import PAPER_WORLDS

GRID = 45  # settings per world and method


@dataclass(frozen=True)
class Options:
    """What to measure."""

    runs: int = 36_000
    """About how many; a whole number of seeds for each of the 8 x 5 x 45 settings."""
    points: int = 200
    """Of each learning curve."""
    folder: Path | None = None
    """Where to leave the table. None: nowhere."""


def write_cells(folder: SweepFolder, seeds: int, points: int) -> int:
    """Finished cells of the whole grid. Returns how many."""
    generator, count = np.random.default_rng(0), 0
    for group in by_shape(grid_cells(PAPER_WORLDS, METHODS, range(seeds))).values():
        curve = np.full((len(group), points, len(METRICS)), np.nan, np.float32)
        steps = np.linspace(0, 2e6, points, endpoint=False)
        curve[..., 0] = steps + generator.integers(200, size=(len(group), points))
        # Episodes of 20 to 100 steps, whose returns are means over the last hundred.
        lengths = generator.uniform(20, 100, size=(len(group), points))
        curve[..., 1] = np.cumsum(2e6 / points / lengths, axis=1).round()
        curve[..., 2] = curve[..., 1] / 2
        curve[..., 3] = (100 * generator.normal(size=(len(group), points)).cumsum(axis=1)).round() / 100
        curve[..., 4] = lengths.round(2)
        curve[..., 5:11] = generator.lognormal(size=(len(group), points, 6))
        done = np.full(len(group), points)
        folder.write(Results(batch_of(group), curve, done, np.full(len(group), 2_000_000)))
        count += len(group)
    return count


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
    table = pd.read_parquet(path, columns=[*keys, "timestep", "return"])
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
    folder = SweepFolder.take(place)
    seeds = max(1, round(options.runs / (len(PAPER_WORLDS) * len(METHODS) * GRID)))
    took, count = timed(lambda: write_cells(folder, seeds, options.points))
    cells = sum(path.stat().st_size for path in folder.result_files())
    print(f"finished cells   {count} runs in {len(folder.result_files())} files, {cells / 1e6:.0f} MB, {took:.1f} s")
    took, done = timed(folder.finished)
    print(f"what is finished {len(done)} cells, {took:.1f} s")
    took, (path, rows, _) = timed(lambda: collect_folder(place))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"collected        {rows} rows, {path.stat().st_size / 1e6:.0f} MB, {took:.1f} s, {memory:.1f} GB of memory")
    for name, needs, ask in (
        ("polars", "polars", ask_polars),
        ("pandas", "pyarrow", ask_pandas),
        ("duckdb", "duckdb", ask_duckdb),
    ):
        if importlib.util.find_spec(name) and importlib.util.find_spec(needs):
            took, groups = timed(lambda ask=ask: ask(path))
            print(f"{name:16} final return of {groups} settings in {took:.2f} s")


def main(options: Options) -> None:
    if options.folder is not None:
        measure(options, options.folder)
        return
    with tempfile.TemporaryDirectory() as place:
        measure(options, Path(place))


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
