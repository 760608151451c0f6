"""The paper's figures, drawn from tables of results."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asymrl.draw import style
from asymrl.report.curves import curves, draw_band, method_colours
from asymrl.report.intervals import bootstrap, performance_profile, profile_band
from asymrl.report.paper.fork import PAIRS, TITLES, exact_values
from asymrl.report.paper.results import WorldScores, in_paper_order
from asymrl.report.paper.selection import SEARCHED
from asymrl.report.world_panels import CurvePanel, draw_panels, finish_small, legend_above
from asymrl.settings.hyperparameters import PAPER_WORLDS
from asymrl.settings.methods import PAPER_METHODS

CRITICS = {"a2c": "V(h)  a2c", "a2c-asym-s": "V(s)  a2c-asym-s", "a2c-asym-hs": "V(h, s)  a2c-asym-hs"}


def learning_curves(table: pl.DataFrame, *, columns: int = 4) -> Figure:
    """Figure 3: a panel for each world, the mean of each method with a band of one standard error."""
    methods = in_paper_order(table["method"].to_list(), PAPER_METHODS)
    panels = []
    for world in in_paper_order(table["world"].to_list(), PAPER_WORLDS):
        rows = table.filter(pl.col("world") == world)
        parts = {method: rows.filter(pl.col("method") == method) for method in methods}
        lines = {method: curves(part) for method, part in parts.items() if len(part)}
        panels.append(CurvePanel(world, world, lines, float(rows["steps"].max())))  # pyright: ignore[reportArgumentType]
    ylabel = "return of the last 100 episodes" if len(panels) <= columns else "return"
    return draw_panels(panels, method_colours(methods), columns=columns, ylabel=ylabel)


def critic_values(probes: pl.DataFrame, *, n: int = 4) -> Figure:
    """Figure 4: the critics' values of the four history-state pairs, and those of the optimal policy."""
    methods = in_paper_order(probes["method"].to_list(), PAPER_METHODS)
    exact, colours = exact_values(n), method_colours(methods)
    figure = Figure(figsize=(7.2, 5.4), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey=True).flatten()
    for ax, pair in zip(panels, PAIRS, strict=True):
        rows = probes.filter(pl.col("probe").cast(pl.String) == pair)
        for method in methods:
            draw_band(ax, curves(rows.filter(pl.col("method") == method), "value"), colours[method])
        ax.axhline(exact[pair], color=style.MUTED, linewidth=0.9, linestyle=(0, (5, 2)), zorder=1)
        finish_small(ax, TITLES[pair], float(probes["steps"].max()))  # pyright: ignore[reportArgumentType]
    for ax in panels[::2]:
        ax.set_ylabel("value", fontsize=9)
    for ax in panels[2:]:
        ax.set_xlabel("timesteps", fontsize=9)
    lines = [
        Line2D([], [], color=colours[method], linewidth=2, label=CRITICS.get(method, method)) for method in methods
    ]
    optimal = Line2D([], [], color=style.MUTED, linewidth=1, linestyle=(0, (5, 2)), label="optimal policy")
    legend_above(figure, [*lines, optimal], columns=len(lines) + 1)
    return figure


def aggregates(scores: WorldScores) -> Figure:
    """All worlds together: the interquartile mean of normalised scores with intervals, and performance profiles."""
    worlds, matrices = scores
    methods = list(matrices)
    colours = method_colours(methods)
    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    thresholds = np.linspace(-0.05, 1.05, 111)
    for row, (method, matrix) in enumerate(matrices.items()):
        middle, colour = bootstrap(matrix), colours[method]
        left.barh(row, middle.high - middle.low, left=middle.low, height=0.55, color=colour, alpha=0.45)
        left.plot([middle.estimate] * 2, [row - 0.27, row + 0.27], color=colour, linewidth=2)
        low, high = profile_band(matrix, thresholds)
        right.fill_between(thresholds, low, high, color=colour, alpha=0.2, linewidth=0)
        right.plot(thresholds, performance_profile(matrix, thresholds), color=colour, linewidth=1.5)
    left.set_yticks(range(len(methods)), methods)
    left.invert_yaxis()
    left.set_xlim(min(0.0, left.get_xlim()[0]), 1.05)
    left.set_xlabel("interquartile mean of the normalised score, 95 %", fontsize=9)
    right.set_xlabel("normalised score (random 0, best known 1)", fontsize=9)
    right.set_ylabel("share of runs above it", fontsize=9)
    right.set_title(", ".join(worlds), fontsize=7, loc="right", color=style.MUTED)
    right.set_xlim(thresholds[0], thresholds[-1])
    right.set_ylim(0, 1.02)
    for ax in (left, right):
        ax.tick_params(labelsize=8.5)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color=style.GRID, linewidth=0.6)
        ax.set_axisbelow(True)
    return figure


def grid_overview(ranks: pl.DataFrame) -> Figure:
    """A grid search at a glance: final returns of all settings, our choice and the paper's marked.

    Args:
        ranks: the settings, as `selection.ranking` gives them.
    """
    parts = ranks.partition_by(["world", "method"], as_dict=True, maintain_order=True)
    rows = len(parts)
    weights = max(part["entropy_weight"].n_unique() for part in parts.values())
    figure = Figure(figsize=(2.0 * weights + 1.2, 2.25 * rows + 0.4), layout="constrained")
    panels = figure.subplots(rows, weights, squeeze=False)
    for line, ((world, method), part) in zip(panels, parts.items(), strict=True):
        _grid_row(line, part)
        line[0].set_title(f"{world}, {method}\n{line[0].get_title(loc='left')}", fontsize=8.5, loc="left")
    figure.supxlabel("mean return over the last tenth of training; ★ our choice, p the paper's", fontsize=8.5)
    return figure


def _grid_row(panels: Any, ranks: pl.DataFrame) -> None:
    marks = {"us": "\n★", "the paper": "\np", "both": "\n★p", None: ""}
    settings = {
        tuple(setting): (final, by) for *setting, final, by in ranks.select(*SEARCHED, "final", "chosen_by").rows()
    }
    actor, critic, weight = (ranks[name].unique().sort().to_list() for name in SEARCHED)
    low, high = min(final for final, _ in settings.values()), max(final for final, _ in settings.values())
    for ax, w in zip(panels, weight, strict=False):
        shown = np.asarray([[settings.get((a, c, w), (np.nan,))[0] for c in critic] for a in actor])
        ax.imshow(shown, vmin=low, vmax=high, cmap="viridis", origin="lower", aspect="auto")
        for i, a in enumerate(actor):
            for j, c in enumerate(critic):
                if (a, c, w) not in settings:
                    continue
                final, by = settings[a, c, w]
                colour = "white" if final - low < 0.6 * (high - low) else "black"
                ax.text(j, i, f"{final:z.2f}{marks[by]}", ha="center", va="center", fontsize=8, color=colour)
        ax.set_xticks(range(len(critic)), [f"{c:g}" for c in critic], fontsize=7)
        ax.set_yticks(range(len(actor)), [f"{a:g}" for a in actor], fontsize=7)
        ax.set_title(f"entropy weight {w:g}", fontsize=8.5, loc="left")
        ax.set_xlabel("critic's rate", fontsize=7.5)
    panels[0].set_ylabel("actor's rate", fontsize=7.5)
