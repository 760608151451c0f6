"""The tables of a store: tidy Parquet files, of one schema for one run or thousands, for polars and DuckDB alike.

`metrics.parquet` has a row for each run and point of its learning curve, `runs.parquet` a row for each run, and
`probes.parquet`, where something was measured during training, a row for each run, measurement and number.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from asymrl.reading import UnreadableError, read_regular
from asymrl.runs.files import RunError, write_whole
from asymrl.runs.runs import Run
from asymrl.runs.statistics import final_returns
from asymrl.settings import SETTINGS, SETTINGS_TYPES, names_of
from asymrl.worlds.name_options import PREFIX
from asymrl.worlds.registry import arguments_of

if TYPE_CHECKING:
    import polars as pl
    from jaxtyping import Float

MOST_TABLE_BYTES, MOST_ROWS = 2**32, 10**8  # of a table; 36 000 runs with 200 points have 7 million rows
METRICS_FILE, RUNS_FILE, PROBES_FILE = "metrics.parquet", "runs.parquet", "probes.parquet"
COUNTERS = ("timestep", "episode", "update")
LABELS = ("world", "method")
ALWAYS = ("steps", "actor_rate", "critic_rate", "entropy_weight")  # settings that always have a column
RUN_COUNTERS = {"timesteps": "timesteps", "episodes_played": "episodes", "updates": "updates"}
"""Columns of the table of runs, and the counters of `RunResult` in them; `episodes` is a setting of A2C and DQN."""
COMPRESSION = 9  # zstd; more takes minutes and saves little

WAITING, TRAINING, COMPLETE, SOLVED, FAILED = "waiting", "training", "complete", "solved", "failed"
STOPPED = "stopped"
OVER = (COMPLETE, SOLVED, FAILED, STOPPED)


class RunResult(NamedTuple):
    """The result of a run so far: how far it came, and its learning curve."""

    status: str = WAITING
    """waiting, training, complete, solved (its return was reached), stopped (by a callback) or failed."""
    timesteps: int = 0
    episodes: int = 0
    updates: int = 0
    recent_return: float = np.nan
    """Mean return of the last 100 episodes."""
    recent_length: float = np.nan
    curve: Float[np.ndarray, "point metric"] | None = None
    """The points so far."""
    failure: str | None = None
    seconds: float = 0.0
    """Time in a lane; lanes share their device."""
    device: str | None = None
    probe_timesteps: np.ndarray | None = None
    probe_values: np.ndarray | None = None

    @property
    def is_over(self) -> bool:
        return self.status in OVER


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


def shown_settings(runs: Iterable[Run]) -> tuple[str, ...]:
    """The settings that have a column: those that always have one, and those that some run has not at its default.

    Arguments of environments are among them, as `env.NAME`.
    """
    columns, runs = set(ALWAYS), list(runs)
    for settings in {run.settings for run in runs}:
        names, usual = names_of(type(settings)), type(settings)()
        columns |= {name for name in names if getattr(settings, name) != getattr(usual, name)}
    arguments = {argument for world in {run.settings.world for run in runs} for argument in arguments_of(world)}
    settings = tuple(name for name in SETTINGS if name in columns and name not in LABELS)
    return (*settings, *(PREFIX + argument for argument in sorted(arguments)))


def metrics_table(
    runs: Mapping[int, Run], curves: Mapping[int, Float[np.ndarray, "point metric"]], shown: Sequence[str]
) -> pl.DataFrame:
    """Learning curves: `run, world, method, <settings>, seed` and then the metrics, by run and time.

    Args:
        runs: by their number in the store.
        curves: the points of each of them.
        shown: settings that have a column.
    """
    import polars as pl

    from asymrl.learners.state import METRICS

    numbers = [number for number in runs if number in curves]
    rows = np.repeat(np.arange(len(numbers)), [len(curves[number]) for number in numbers])
    values = np.concatenate([curves[number] for number in numbers]) if numbers else np.zeros((0, len(METRICS)))
    columns = _labels(numbers, runs, rows, shown)
    for i, name in enumerate(METRICS):
        column = values[:, i].astype(np.int32 if name in COUNTERS else np.float32)
        columns[name] = pl.Series(column)
        if name.startswith("evaluation_"):  # null rather than NaN for a run without evaluations
            columns[name] = columns[name].fill_nan(None)
    means = [pl.when(pl.col("episode") != 0).then(pl.col(name)).alias(name) for name in ("return", "length")]
    return pl.DataFrame(columns).with_columns(means)  # null before the first episode is over


def runs_table(runs: Mapping[int, Run], results: Mapping[int, RunResult], shown: Sequence[str]) -> pl.DataFrame:
    """One row per run: how far it came, what it reached, why it failed if it did, and where it was trained."""
    import polars as pl

    numbers = list(runs)
    columns = _labels(numbers, runs, np.arange(len(numbers)), shown)
    each = [results.get(number, RunResult()) for number in numbers]
    columns["status"] = pl.Series([result.status for result in each], dtype=pl.String)
    for name, counter in RUN_COUNTERS.items():
        columns[name] = pl.Series([getattr(result, counter) for result in each], dtype=pl.Int64)
    columns["final_return"] = pl.Series(_final_returns(runs, results, numbers), dtype=pl.Float64)
    columns["recent_return"] = pl.Series([result.recent_return for result in each], dtype=pl.Float64).fill_nan(None)
    columns["recent_length"] = pl.Series([result.recent_length for result in each], dtype=pl.Float64).fill_nan(None)
    columns["failure"] = pl.Series([result.failure for result in each], dtype=pl.String)
    columns["seconds"] = pl.Series([round(result.seconds, 3) for result in each], dtype=pl.Float64)
    columns["device"] = pl.Series([result.device for result in each], dtype=pl.String)
    return pl.DataFrame(columns)


def _final_returns(
    runs: Mapping[int, Run], results: Mapping[int, RunResult], numbers: Sequence[int]
) -> list[float | None]:
    """The final return of each run, as `stores.statistics` defines it; None for a run without a curve."""
    curves = {n: curve for n in numbers if n in results and (curve := results[n].curve) is not None and len(curve)}
    if not curves:
        return [None] * len(numbers)
    table = final_returns(metrics_table(runs, curves, ("steps",)))
    final_by_run = dict(zip(table["run"].to_list(), table["final"].to_list(), strict=True))
    return [final_by_run.get(number) for number in numbers]


def probes_table(
    runs: Mapping[int, Run], results: Mapping[int, RunResult], names: Sequence[str], shown: Sequence[str]
) -> pl.DataFrame:
    """What was measured during training: `timestep`, the name of the number, and its value."""
    import polars as pl

    numbers = [number for number in runs if number in results and results[number].probe_timesteps is not None]
    times = [np.asarray(results[number].probe_timesteps) for number in numbers]
    rows = np.repeat(np.arange(len(numbers)), [len(names) * len(time) for time in times])
    columns = _labels(numbers, runs, rows, shown)
    empty = np.zeros(0)
    timesteps = np.concatenate([np.repeat(time, len(names)) for time in times] or [empty])
    values = np.concatenate([np.asarray(results[number].probe_values).reshape(-1) for number in numbers] or [empty])
    columns["timestep"] = pl.Series(timesteps.astype(np.int32))
    columns["probe"] = pl.Series(list(names) * sum(map(len, times)), dtype=pl.String)
    columns["value"] = pl.Series(values.astype(np.float32))
    return pl.DataFrame(columns)


def to_parquet(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd", compression_level=COMPRESSION)
    return buffer.getvalue()


def _labels(
    numbers: Sequence[int], runs: Mapping[int, Run], rows: np.ndarray, shown: Sequence[str]
) -> dict[str, pl.Series]:
    """The columns that say which run each of the rows belongs to."""
    import polars as pl

    settings = [runs[number].settings for number in numbers]
    columns = {"run": pl.Series(np.asarray(numbers, np.int32)[rows])}
    for name in LABELS:
        columns[name] = pl.Series([getattr(each, name) for each in settings], dtype=pl.String).gather(rows)
    for name in shown:
        if name.startswith(PREFIX):
            values = [arguments_of(each.world).get(name.removeprefix(PREFIX)) for each in settings]
            columns[name] = _argument_column(values).gather(rows)
            continue
        columns[name] = _column(name, [getattr(each, name, None) for each in settings]).gather(rows)
    columns["seed"] = pl.Series(np.asarray([runs[number].seed for number in numbers], np.int64)[rows])
    return columns


def _argument_column(values: list[Any]) -> pl.Series:
    """The values of an environment argument: booleans or numbers if all are, otherwise text."""
    import polars as pl

    there = [value for value in values if value is not None]
    for kinds, dtype in (((bool,), pl.Boolean), ((int,), pl.Int64), ((int, float), pl.Float64)):
        if all(type(value) in kinds for value in there):
            return pl.Series(values, dtype=dtype)
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pl.Series(texts, dtype=pl.String)


def _column(name: str, values: list[Any]) -> pl.Series:
    """The values of a setting; the column type does not depend on them, so that tables can be concatenated."""
    import polars as pl

    kind = next(kind for kind in SETTINGS_TYPES.values() if name in names_of(kind))
    default = getattr(kind, name)
    if name == "hidden":
        values = [None if value is None else ":".join(map(str, value)) for value in values]
        return pl.Series(values, dtype=pl.String)
    if name == "window" or (isinstance(default, int) and not isinstance(default, bool)):
        return pl.Series(values, dtype=pl.Int64)
    if isinstance(default, bool):
        return pl.Series(values, dtype=pl.Boolean)
    is_text = isinstance(default, str) or any(each.name == name and "str" in str(each.type) for each in fields(kind))
    return pl.Series(values, dtype=pl.String if is_text else pl.Float64)
