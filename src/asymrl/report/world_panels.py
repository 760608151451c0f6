"""Learning curves of several arms in several worlds: panels, reference returns and one legend above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from asymrl.draw import style
from asymrl.report.curves import Curves, draw_band, finish
from asymrl.worlds.reference_scores import scores

# Reference policy -> its label and line.
REFERENCES = {
    "best": ("best known", (0, (5, 2))),
    "random": ("random", (0, (1, 1.5))),
    "uninformed": ("never gathers information", (0, (4, 2, 1, 2))),
}


class CurvePanel(NamedTuple):
    """The curves of a panel."""

    title: str
    world: str
    lines: Mapping[str, Curves]
    """By their names in the legend."""
    end: float
    """Where the axis of timesteps ends."""


def draw_panels(
    panels: Sequence[CurvePanel], colours: Mapping[str, str], *, columns: int = 4, ylabel: str = "return"
) -> Figure:
    """A figure with these panels: means with bands of one standard error, and the reference returns of each world.

    Args:
        panels: in the order in which they are drawn.
        colours: of the lines, by their names; also the order of the legend.
        columns: panels beside each other.
        ylabel: what the curves are.
    """
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    # A single panel is wider, so that the legend fits above it.
    figure = Figure(figsize=(max(3.2 * columns + 0.4, 5.4), 2.45 * rows + 0.75), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).flatten()
    for ax, panel in zip(places, panels, strict=False):
        for name in [name for name in colours if name in panel.lines]:
            draw_band(ax, panel.lines[name], colours[name])
        _draw_reference_lines(ax, panel.world)
        finish_small(ax, panel.title, panel.end)
    for ax in places[len(panels) :]:
        ax.set_axis_off()
    for ax in places[::columns]:
        ax.set_ylabel(ylabel, fontsize=9)
    for ax in places[max(len(panels) - columns, 0) : len(panels)]:
        ax.set_xlabel("timesteps", fontsize=9)
    legend_above(figure, [*line_handles(colours), *_reference_handles([panel.world for panel in panels])])
    return figure


def line_handles(colours: Mapping[str, str]) -> list[Line2D]:
    """A line for each colour, with the names of all that have it."""
    names: dict[str, list[str]] = {}
    for name, colour in colours.items():
        names.setdefault(colour, []).append(name)
    return [Line2D([], [], color=colour, linewidth=2, label=" and ".join(each)) for colour, each in names.items()]


def _draw_reference_lines(ax: Axes, world: str) -> None:
    reference = scores(world)
    for who, (_, dashes) in REFERENCES.items():
        if reference is None or who not in reference.undiscounted:
            continue
        score = reference.undiscounted[who]
        if who == "best" and score.low < score.high:
            ax.axhspan(score.low, score.high, color=style.MUTED, alpha=0.18, linewidth=0, zorder=1)
        else:
            # For a policy known only by an upper bound, the bound is what must be beaten. The line is drawn over the
            # curves: those of methods that learn nothing lie on it.
            ax.axhline(score.high, color=style.INK, linewidth=0.9, linestyle=dashes, zorder=4)


def _reference_handles(worlds: Sequence[str]) -> list[Line2D]:
    references = [reference.undiscounted for world in worlds if (reference := scores(world)) is not None]
    return [
        Line2D([], [], color=style.INK, linewidth=1, linestyle=dashes, label=label)
        for who, (label, dashes) in REFERENCES.items()
        if any(who in each for each in references)
    ]


def finish_small(ax: Axes, title: str, end: float) -> None:
    """The style of a panel among several."""
    finish(ax, title, end)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.tick_params(labelsize=8)


def legend_above(figure: Figure, lines: Sequence[Line2D], columns: int | None = None) -> None:
    """One legend for all panels, above them."""
    wide = figure.get_figwidth() > 8
    figure.legend(
        handles=list(lines),
        loc="outside upper center",
        ncols=columns or (len(lines) if wide else 3),
        frameon=False,
        fontsize=8.5,
    )
