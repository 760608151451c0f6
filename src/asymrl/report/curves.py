"""Learning curves as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from asymrl.draw import style
from asymrl.report.run_kinds import kind_label, kinds_in
from asymrl.runs.statistics import mean_and_error, run_columns
from asymrl.runs.wording import plural
from asymrl.settings.methods import PAPER_METHODS, PPO_METHODS
from asymrl.worlds.reference_scores import Score

# Colours of lines. The paper's methods have the first five, in every figure the same.
SERIES = (style.BLUE, style.ORANGE, style.VERMILION, style.GREEN, style.PURPLE, style.SKY, style.INK)
# The variants of DQN in such an order that Q(h), Q(s) and Q(h, s) have the colours of V(h), V(s) and V(h, s).
_DQN_ORDER = ("dqn", "adqn-state-vr", "adqn-vr", "adqn", "adqn-state", "adqn-short-vr", "adqn-short")
METHOD_COLOURS: dict[str, str] = {
    method: colour
    for family in (PAPER_METHODS, PPO_METHODS, _DQN_ORDER)
    for method, colour in zip(family, SERIES, strict=False)
}
MEANINGS = {"return": "return of the last 100 episodes", "evaluation_return": "return in evaluation"}
GRID = 400  # points at which curves are averaged
DPI = 200
COLUMNS = 3  # panels beside each other, one for each world
MOST_LABELS = 10  # in the legend of a panel


def method_colours(methods: Sequence[str]) -> dict[str, str]:
    """A colour for each method. Methods of a learner have fixed ones, by what their critic reads as far as possible.

    Where two methods would share a colour, the paper's or else the first keeps it; the other takes one that is left.
    """
    distinct = sorted(dict.fromkeys(methods), key=lambda name: name not in PAPER_METHODS)
    colours: dict[str, str] = {}
    for method in distinct:
        fixed_colour = METHOD_COLOURS.get(method)
        if fixed_colour is not None and fixed_colour not in colours.values():
            colours[method] = fixed_colour
    free = iter([colour for colour in SERIES if colour not in colours.values()])
    colours |= {method: next(free, style.MUTED) for method in distinct if method not in colours}
    return {method: colours[method] for method in methods}


# What a critic reads, as in V(h, s) or Q(h, s), has the colour of the paper's method whose critic reads it.
_READING_COLOURS: dict[str, str] = dict(zip(("(h)", "(s)", "(h, s)"), SERIES, strict=False))


def line_colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each line: fixed for V(h), V(s) and V(h, s), else one that is left; shades if there are many."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) > len(SERIES):
        return dict(zip(distinct, _shades(len(distinct)), strict=True))
    fixed = {name: _READING_COLOURS[name[1:]] for name in distinct if name[1:] in _READING_COLOURS}
    others = [colour for colour in SERIES if colour not in _READING_COLOURS.values()]
    free = iter([*others, *(colour for colour in _READING_COLOURS.values() if colour not in fixed.values())])
    return {name: fixed[name] if name in fixed else next(free) for name in distinct}


class Curves(NamedTuple):
    """The curves of several runs at common timesteps."""

    timesteps: Float[np.ndarray, "point"]
    values: Float[np.ndarray, "run point"]

    def band(self) -> tuple[Float[np.ndarray, "point"], Float[np.ndarray, "point"]]:
        """The mean over runs and its standard error; zero for a single run, whose band is its line."""
        mean, error = mean_and_error(self.values)
        return mean, np.nan_to_num(error)


def curves(
    metrics: pl.DataFrame, metric: str = "return", timesteps: Float[np.ndarray, "point"] | None = None
) -> Curves:
    """The curves of all runs in a table of metrics, up to where the shortest ends.

    The points of runs are at slightly different timesteps, as they are written at updates; curves are interpolated
    linearly. They are NaN where a run begins without values, and runs that have none are left out.

    Args:
        metrics: columns that say which run a row belongs to, then `timestep`, then metrics.
        metric: which of them; at least one run has values of it.
        timesteps: of the points; those after the end of the shortest run are left out. None: `GRID` points from 0 on.
    """
    runs = [
        run.select("timestep", metric).to_numpy()
        for run in metrics.partition_by(run_columns(metrics), maintain_order=True)
        if has_values(run[metric])
    ]
    end = min(run[-1, 0] for run in runs)
    timesteps = np.linspace(0, end, GRID) if timesteps is None else timesteps[timesteps <= end]
    return Curves(timesteps, np.stack([_interpolated(timesteps, *run.T) for run in runs]))


def has_values(metric: pl.Series) -> bool:
    """Whether any entry of a column is neither null, like a return before the first episode is over, nor NaN."""
    return metric.drop_nulls().is_not_nan().any()


def _interpolated(
    timesteps: Float[np.ndarray, "point"], knots: Float[np.ndarray, "knot"], values: Float[np.ndarray, "knot"]
) -> Float[np.ndarray, "point"]:
    there = ~np.isnan(values)
    left_value = None if there[0] else np.nan  # such as the return before the first episode is over
    return np.interp(timesteps, knots[there], values[there], left=left_value)


def draw_band(axes: Axes, curves: Curves, colour: str, *, label: str | None = None, width: float = 1.4) -> None:
    """The mean of all runs with a band of one standard error."""
    mean, error = curves.band()
    axes.fill_between(curves.timesteps, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0, zorder=2)
    axes.plot(curves.timesteps, mean, color=colour, linewidth=width, label=label, zorder=3)


def draw_references(axes: Axes, world: str) -> None:
    """Lines at the returns of a random and of the best known policy; a band where the best is known only by bounds."""
    from asymrl.theory.solvers.references import known_returns  # its solvers take a while to load

    reference = known_returns(world)
    if reference is None:
        return
    for who, name in (("random", "random policy"), ("best", "best known")):
        score: Score = reference.undiscounted[who]
        if score.low < score.high:
            axes.axhspan(score.low, score.high, color=style.MUTED, alpha=0.18, linewidth=0, zorder=1)
        else:
            axes.axhline(score.low, color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
        axes.annotate(
            name,
            xy=(1, (score.low + score.high) / 2),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=style.MUTED,
            fontsize=8,
            annotation_clip=False,
        )


def learning_curve(metrics: pl.DataFrame, metric: str = "return", *, references: bool = True) -> Figure:
    """Learning curves as a figure: a panel for each world, a line for all runs that differ only in the seed.

    Args:
        metrics: columns that say which run a row belongs to, then `timestep`, then metrics.
        metric: which of them to draw; points where a run has no value are left out.
        references: draw the returns of a random and of the best known policy, which hold for episodes of 100 steps.
    """
    worlds = metrics.partition_by("world", maintain_order=True)
    columns = min(len(worlds), COLUMNS)
    rows = -(-len(worlds) // columns)
    is_full = any(len(_groups(of_world)) > MOST_LABELS for of_world in worlds)
    figure = Figure(figsize=(5.6 * columns, (5.2 if is_full else 3.5) * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, of_world in zip(panels, worlds, strict=False):
        _draw_world_panel(axes, of_world, metric, references)
    for axes in panels[len(worlds) :]:
        axes.set_axis_off()
    return figure


def _draw_world_panel(axes: Axes, metrics: pl.DataFrame, metric: str, references: bool) -> None:
    world, kinds, ends = metrics["world"][0], kinds_in(metrics), []
    groups = _groups(metrics)
    for rows, colour in zip(groups, _colours(groups), strict=True):
        if not has_values(rows[metric]):
            continue
        lines = curves(rows, metric)
        for values in lines.values:
            axes.plot(lines.timesteps, values, color=colour, linewidth=0.5, alpha=0.35, zorder=2)
        draw_band(axes, lines, colour, label=_label(rows, kinds, len(lines.values)), width=1.8)
        ends.append(lines.band()[0][-1])
    if references:
        draw_references(axes, world)
    finish(axes, world, _end(metrics))
    axes.set_xlabel("timesteps")
    axes.set_ylabel(MEANINGS.get(metric, metric.replace("_", " ")))
    _draw_legend(axes, ends)


def _groups(metrics: pl.DataFrame) -> list[pl.DataFrame]:
    """The runs of a world, in groups that differ only in the seed."""
    return metrics.partition_by("method", *kinds_in(metrics), maintain_order=True)


def _draw_legend(axes: Axes, ends: Sequence[float]) -> None:
    """The legend of lines with these last values; if there are very many, the highest ones, below the panel."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > MOST_LABELS:
        order = np.argsort(np.nan_to_num(ends, nan=-np.inf), kind="stable")[::-1][:MOST_LABELS]
        entries = [handles[i] for i in order], [labels[i] for i in order]
        title = f"the highest {MOST_LABELS} of {len(labels)}"
        place = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.16)}
        axes.legend(*entries, frameon=False, fontsize=7, title=title, title_fontsize=7, alignment="left", **place)
    elif labels:
        axes.legend(frameon=False, fontsize=9, loc="best")


def finish(axes: Axes, title: str, end: float) -> None:
    """The style of all panels over timesteps."""
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlim(0, end)
    axes.margins(y=0.08)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=style.GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def _label(rows: pl.DataFrame, kinds: Sequence[str], runs: int) -> str:
    return ", ".join([kind_label(rows, kinds), *([plural("run", runs)] if runs > 1 else [])])


def _colours(groups: Sequence[pl.DataFrame]) -> list[str]:
    """The colours of the methods, or shades of one scale if a method appears with several settings."""
    methods = [rows["method"][0] for rows in groups]
    if len(set(methods)) == len(methods):
        return list(method_colours(methods).values())
    return _shades(len(groups))


def _shades(count: int) -> list[str]:
    """Colours of one scale, from dark to light."""
    return [to_hex(shade) for shade in colormaps["viridis"](np.linspace(0, 0.85, count))]


def _end(metrics: pl.DataFrame) -> float:
    """Where training ended: one period after the last point."""
    first = metrics.filter(pl.col("seed") == metrics["seed"][0])["timestep"].unique().sort().to_numpy()
    period = np.median(np.diff(first)) if len(first) > 1 else 1
    return float(max(metrics["timestep"]) + period)


def save_learning_curve(metrics: pl.DataFrame, path: Path, metric: str = "return", *, references: bool = True) -> None:
    """Writes the figure in the format of the file's ending, such as .png, .pdf or .svg."""
    learning_curve(metrics, metric, references=references).savefig(path, dpi=DPI)
