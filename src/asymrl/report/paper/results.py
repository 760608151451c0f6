"""Tables of finished runs, and the numbers that a reader of the paper looks for in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from asymrl.report.intervals import bootstrap, mean, normalised
from asymrl.report.paper.fork import PAIRS, exact_values
from asymrl.report.score_rows import improvement_row, score_row
from asymrl.runs.files import RunError
from asymrl.runs.runs import MAY_GROW
from asymrl.runs.statistics import final_points, final_returns, run_columns
from asymrl.runs.tables import METRICS_FILE, PROBES_FILE, read_table
from asymrl.runs.wording import thousands
from asymrl.settings import A2CSettings, names_of
from asymrl.settings.hyperparameters import PAPER_WORLDS, Steps, steps_in, tuned
from asymrl.settings.methods import PAPER_METHODS

# Settings that may differ between runs that learn the same: their length, and what is measured in them.
FREE = {*MAY_GROW, "precision", "preset", "evaluation_episodes", "evaluation_greedy"}


def read_results(folder: Path, name: str = "metrics") -> pl.DataFrame:
    """A table of a store. Raises RunError if it is not there or damaged."""
    if name == "probes" and not (folder / PROBES_FILE).is_file() and (folder / METRICS_FILE).is_file():
        raise RunError(
            f"{folder}: nothing was measured in its runs while they were trained; `asymrl reproduce critics` does, in "
            "a new --out"
        )
    table = read_table(folder, f"{name}.parquet")
    return table.with_columns(pl.col("world", "method").cast(pl.String))


def chosen(
    table: pl.DataFrame,
    worlds: Sequence[str],
    methods: Sequence[str],
    seeds: int | None,
    steps: Steps | None,
) -> pl.DataFrame:
    """The rows of these worlds and methods, of the first seeds, and of runs of this many steps (or by world).

    A longer run counts as it was after this many steps, which is what the shorter run would be. Without `steps`, where
    a method has runs of several lengths, the length with most runs counts, and among equals the longest.

    Raises:
        RunError: if there are none.
    """
    rows = table.filter(pl.col("world").is_in(list(worlds)), pl.col("method").is_in(list(methods)))
    if seeds is not None:
        rows = rows.filter(pl.col("seed") < seeds)
    if steps is not None:
        by_world = {world: steps_in(world, steps) for world in worlds}
        length = pl.col("world").replace_strict(by_world, return_dtype=pl.Int64)
        rows = rows.filter(pl.col("steps") >= length, (pl.col("steps") == length) | (pl.col("timestep") < length))
        rows = rows.with_columns(steps=length)
    if rows.is_empty():
        only = "" if seeds is None else f", of the first {seeds} seeds"
        if steps is not None:
            lengths = sorted({steps_in(world, steps) for world in worlds})
            only += f", of {' or '.join(map(thousands, lengths))} steps"
        raise RunError(f"no runs of {', '.join(worlds)} with {', '.join(methods)}{only}")
    return rows if steps is not None else _of_one_length(rows)


def _of_one_length(rows: pl.DataFrame) -> pl.DataFrame:
    """The runs of one length for each world and method."""
    one, runs = ["world", "method"], run_columns(rows)
    counted = rows.select(runs).unique().group_by(*one, "steps").len()
    lengths = counted.sort("len", "steps").group_by(one).last().select(*one, "steps")
    return rows.join(lengths, on=[*one, "steps"], how="semi", maintain_order="left")


def up_to(table: pl.DataFrame, steps: int) -> tuple[pl.DataFrame, dict[tuple[str, str], int]]:
    """The runs as they were after this many steps. Also the worlds and methods that were not trained for that long.

    Raises:
        RunError: if there are none.
    """
    if steps < 1:
        raise RunError(f"--until {steps}: choose a number of steps")
    short = table.filter(pl.col("steps") < steps).select("world", "method", "steps").unique(maintain_order=True)
    rows = table.filter(pl.col("steps") >= steps, pl.col("timestep") < steps).with_columns(steps=pl.lit(steps))
    if rows.is_empty():
        longest = thousands(max(table["steps"]))
        raise RunError(f"no run was trained for {thousands(steps)} steps; the longest for {longest}")
    return rows, {(world, method): count for world, method, count in short.rows()}


def with_paper_settings(table: pl.DataFrame) -> pl.DataFrame:
    """Only the runs with the paper's settings: its tuned values, where it has any, and our defaults for all others.

    Raises:
        RunError: if there are none.
    """
    usual, keep = A2CSettings(), pl.lit(False)
    fixed = [name for name in names_of(A2CSettings) if name not in FREE]
    for world, method in table.select("world", "method").unique(maintain_order=True).rows():
        here, own = pl.lit(True), {"world": world, "method": method, **(tuned(world, method) or {})}
        for name in fixed:
            default = getattr(usual, name)
            value, column = own.get(name, default), pl.col(name) if name in table.columns else pl.lit(default)
            is_number = isinstance(value, float)
            here = here & ((column - value).abs() < 1e-9 if is_number else column.eq_missing(pl.lit(value)))
        keep = keep | here
    rows = table.filter(keep)
    if rows.is_empty():
        raise RunError("no runs with the paper's settings; for other rates and weights, `asymrl reproduce grid`")
    return rows


def in_paper_order(names: Sequence[str], order: Sequence[str]) -> list[str]:
    return sorted(set(names), key=lambda name: (order.index(name) if name in order else len(order), name))


def scores_of(finals: pl.DataFrame, world: str, method: str) -> Float[np.ndarray, "run 1"]:
    rows = finals.filter(pl.col("world") == world, pl.col("method") == method)
    return rows["final"].to_numpy()[:, None]


def comparison(table: pl.DataFrame, against: str = "a2c-asym-hs") -> pl.DataFrame:
    """Final returns of each world and method with their statistics.

    `improvement` is the probability that a run of `against` does better than one of the method after the number of
    steps that both have, and `detectable` the difference of their means that these runs show with 80 % power.
    """
    finals, rows = final_returns(table), []
    longest = table.group_by("world", "method").agg(pl.col("steps").max()).rows()
    steps = {(world, method): count for world, method, count in longest}
    for world in in_paper_order(finals["world"].to_list(), PAPER_WORLDS):
        methods = finals.filter(pl.col("world") == world)["method"].to_list()
        for method in in_paper_order(methods, PAPER_METHODS):
            scores, pair = scores_of(finals, world, method), [(world, against), (world, method)]
            better = improvement_row(None, scores)
            if method != against and pair[0] in steps:
                shared = final_returns(up_to(_only(table, pair), min(steps[each] for each in pair))[0])
                better = improvement_row(*(scores_of(shared, *each) for each in pair))
            labels = {"world": world, "method": method, "steps": steps[world, method]}
            rows.append({**labels, **score_row(scores, world), **better})
    return pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)


def _only(table: pl.DataFrame, pairs: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """The rows of these worlds and methods."""
    return table.filter(pl.any_horizontal((pl.col("world") == w) & (pl.col("method") == m) for w, m in pairs))


def of_common_length(table: pl.DataFrame) -> pl.DataFrame:
    """The runs of each world after the number of steps that all of its methods have."""
    parts = table.partition_by("world", maintain_order=True)
    return pl.concat([up_to(part, int(part["steps"].to_numpy().min()))[0] for part in parts])


def worlds_of_all(finals: pl.DataFrame, methods: Sequence[str]) -> list[str]:
    """The worlds in which every one of the methods was run."""
    run = set(finals.select("world", "method").unique().rows())
    worlds = in_paper_order(finals["world"].to_list(), PAPER_WORLDS)
    return [world for world in worlds if all((world, method) in run for method in methods)]


def score_matrix(finals: pl.DataFrame, method: str, worlds: Sequence[str]) -> Float[np.ndarray, "run task"]:
    """Normalised final returns of a method in several worlds, for the number of runs that all of them have."""
    columns = [normalised(scores_of(finals, world, method)[:, 0], world) for world in worlds]
    count = min(len(column) for column in columns)
    return np.stack([column[:count] for column in columns], axis=1)


class WorldScores(NamedTuple):
    """Normalised final returns in all worlds where every method was run, after the number of steps that all have."""

    worlds: list[str]
    matrices: dict[str, Float[np.ndarray, "run task"]]
    """By method."""


def scores_together(table: pl.DataFrame) -> WorldScores | None:
    """The scores of all methods; None if there is no world in which all of them were run."""
    finals = final_returns(of_common_length(table))
    methods = in_paper_order(finals["method"].to_list(), PAPER_METHODS)
    worlds = worlds_of_all(finals, methods)
    if not worlds:
        return None
    return WorldScores(worlds, {method: score_matrix(finals, method, worlds) for method in methods})


def aggregate_rows(scores: WorldScores) -> pl.DataFrame:
    """The interquartile mean of the scores of each method in all worlds together, with its interval."""
    rows = []
    for method, matrix in scores.matrices.items():
        middle = bootstrap(matrix)
        rows.append(
            {
                "method": method,
                "worlds": len(scores.worlds),
                "runs": matrix.size,
                "score": middle.estimate,
                "score_low": middle.low,
                "score_high": middle.high,
            }
        )
    return pl.DataFrame(rows)


def final_values(probes: pl.DataFrame, n: int = 4) -> pl.DataFrame:
    """Figure 4 in numbers: the critics' values at the fork of Heaven-Hell-n at the end of training.

    The mean value of each pair over the last tenth of training, with an interval over runs, and the optimal value.
    """
    per_run = (
        final_points(probes)
        .with_columns(pl.col("probe").cast(pl.String))
        .group_by("method", "probe", "seed", maintain_order=True)
        .agg(pl.col("value").cast(pl.Float64).mean())
    )
    exact, rows = exact_values(n), []
    for method in in_paper_order(per_run["method"].to_list(), PAPER_METHODS):
        for pair in PAIRS:
            values = per_run.filter(pl.col("method") == method, pl.col("probe") == pair)["value"].to_numpy()
            middle = bootstrap(values[:, None], mean)
            rows.append(
                {
                    "method": method,
                    "pair": pair,
                    "runs": len(values),
                    "value": middle.estimate,
                    "value_low": middle.low,
                    "value_high": middle.high,
                    "optimal": exact[pair],
                }
            )
    return pl.DataFrame(rows)
