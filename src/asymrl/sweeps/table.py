"""The results of a sweep as tidy Parquet tables, for polars, pandas and DuckDB alike.

`results.parquet` has a row for each run and point of its learning curve, `runs.parquet` a row for each run, and
`probes.parquet`, where something was measured during training, a row for each run, measurement and number.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from asymrl.learning.settings import Settings
from asymrl.learning.state import METRICS
from asymrl.runs.files import RunError, write_whole
from asymrl.runs.options import SETTINGS
from asymrl.sweeps.ledger import SweepFolder
from asymrl.sweeps.results import Results

# Of the metrics: the weight of the entropy follows from the settings and the timestep.
COLUMNS = tuple(name for name in METRICS if name != "negentropy_weight")
COUNTERS = ("timestep", "episode", "update")
ALWAYS = ("steps", "actor_rate", "critic_rate", "entropy_weight")  # settings that have a column in any case
COMPRESSION = 9  # zstd; more takes minutes and saves little


def collect_folder(path: Path) -> tuple[Path, int, int]:
    """Puts the finished cells of a folder into tables. Returns the main one, its rows, and how many runs there are.

    Raises:
        RunError: if nothing is finished, or a file is damaged.
        StorageError: if a table could not be written.
    """
    folder = SweepFolder(path)
    found = list(folder.results())
    if not found:
        raise RunError(f"{path}: no cells are finished here; run a sweep into it first")
    tables = {"results": results_table(found), "runs": runs_table(found), "probes": probes_table(found)}
    for name, table in tables.items():
        if len(table):
            write_whole(path / f"{name}.parquet", to_parquet(table))
    return folder.table_file, len(tables["results"]), len(tables["runs"])


def results_table(found: Sequence[Results]) -> pl.DataFrame:
    """Learning curves, `world, method, <settings>, seed` and then the metrics, sorted."""
    own = settings_shown(found)
    tables = []
    for results in found:
        points = np.minimum(results.logged, results.curve.shape[1])
        values = results.curve[np.arange(results.curve.shape[1])[None] < points[:, None]]
        columns = _labels(results, own, np.repeat(np.arange(len(results.batch)), points))
        for name in COLUMNS:
            column = values[:, METRICS.index(name)]
            columns[name] = pl.Series(column.astype(np.int32) if name in COUNTERS else column)
        tables.append(pl.DataFrame(columns))
    table = _joined(tables, own)
    evaluated = table.select(pl.col("^evaluation_.*$").is_nan().all()).row(0)
    return table.drop([f"evaluation_{what}" for what in ("return", "length")]) if all(evaluated) else table


def runs_table(found: Sequence[Results]) -> pl.DataFrame:
    """One row per run: how far it came, its last point, why it failed if it did, and where it was trained."""
    own, tables = settings_shown(found), []
    for results in found:
        rows = np.arange(len(results.batch))
        last = np.maximum(np.minimum(results.logged, results.curve.shape[1]) - 1, 0)
        final = results.curve[rows, last]
        columns = _labels(results, own, rows)
        columns["timesteps"] = pl.Series(results.timesteps.astype(np.int32))
        columns["final_return"] = pl.Series(final[:, METRICS.index("return")])
        columns["final_length"] = pl.Series(final[:, METRICS.index("length")])
        columns["failure"] = pl.Series([results.failures.get(int(row)) for row in rows], dtype=pl.String)
        for name in ("device", "jax", "width", "seconds", "steps_per_second"):
            columns[f"batch_{name}"] = pl.Series([results.about.get(name)] * len(rows))
        tables.append(pl.DataFrame(columns))
    return _joined(tables, own, "runs")


def probes_table(found: Sequence[Results]) -> pl.DataFrame:
    """What was measured during training: `timestep`, the name of the number, and its value.

    A run that ends before the others of its batch stays as it is, and is left out from then on.
    """
    own, tables = settings_shown(found), []
    for results in found:
        if not results.probe:
            continue
        timesteps, values = results.probe["probe_timesteps"], results.probe["probe_values"]
        names = results.about["probe_columns"]
        is_new = np.diff(timesteps, axis=0, prepend=-1) > 0
        rows = np.nonzero(is_new)[1]
        columns = _labels(results, own, np.repeat(rows, len(names)))
        columns["timestep"] = pl.Series(np.repeat(timesteps[is_new], len(names)).astype(np.int32))
        columns["probe"] = pl.Series(names * len(rows), dtype=pl.Categorical)
        columns["value"] = pl.Series(values[is_new].reshape(-1).astype(np.float32))
        tables.append(pl.DataFrame(columns))
    return _joined(tables, own, "probes") if tables else pl.DataFrame()


def settings_shown(found: Iterable[Results]) -> tuple[str, ...]:
    """The settings that have a column: those that are always of interest, and those that differ anywhere."""
    seen: dict[str, set[Any]] = {name: {getattr(Settings(), name)} for name in SETTINGS}
    for results in found:
        for settings in set(results.batch.settings):
            for name in SETTINGS:
                seen[name].add(getattr(settings, name))
    labels = ("world", "method")
    return tuple(name for name in SETTINGS if name not in labels and (name in ALWAYS or len(seen[name]) > 1))


def _labels(results: Results, own: Sequence[str], rows: np.ndarray) -> dict[str, pl.Series]:
    """The columns that say which run each of the rows belongs to."""
    batch = results.batch
    columns = {
        "world": pl.Series([batch.first.world], dtype=pl.Categorical).new_from_index(0, len(rows)),
        "method": pl.Series([batch.first.method], dtype=pl.Categorical).new_from_index(0, len(rows)),
    }
    for name in own:
        columns[name] = _column(name, [getattr(settings, name) for settings in batch.settings]).gather(rows)
    columns["seed"] = pl.Series(np.asarray(batch.seeds, np.int64)[rows])
    return columns


def _column(name: str, values: list[Any]) -> pl.Series:
    if any(isinstance(value, tuple) for value in values):
        values = [":".join(map(str, value)) if isinstance(value, tuple) else value for value in values]
    kinds = {type(value) for value in values} - {type(None)}
    if name == "hidden" or kinds == {str}:
        return pl.Series(values, dtype=pl.Categorical)
    if name == "window":
        return pl.Series(values, dtype=pl.Int64)
    return pl.Series(values, dtype=pl.Float64) if not kinds or float in kinds else pl.Series(values)


def _joined(tables: Sequence[pl.DataFrame], own: Sequence[str], kind: str = "results") -> pl.DataFrame:
    """All tables as one, sorted by what the runs are."""
    order = ["world", "method", *own, "seed", *(["timestep"] if kind != "runs" else [])]
    table = pl.concat(tables, how="vertical_relaxed")
    # By name, and not by when a name was first met.
    keys = [pl.col(name).cast(pl.String) if table[name].dtype == pl.Categorical else pl.col(name) for name in order]
    return table.sort(keys, nulls_last=False, maintain_order=True)


def to_parquet(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd", compression_level=COMPRESSION)
    return buffer.getvalue()
