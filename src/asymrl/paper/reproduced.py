"""A part of the paper, made from our own runs: its table and its figures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import polars as pl
from matplotlib.figure import Figure

from asymrl.paper import figures
from asymrl.paper.parts import Extent, Part, extent
from asymrl.paper.results import (
    chosen,
    comparison,
    final_values,
    power_statement,
    read_results,
    up_to,
    with_tuned_settings,
)
from asymrl.paper.selection import leaders, ranking, searched
from asymrl.stores.wording import thousands


class Reproduction(NamedTuple):
    """A part of the paper."""

    part: str
    numbers: pl.DataFrame
    leaders: pl.DataFrame
    """The rows of the numbers that matter most."""
    figures: dict[str, Figure]
    """By the name of their files, without an ending."""
    notes: list[str]
    """What a reader should know before the table."""
    reading: str | None = None
    """How to read the table, to be printed under it."""

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Writes the numbers as `PART.csv`, and each figure as .png and .svg. Returns the files to look at."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        table = folder / f"{self.part}.csv"
        self.numbers.write_csv(table, float_precision=6)
        return [table, *(figures.save(figure, folder / name) for name, figure in self.figures.items())]


def reproduction(
    part: Part, folder: str | os.PathLike[str], wanted: Extent | None = None, *, until: int | None = None
) -> Reproduction:
    """The table and the figures of a part of the paper, from a store.

    Args:
        part: "curves" (figure 3), "critics" (figure 4) or "grid" (the search for settings).
        folder: of the store.
        wanted: which of its runs. None: those of the paper.
        until: for curves, look at the runs as they were after this many steps.

    Raises:
        RunError: if there are no such runs in the store.
        ValueError: if `until` is given for another part.
    """
    if until is not None and part != "curves":
        raise ValueError(f"--until: for curves only, not for {part}")
    source, wanted = Path(folder), wanted or extent(part)
    if part == "critics":
        return _critics(chosen(read_results(source, "probes"), *wanted))
    metrics = chosen(read_results(source), *wanted)
    return _grid(metrics) if part == "grid" else _curves(metrics, until)


def _curves(metrics: pl.DataFrame, until: int | None) -> Reproduction:
    metrics, notes = with_tuned_settings(metrics), []
    if until is not None:
        metrics, short = up_to(metrics, until)
        for (world, method), steps in short.items():
            notes.append(f"left out: {world} {method}, trained for {thousands(steps)} steps only")
    numbers = comparison(metrics)
    drawn = {"curves": figures.learning_curves(metrics)}
    if (together := figures.aggregates(metrics)) is not None:
        drawn["aggregates"] = together
    return Reproduction("curves", numbers, numbers, drawn, notes, power_statement(numbers))


def _critics(probes: pl.DataFrame) -> Reproduction:
    probes = with_tuned_settings(probes)
    numbers = final_values(probes)
    return Reproduction("critics", numbers, numbers, {"critics": figures.critic_values(probes)}, [])


def _grid(metrics: pl.DataFrame) -> Reproduction:
    metrics, missing = searched(metrics)
    numbers = ranking(metrics)
    return Reproduction("grid", numbers, leaders(numbers), {"grid": figures.grid_overview(numbers)}, missing)
