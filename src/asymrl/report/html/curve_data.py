"""Learning curves as data of a page: small enough for 800 runs, and still the numbers of the table.

Runs of a world share their timesteps, since a chart has one axis. A run has a point in every period of its learning
curve, at an update, so its timesteps differ slightly from those of other runs; the page shows it at the median of all
runs. Values have `DIGITS` significant digits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from asymrl.report.curves import MEANINGS, SERIES, curves, has_values
from asymrl.report.html.page_numbers import numbers
from asymrl.report.html.run_groups import RunGroup, group_colours, groups_of
from asymrl.report.summary import comparable
from asymrl.runs.store import Store
from asymrl.runs.tables import RUNS_FILE, read_table
from asymrl.settings import Settings

DIGITS = 4
MOST_POINTS = 450_000  # numbers of single runs on a page, about seven bytes each
MOST_RUNS = 3_000  # with more, there are means only
CLEARLY = 0.03  # share of the distance from a random to the best policy
FEWEST_POINTS = 60  # of a curve, however many runs there are
# In the order in which they are left out if there is no room, the last one first.
METRICS = ("return", "evaluation_return", "length", "critic_loss", "policy_loss", "negentropy_loss")
LABELS = {**MEANINGS, "length": "length of the last 100 episodes"}


class Axis(NamedTuple):
    """The points of runs that have equally long periods."""

    period: int
    slots: Int[np.ndarray, "point"]
    """Numbers of the periods that are shown."""
    timesteps: Float[np.ndarray, "point"]


def curve_data(store: Store, search: Collection[int] = ()) -> dict[str, Any]:
    """The learning curves of a store for `startCurves` in curves.js.

    `palette`: colours for many lines. `metrics`: their names and labels. `worlds`: each with a `name`, `references`,
    `axes` (lists of timesteps) and `lines`, which are groups of runs that differ in the seed only: `label`, `colour`,
    number of its `axis`, the numbers and `seeds` of its `runs`, and by metric the `mean` over runs, its standard
    `error`, and the `values` of each run. Runs of a `search` are left out.
    """
    metrics, table = store.metrics(), read_table(store.path, RUNS_FILE)
    metrics = metrics.filter(~pl.col("run").is_in(list(search)))
    groups = groups_of(table.filter(pl.col("run").is_in(metrics["run"].unique().implode())))
    colours = group_colours([group for each in groups.values() for group in each])
    names, stride = _plan(metrics)
    settings = [run.settings for run in store.runs]
    in_world = {frame["world"][0]: frame for frame in metrics.partition_by("world", maintain_order=True)}
    return {
        "palette": list(SERIES),
        "metrics": [{"name": name, "label": LABELS.get(name, name.replace("_", " "))} for name in names],
        "worlds": [
            _world(world, in_world[world], lines, settings, names, stride, colours) for world, lines in groups.items()
        ],
    }


def _plan(metrics: pl.DataFrame) -> tuple[list[str], int]:
    """Which metrics are shown, and the stride between the points shown."""
    there = [name for name in METRICS if name in metrics.columns and has_values(metrics[name])]
    longest = int(metrics.group_by("run").len()["len"].max() or 1)  # type: ignore[arg-type]
    stride = max(1, math.ceil(len(metrics) / MOST_POINTS))
    stride = min(stride, max(1, longest // FEWEST_POINTS))
    room = max(1, MOST_POINTS // max(1, len(metrics) // stride))
    return there[:room], stride


def _world(
    world: str,
    metrics: pl.DataFrame,
    groups: Sequence[RunGroup],
    settings: Sequence[Settings],
    names: Sequence[str],
    stride: int,
    colours: Mapping[str, str],
) -> dict[str, Any]:
    periods = pl.col("run").replace_strict({run: settings[run].log_period for run in metrics["run"].unique()})
    metrics = metrics.with_columns(period=periods).with_columns(slot=pl.col("timestep") // pl.col("period"))
    axes = [_axis(rows, stride) for rows in metrics.partition_by("period", maintain_order=True)]
    number = {axis.period: i for i, axis in enumerate(axes)}
    by_run = {rows["run"][0]: rows for rows in metrics.partition_by("run", maintain_order=True)}
    with_runs = sum(len(group.runs) for group in groups) <= MOST_RUNS and len(settings) <= MOST_RUNS
    lines = []
    for group in groups:
        numbers = group.runs["run"].to_list()
        rows = [by_run[run] for run in numbers]
        which = number[rows[0]["period"][0]]
        line = {
            "label": group.label,
            "colour": colours[group.label],
            "axis": which,
            "runs": numbers,
            "seeds": group.runs["seed"].to_list(),
            "failed": (group.runs["status"] == "failed").to_list(),
            "mean": {},
            "error": {},
            "values": {},
        }
        for name in names:
            if not any(has_values(each[name]) for each in rows):
                continue
            line["mean"][name], line["error"][name] = _band(rows, name, axes[which])
            if with_runs:
                line["values"][name] = [_at_slots(each, name, axes[which]) for each in rows]
        lines.append(line)
    return {
        "name": world,
        "references": _references(world) if comparable(metrics) else [],
        "axes": [axis.timesteps.tolist() for axis in axes],
        "lines": lines,
    }


def _axis(rows: pl.DataFrame, stride: int) -> Axis:
    points = rows.group_by("slot").agg(pl.col("timestep").median()).sort("slot")
    sample = points.gather(sorted({*range(stride - 1, len(points), stride), len(points) - 1}))
    return Axis(rows["period"][0], sample["slot"].to_numpy(), np.round(sample["timestep"].to_numpy()))


def _band(runs: Sequence[pl.DataFrame], name: str, axis: Axis) -> tuple[list[float | None], list[float | None]]:
    """The mean over runs and its standard error, as in the figures, up to where the shortest run ends."""
    together = curves(pl.concat(runs).drop("period", "slot"), name, axis.timesteps)
    mean, error = together.band()
    rest: list[float | None] = [None] * (len(axis.timesteps) - len(mean))
    return numbers(mean, DIGITS) + rest, numbers(error, DIGITS) + rest


def _at_slots(run: pl.DataFrame, name: str, axis: Axis) -> list[float | None]:
    """The points of a run in the periods that are shown; None where it has none."""
    values = np.full(int(max(axis.slots[-1], run["slot"].max() or 0)) + 1, np.nan)  # type: ignore[type-var]
    values[run["slot"].to_numpy()] = run[name].to_numpy()
    return numbers(values[axis.slots], DIGITS)


def _references(world: str) -> list[dict[str, Any]]:
    """The returns of a random and of the best known policy, with bounds where only those are known.

    Between them, that of the best policy that ignores what it sees, where it is known and clearly better than random:
    a curve that stays below has learned nothing from its observations.
    """
    from asymrl.theory.solvers.references import known_returns  # its solvers take a while to load

    reference = known_returns(world)
    if reference is None:
        return []
    returns = reference.undiscounted
    labelled = [("random policy", returns["random"]), ("best known", returns["best"])]
    if (blind := returns.get("uninformed")) is not None:
        span = returns["best"].low - returns["random"].high
        if returns["random"].high + CLEARLY * span < blind.low < returns["best"].low - CLEARLY * span:
            labelled.append(("ignores what it sees", blind))
    return [{"label": label, "low": score.low, "high": score.high} for label, score in labelled]
