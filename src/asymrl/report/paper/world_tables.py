"""The results of the runs of each world: their final returns, when they solve the task, and whether they lose it again.

A run has *solved* a world at the first point of its learning curve, the mean of 100 episodes, above the world's mark,
and *lost* it if it falls below another one later. Marks are returns; in the memory rooms, what is earned at the exits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from asymrl.report.falls import falls_table
from asymrl.report.intervals import bootstrap, improvement_interval, mean
from asymrl.report.paper.evidence import Evidence, earned, is_rooms, with_earned
from asymrl.report.paper.results import in_paper_order
from asymrl.runs.statistics import final_returns
from asymrl.settings.hyperparameters import PAPER_WORLDS
from asymrl.settings.methods import PAPER_METHODS

MILLION = 1_000_000


class Marks(NamedTuple):
    """The returns at which a world counts as solved, and as lost again."""

    solved: float
    lost: float


_HEAVEN_HELL, _SHOPPING, _ROOMS = Marks(0.9, 0.5), Marks(0.0, -20.0), Marks(2.5, 1.0)
MARKS = {
    "heaven-hell-3": _HEAVEN_HELL,
    "heaven-hell-4": _HEAVEN_HELL,
    "shopping-5": _SHOPPING,
    "shopping-6": _SHOPPING,
    "car-flag": Marks(0.4, 0.2),  # reaching one of the two flags in time, and not the other, earns 0.5
    "cleaner": Marks(60.0, 30.0),
    "memory-four-rooms-7x7": _ROOMS,
    "memory-four-rooms-9x9": _ROOMS,
}


def world_table(evidence: Evidence, world: str, against: str = "a2c-asym-hs") -> pl.DataFrame:
    """A row for each method in a world, as far as it was trained, with 95 % intervals `NAME_low` and `NAME_high`.

    `final` is the mean final return, `improvement` the probability that a run of `against` does better after the number
    of steps that both have, `solved` how many runs have solved the world, `first` after how many million steps the
    median one of these did, with the first and the last as bounds, and `lost` how many have lost it again. In the
    memory rooms, `length` and `earned` are about the last tenth of training: steps per episode, and what runs earn at
    the exits, where chance earns nothing.
    """
    here = evidence.metrics.filter(pl.col("world") == world)
    is_there, rows = (here["method"] == against).any(), []
    for method in in_paper_order(here["method"].to_list(), PAPER_METHODS):
        curves, finals = evidence.rows(world, method), evidence.finals(world, method)
        end = bootstrap(finals, mean)
        better = None
        if is_there and method != against:
            steps = evidence.steps(world, method, against)
            pair = (evidence.finals(world, each, steps) for each in (against, method))
            better = improvement_interval(*pair)
        marked = with_earned(curves).with_columns(pl.col("earned").alias("return")) if is_rooms(world) else curves
        runs = falls_table(marked, solved=MARKS[world].solved, lost=MARKS[world].lost)
        first = runs["solved"].drop_nulls().to_numpy() / MILLION
        row = {
            "world": world,
            "method": method,
            "steps": int(curves["steps"].to_numpy().max()),
            "runs": len(finals),
            **_bounds("final", end),
            **_bounds("improvement", better),
            "solved": len(first),
            **_bounds("first", (float(np.median(first)), first.min(), first.max()) if len(first) else None),
            "lost": int((runs["falls"] > 0).sum()),
        }
        if is_rooms(world):
            lengths = final_returns(curves, "length")["final"].to_numpy()
            row |= _bounds("length", bootstrap(lengths[:, None], mean))
            row |= _bounds("earned", bootstrap(earned(curves)[:, None], mean))
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _bounds(name: str, interval: tuple[float, float, float] | None) -> dict[str, float | None]:
    estimate, low, high = interval or (None, None, None)
    return {name: estimate, f"{name}_low": low, f"{name}_high": high}


def world_tables(evidence: Evidence) -> dict[str, pl.DataFrame]:
    """The tables of all worlds that were run, in the paper's order."""
    return {world: world_table(evidence, world) for world in PAPER_WORLDS if (evidence.metrics["world"] == world).any()}
