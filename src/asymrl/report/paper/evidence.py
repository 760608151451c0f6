"""The evidence by which claims of the paper are judged: our runs, and numbers from them with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from asymrl.report.curves import curves
from asymrl.report.intervals import Interval, bootstrap, difference_interval, mean, normalised
from asymrl.report.paper.results import chosen, read_results, up_to, with_paper_settings
from asymrl.runs.files import RunError
from asymrl.runs.statistics import final_returns, run_columns, tenth_means
from asymrl.runs.tables import METRICS_FILE, PROBES_FILE
from asymrl.settings.hyperparameters import PAPER_WORLDS, Steps
from asymrl.settings.methods import PAPER_METHODS
from asymrl.worlds.reference_scores import scores

STEP_COST, EXIT_REWARD = 0.05, 5.0  # of the memory rooms: what a step costs, and what the good exit gives


class Evidence(NamedTuple):
    """The tables of finished runs."""

    metrics: pl.DataFrame
    """Learning curves of figure 3: the paper's settings, and runs of one length for each world and method."""
    probes: pl.DataFrame | None
    """The critics' values at the fork of heaven-hell-4; None if they were not measured."""
    grid: pl.DataFrame | None
    """Learning curves of a grid search; None if there is none."""

    def steps(self, world: str, *methods: str) -> int:
        """How many steps all of these methods were trained for in a world; runs are compared after this number.

        Raises RunError if one has no runs.
        """
        return min(int(self.rows(world, method)["steps"].to_numpy().min()) for method in methods)

    def rows(self, world: str, method: str, steps: int | None = None) -> pl.DataFrame:
        """The learning curves of a method in a world, whole or up to this many steps.

        Raises RunError if there are none.
        """
        rows = self.metrics.filter(pl.col("world") == world, pl.col("method") == method)
        if rows.is_empty():
            raise RunError(f"no runs of {world} with {method}")
        if steps is None or steps == rows["steps"].to_numpy().min():
            return rows
        return up_to(rows, steps)[0]

    def finals(self, world: str, method: str, steps: int | None = None) -> Float[np.ndarray, "run 1"]:
        """The final return of each run."""
        return final_returns(self.rows(world, method, steps))["final"].to_numpy()[:, None]

    def during(self, world: str, method: str, steps: int) -> Float[np.ndarray, "run 1"]:
        """The mean return of each run over all of training: the faster it learns, the higher."""
        rows = self.rows(world, method, steps)
        means = rows.group_by(run_columns(rows), maintain_order=True).agg(pl.col("return").cast(pl.Float64).mean())
        return means["return"].to_numpy()[:, None]

    def gains(self, world: str, method: str, steps: int) -> Float[np.ndarray, "run 1"]:
        """The share of the possible gain that each run reaches: random actions earn 0, the best known policy 1.

        In the memory rooms only what is earned at the exits counts: 0 is chance. Finding some exit sooner earns
        something there, but is not what the task is about.
        """
        if is_rooms(world):
            return earned(self.rows(world, method, steps))[:, None] / EXIT_REWARD
        return normalised(self.finals(world, method, steps), world)

    def gain(self, world: str, method: str, steps: int) -> Interval:
        """The mean of `gains`."""
        return bootstrap(self.gains(world, method, steps), mean)

    def difference(self, world: str, method: str, other: str, steps: int) -> Interval:
        """By how much the mean final return of a method is above that of another."""
        return difference_interval(self.finals(world, method, steps), self.finals(world, other, steps))

    def lead(self, world: str, method: str, other: str, steps: int) -> Interval:
        """By how much the mean return over all of training of a method is above that of another."""
        return difference_interval(self.during(world, method, steps), self.during(world, other, steps))

    def fall(self, world: str, method: str) -> Interval:
        """The mean final return minus that of the best tenth of training, chosen by the mean over runs.

        Zero for a method that is best in the end.
        """
        smooth = tenth_means(curves(self.rows(world, method)).values)
        peak = int(smooth.mean(axis=0).argmax())
        return bootstrap((smooth[:, -1] - smooth[:, peak])[:, None], mean)


def is_rooms(world: str) -> bool:
    return world.startswith("memory-four-rooms")


def earned(rows: pl.DataFrame) -> Float[np.ndarray, "run"]:
    """What each run in the memory rooms earns at the exits in the last tenth of training: return without step costs."""
    return final_returns(with_earned(rows), "earned")["final"].to_numpy()


def with_earned(rows: pl.DataFrame) -> pl.DataFrame:
    """Learning curves of the memory rooms with a column `earned`: the return at the exits, without step costs."""
    value, length = pl.col("return").cast(pl.Float64), pl.col("length").cast(pl.Float64)
    return rows.with_columns(earned=value + STEP_COST * length)


def scale(world: str) -> float:
    """How much more the best known policy earns than random actions."""
    reference = scores(world)
    assert reference is not None, world
    random, best = reference.random_and_best
    return best - random


def read_evidence(
    folder: Path, worlds: Sequence[str] = PAPER_WORLDS, seeds: int | None = None, steps: Steps | None = None
) -> Evidence:
    """The evidence in a store of figures 3 and 4, and in that of the grid beside it, if there is one.

    Args:
        folder: such as `results/curves`; the grid is then `results/grid`.
        worlds: the worlds that count.
        seeds: how many, counted from the first. None: all.
        steps: of each run, or by world; None: all that there are.

    Raises:
        RunError: if there are no runs of the paper in the folder.
    """
    selection = (list(worlds), list(PAPER_METHODS), seeds, steps)
    metrics = with_paper_settings(chosen(read_results(folder), *selection))
    probes = read_results(folder, "probes") if (folder / PROBES_FILE).is_file() else None
    if probes is not None:
        try:
            probes = with_paper_settings(chosen(probes, *selection))
        except RunError:
            probes = None
    beside = folder.absolute().with_name(folder.absolute().name.replace("curves", "grid"))
    grid = read_results(beside) if beside != folder.absolute() and (beside / METRICS_FILE).is_file() else None
    return Evidence(metrics, probes, grid)
