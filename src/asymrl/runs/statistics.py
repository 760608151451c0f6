"""The statistics that all parts share: mean and standard error over runs, recent and final returns of a run.

The final return of a run is the mean of its learning curve over the last tenth of training: of the points whose
timestep is at least 0.9 times the `steps` of its settings. A run that stopped earlier, because it failed or was solved,
has no such points; then it is the return at its last point. Every table, figure, choice and command uses this number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Float64, Shaped

if TYPE_CHECKING:
    import polars as pl

FINAL_SHARE = 0.1  # the share of training that counts as its end


def mean_and_error(
    values: Shaped[np.ndarray, "run *more"],
) -> tuple[Float64[np.ndarray, "*more"], Float64[np.ndarray, "*more"]]:
    """The mean over runs, and its standard error.

    Values that are not finite are left out, such as the return of a run before its first episode has ended. A mean of
    nothing is NaN, and so is the standard error of a single value, which says nothing about the spread.
    """
    numbers = np.asarray(values, np.float64)
    finite = np.isfinite(numbers)
    count = finite.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(finite, numbers, 0.0).sum(axis=0) / count
        squares = np.square(np.where(finite, numbers - mean, 0.0)).sum(axis=0)
        return mean, np.sqrt(squares / (count - 1) / count)


def recent_mean(values: Float[np.ndarray, "recent"], episodes: int) -> float:
    """The mean over the last episodes of a run that had so many, NaN before the first is over.

    Args:
        values: a number for each of the last 100 episodes, in any order; places that no episode has filled come last.
        episodes: how many the run had in all.
    """
    count = min(episodes, len(values))
    return float(values[:count].mean()) if count else np.nan


def tenth_means(curves: Float64[np.ndarray, "run point"]) -> Float64[np.ndarray, "run window"]:
    """Means over every tenth of training, from the first to the last, of curves with equally spaced points.

    Mean returns of a hundred episodes rise and fall by chance; these show whether the run itself does.
    """
    width = max(1, round(FINAL_SHARE * curves.shape[1]))
    return np.lib.stride_tricks.sliding_window_view(curves, width, axis=1).mean(axis=-1)


def run_columns(table: pl.DataFrame) -> list[str]:
    """The columns that say which run a row belongs to: all before `timestep`."""
    return table.columns[: table.columns.index("timestep")]


def final_points(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of each run in the last tenth of its training, or those at its last timestep if it has none there.

    Args:
        table: columns that say which run a row belongs to, `steps` among them; then `timestep`; then measurements.
    """
    import polars as pl

    last = pl.col("timestep").max().over(run_columns(table))
    return table.filter(pl.col("timestep") >= pl.min_horizontal((1 - FINAL_SHARE) * pl.col("steps"), last))


def final_returns(table: pl.DataFrame, metric: str = "return") -> pl.DataFrame:
    """The final return of each run, a row per run: the columns that say which it is, and `final`.

    Args:
        table: learning curves; see `final_points`.
        metric: the column to average, for the same mean of something else, such as `length`.
    """
    import polars as pl

    mean = pl.col(metric).cast(pl.Float64).mean().alias("final")
    return final_points(table).group_by(run_columns(table), maintain_order=True).agg(mean)
