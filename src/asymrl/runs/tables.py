"""Results as tidy tables: one schema for one run or thousands, for polars, pandas and DuckDB alike.

`metrics.parquet` has a row for each run and point of its learning curve, `runs.parquet` a row for each run, and
`probes.parquet`, where something was measured during training, a row for each run, measurement and number.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from asymrl.runs.runs import Run
from asymrl.runs.statistics import final_returns
from asymrl.settings import SETTINGS, SETTINGS_TYPES, names_of
from asymrl.worlds.name_options import PREFIX
from asymrl.worlds.registry import arguments_of

if TYPE_CHECKING:
    import polars as pl
    from jaxtyping import Float

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
    """waiting, training, complete, solved (its return was reached), stopped (by a listener) or failed."""
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
