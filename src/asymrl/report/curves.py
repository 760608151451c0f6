"""Learning curves as a figure."""

from __future__ import annotations

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

from asymrl.learning.methods import METHODS
from asymrl.worlds.reference_scores import Score

# Colours that people with any kind of colour vision can tell apart (Okabe and Ito), one for each method.
COLOURS: dict[str, str] = dict(zip(METHODS, ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7"), strict=True))
OTHER_COLOUR = "#555555"
GREY = "#8a8a8a"
GRID = 400  # points at which curves are averaged
DPI = 200


class Curves(NamedTuple):
    """The curves of several runs at common timesteps."""

    timesteps: Float[np.ndarray, "point"]
    values: Float[np.ndarray, "run point"]

    def mean(self) -> Float[np.ndarray, "point"]:
        return self.values.mean(axis=0)

    def standard_error(self) -> Float[np.ndarray, "point"]:
        """Of the mean over runs; zero for a single run, which says nothing about others."""
        count = len(self.values)
        return self.values.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.zeros_like(self.timesteps)


def curves(metrics: pl.DataFrame, metric: str = "return") -> Curves:
    """The curves of all runs in a table of metrics, up to where the shortest ends.

    Runs have their points at slightly different timesteps, as episodes end when they end; between two points a curve
    is a straight line.
    """
    labels = [name for name in metrics.columns[: metrics.columns.index("timestep")] if name != "world"]
    runs = [run.select("timestep", metric).to_numpy() for run in metrics.partition_by(labels, maintain_order=True)]
    end = min(run[-1, 0] for run in runs)
    timesteps = np.linspace(0, end, GRID)
    return Curves(timesteps, np.stack([np.interp(timesteps, run[:, 0], run[:, 1]) for run in runs]))


def draw_curve(axes: Axes, metrics: pl.DataFrame, *, label: str, colour: str) -> None:
    """The mean of all runs with a band of one standard error, and each run as a thin line."""
    found = curves(metrics)
    mean, error = found.mean(), found.standard_error()
    for values in found.values:
        axes.plot(found.timesteps, values, color=colour, linewidth=0.5, alpha=0.35, zorder=2)
    axes.fill_between(found.timesteps, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0, zorder=3)
    axes.plot(found.timesteps, mean, color=colour, linewidth=1.8, label=label, zorder=4)


def draw_references(axes: Axes, world: str) -> None:
    """Lines where a random policy and the best known one stand; a band where the best is known only by bounds."""
    from asymrl.solvers.references import known_returns  # its solvers take a while to load

    known = known_returns(world)
    if known is None:
        return
    for who, name in (("random", "random policy"), ("best", "best known")):
        score: Score = known.undiscounted[who]
        if score.low < score.high:
            axes.axhspan(score.low, score.high, color=GREY, alpha=0.18, linewidth=0, zorder=1)
        else:
            axes.axhline(score.low, color=GREY, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
        axes.annotate(
            name,
            xy=(1, (score.low + score.high) / 2),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=GREY,
            fontsize=8,
            annotation_clip=False,
        )


def learning_curve(metrics: pl.DataFrame, *, references: bool = True) -> Figure:
    """A figure of the learning curves in a table of metrics, one line for all runs that differ only in their seed.

    Args:
        metrics: of one world.
        references: draw where a random and the best known policy stand, which holds for 100 steps.
    """
    worlds = metrics["world"].unique(maintain_order=True)
    figure = Figure(figsize=(5.6, 3.5), layout="constrained")
    axes = figure.subplots()
    groups = metrics.partition_by(_kinds(metrics), maintain_order=True)
    for rows, colour in zip(groups, _colours(groups), strict=True):
        draw_curve(axes, rows, label=_label(rows), colour=colour)
    if references:
        draw_references(axes, worlds[0])
    axes.set_title(", ".join(worlds), fontsize=11, loc="left")
    axes.set_xlabel("timesteps")
    axes.set_ylabel("return of the last 100 episodes")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlim(0, _end(metrics))
    axes.margins(y=0.08)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=9, loc="best")
    return figure


def _kinds(metrics: pl.DataFrame) -> list[str]:
    """The columns that tell runs apart, but for the seed: the method, and settings in which runs differ."""
    return [name for name in metrics.columns[: metrics.columns.index("timestep")] if name not in ("world", "seed")]


def _label(rows: pl.DataFrame) -> str:
    kinds = [f"{name} {rows[name][0]}" for name in _kinds(rows) if name != "method"]
    runs = rows["seed"].n_unique()
    return ", ".join([rows["method"][0], *kinds, *([f"{runs} runs"] if runs > 1 else [])])


def _colours(groups: list[pl.DataFrame]) -> list[str]:
    """Those of the methods; shades of one scale where a method appears with different settings."""
    methods = [rows["method"][0] for rows in groups]
    if len(set(methods)) == len(methods):
        return [COLOURS.get(method, OTHER_COLOUR) for method in methods]
    shades = colormaps["viridis"](np.linspace(0, 0.85, len(groups)))
    return [to_hex(shade) for shade in shades]


def _end(metrics: pl.DataFrame) -> float:
    """Where training ended: the distance of two points after the last one."""
    timesteps = metrics["timestep"].unique().sort().to_numpy()
    first = metrics.filter(pl.col("seed") == metrics["seed"][0])["timestep"].to_numpy()
    return float(timesteps[-1] + (np.median(np.diff(first)) if len(first) > 1 else 1))


def save_learning_curve(metrics: pl.DataFrame, path: Path, *, references: bool = True) -> None:
    """Writes the figure in the format of the file's ending, such as .png, .pdf or .svg."""
    learning_curve(metrics, references=references).savefig(path, dpi=DPI)
