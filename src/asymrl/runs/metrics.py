"""Learning curves as a tidy table: one row per run and point."""

from __future__ import annotations

import io

import numpy as np
import polars as pl

from asymrl.learning.state import METRICS
from asymrl.runs.batch import Batch

COUNTERS = ("timestep", "episode", "update")
LABELS = ("world", "method", "seed")


def metrics_table(batch: Batch, curve: np.ndarray, logged: np.ndarray) -> pl.DataFrame:
    """The points that were written so far.

    Args:
        batch: the runs.
        curve: `[run, point, metric]`, as in `RunState`.
        logged: `[run]`, how many of the points are there.

    Returns:
        Columns `world`, `method`, `seed`, then the settings in which the runs differ, then `METRICS`.
    """
    points = np.minimum(logged, curve.shape[1])
    rows = np.repeat(np.arange(len(batch)), points)
    written = np.arange(curve.shape[1])[None] < points[:, None]
    values = curve[written]
    own = [name for name in batch.differing() if name not in LABELS]
    columns: dict[str, pl.Series] = {
        "world": pl.Series([batch.first.world], dtype=pl.String).new_from_index(0, len(rows)),
        "method": pl.Series([batch.first.method], dtype=pl.String).new_from_index(0, len(rows)),
        "seed": pl.Series(np.asarray(batch.seeds, np.int64)[rows]),
        **{name: pl.Series([getattr(each, name) for each in batch.settings]).gather(rows) for name in own},
    }
    for i, name in enumerate(METRICS):
        column = values[:, i]
        columns[name] = pl.Series(column.astype(np.int64) if name in COUNTERS else column)
        if name.startswith("evaluation_") and not batch.first.evaluation_episodes:
            columns[name] = pl.Series([None], dtype=pl.Float32).new_from_index(0, len(rows))
    return pl.DataFrame(columns)


def to_parquet(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()
