"""The tables of a store on disk: what its runs have reached, read back and written.

`metrics.parquet` has the learning curves, `runs.parquet` a row for each run, `probes.parquet` further measurements.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asymrl.reading import UnreadableError, read_regular
from asymrl.runs.files import RunError, write_whole
from asymrl.runs.runs import Run
from asymrl.runs.tables import (
    COMPLETE,
    RUN_COUNTERS,
    STOPPED,
    WAITING,
    RunResult,
    metrics_table,
    probes_table,
    runs_table,
    shown_settings,
    to_parquet,
)

if TYPE_CHECKING:
    import polars as pl

MOST_TABLE_BYTES, MOST_ROWS = 2**32, 10**8  # of a table; 36 000 runs with 200 points have 7 million rows
METRICS_FILE, RUNS_FILE, PROBES_FILE = "metrics.parquet", "runs.parquet", "probes.parquet"


def read_results(path: Path, run_list: Sequence[Run]) -> dict[int, RunResult]:
    """The results so far of the runs of a store, by number, without runs that have not begun."""
    import polars as pl

    from asymrl.learners.state import METRICS

    if not (path / RUNS_FILE).exists() or not (path / METRICS_FILE).exists():
        return {}
    runs, metrics = read_table(path, RUNS_FILE), read_table(path, METRICS_FILE)
    if "run" not in metrics.columns:
        return {}
    values = metrics.select(pl.col(METRICS).cast(pl.Float32).fill_null(np.nan)).to_numpy()
    numbers = metrics["run"].to_numpy()
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    curves = dict(zip(numbers[[0, *cuts]].tolist() if len(numbers) else [], np.split(values, cuts), strict=False))
    probes = _read_probes(path)
    results = {}
    for row in runs.to_dicts():
        number = row["run"]
        if number >= len(run_list) or row["status"] == WAITING:
            continue
        times, measured = probes.get(number, (None, None))
        result = RunResult(
            **{name: row[name] for name in ("status", "failure", "device")},
            **{counter: row[name] for name, counter in RUN_COUNTERS.items()},
            recent_return=np.nan if row["recent_return"] is None else row["recent_return"],
            recent_length=np.nan if row["recent_length"] is None else row["recent_length"],
            seconds=row["seconds"],
            curve=curves.get(number),
            probe_timesteps=times,
            probe_values=measured,
        )
        results[number] = reopened(result, run_list[number])
    return results


def write_results(
    path: Path, run_list: Sequence[Run], results: Mapping[int, RunResult], probe_names: Sequence[str] = ()
) -> None:
    """Writes the results of the runs. `runs.parquet` comes last: it says which runs are over."""
    runs, shown = dict(enumerate(run_list)), shown_settings(run_list)
    curves = {n: result.curve for n, result in results.items() if result.curve is not None}
    write_whole(path / METRICS_FILE, to_parquet(metrics_table(runs, curves, shown)))
    if probe_names:
        table = probes_table(runs, results, probe_names, shown)
        write_whole(path / PROBES_FILE, to_parquet(table))
    write_whole(path / RUNS_FILE, to_parquet(runs_table(runs, results, shown)))


def read_table(folder: Path, name: str) -> pl.DataFrame:
    """A table of a store. Raises RunError if it is not there or damaged."""
    import polars as pl

    path = folder / name
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder")
    if not path.is_file():
        raise RunError(f"{path}: not there yet; have the runs begun?")
    try:
        file = io.BytesIO(read_regular(path, MOST_TABLE_BYTES))
        if (rows := pl.scan_parquet(file).select(pl.len()).collect().item()) > MOST_ROWS:
            raise UnreadableError(f"{rows} rows")
        return pl.read_parquet(file)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RunError(f"{path}: damaged ({reason}); `asymrl resume {folder}` writes it anew") from error


def reopened(result: RunResult, run: Run, before: Run | None = None) -> RunResult:
    """The result of a run that was made longer: no longer complete, nor stopped if it was shorter `before`."""
    is_longer = before is not None and before.settings.steps < run.settings.steps
    is_open = result.status == COMPLETE or (result.status == STOPPED and is_longer)
    if is_open and result.timesteps < run.settings.steps:
        return result._replace(status="training")
    return result


def _read_probes(path: Path) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    if not (path / PROBES_FILE).exists():
        return {}
    table = read_table(path, PROBES_FILE)
    if "run" not in table.columns:
        return {}
    probes = {}
    for (number,), rows in table.group_by("run", maintain_order=True):
        width = rows["probe"].n_unique()
        probes[number] = rows["timestep"].to_numpy()[::width], rows["value"].to_numpy().reshape(-1, width)
    return probes
