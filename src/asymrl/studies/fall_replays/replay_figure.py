"""The figure of the replays: what moves when in a fall, and which changes prevent it."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asymrl.draw import style

AROUND = (-30, 80)  # updates
LINES = {
    "critic_step_norm": ("step of the critic", style.BLUE),
    "actor_step_norm": ("step of the actor", style.ORANGE),
    "critic_loss": ("loss of the critic", style.VERMILION),
}
SERIES = {0: ("from the episode on", style.BLUE, -0.14), 10: ("from 10 updates later on", style.ORANGE, 0.14)}


def replay_figure(falls: pl.DataFrame, shares: pl.DataFrame) -> Figure:
    """Left, steps and loss around the start of a fall, medians over falls; right, shares of replays that fall.

    Args:
        falls: updates around the start of each fall, counted by `after`.
        shares: as `share_table` gives them.
    """
    figure = Figure(figsize=(9.6, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.1))
    _draw_order(left, falls)
    _draw_shares(right, shares)
    for ax in (left, right):
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color=style.GRID, linewidth=0.6)
        ax.set_axisbelow(True)
        ax.legend(fontsize=8, frameon=False, loc="lower right" if ax is left else "lower left")
    return figure


def relative_to_before(falls: pl.DataFrame, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Updates after the start of a fall, and the median over falls of a quantity there over its median before."""
    baseline = falls.filter(pl.col("after").is_between(-100, -1)).group_by("fall").agg(pl.col(column).median())
    ratios = falls.join(baseline, on="fall", suffix="_before")
    ratios = ratios.select("after", ratio=pl.col(column) / pl.col(f"{column}_before"))
    medians = ratios.group_by("after").agg(pl.col("ratio").median()).sort("after")
    return medians["after"].to_numpy(), medians["ratio"].to_numpy()


def _draw_order(ax: Axes, falls: pl.DataFrame) -> None:
    near = falls.filter(pl.col("after").is_between(-100, AROUND[1]))
    for column, (name, colour) in LINES.items():
        after, ratios = relative_to_before(near, column)
        shown = after >= AROUND[0]
        ax.plot(after[shown], ratios[shown], color=colour, linewidth=1.4, label=name)
    ax.set_yscale("log")
    ax.axvline(0, color=style.MUTED, linewidth=0.8, linestyle=":")
    ax.set_xlabel("updates after the episode that a fall begins with", fontsize=9)
    ax.set_ylabel("times the median before", fontsize=9)
    ax.set_title(f"{falls['fall'].n_unique()} falls, update by update", fontsize=10, loc="left")


def _draw_shares(ax: Axes, shares: pl.DataFrame) -> None:
    names = shares["variant"].unique(maintain_order=True).to_list()
    for later, (label, colour, shift) in SERIES.items():
        rows = shares.filter(later=later)
        places = np.asarray([names.index(name) for name in rows["variant"]]) + shift
        ax.hlines(places, rows["share_low"], rows["share_high"], color=colour, linewidth=1.2)
        ax.plot(rows["share"], places, "o", color=colour, markersize=4, label=label)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel("share of replays that lose the task", fontsize=9)
    ax.set_title("replays with one thing changed", fontsize=10, loc="left")
