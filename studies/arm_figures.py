"""The figures of a study: learning curves by arm, and results against the exact number."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from asymrl.draw import style
from asymrl.report.curves import SERIES, curves as curves_of, line_colours
from asymrl.report.world_panels import CurvePanel, draw_panels, legend_above, line_handles
from study import EVERY_PANEL, Arm, Study

COLUMNS = 4
SHAPES = ("o", "s", "^", "D", "v", "P")  # of points
BESIDE = ((4, 3), (4, -9), (-4, 3), (-4, -9), (4, 12))  # where a name may be, in points from what it names


def arm_curves(study: Study, curves: pl.DataFrame) -> Figure:
    """A panel for each setup and group of arms: the mean of each arm with a band of one standard error."""
    panels, names, groups = [], [], 1
    for setup in study.setups:
        arms = study.arms_in(setup)
        kinds = list(dict.fromkeys(arm.panel for arm in arms if arm.panel != EVERY_PANEL)) or [""]
        groups = max(groups, len(kinds))
        for kind in kinds:
            lines, end = {}, 0
            for arm in (arm for arm in arms if arm.panel in (kind, EVERY_PANEL)):
                rows = curves.filter(pl.col("setup") == setup.name, pl.col("arm") == arm.label).drop_nulls(arm.metric)
                if len(rows):
                    lines[_line(arm)] = curves_of(rows, arm.metric)
                    end = max(end, study.settings(setup, arm, {}).steps)
            if lines:
                title = f"{setup.name}, {kind}" if kind else setup.name
                panels.append(CurvePanel(title, setup.world, lines, float(end)))
                names += lines
    columns = groups if groups > COLUMNS // 2 else groups * (COLUMNS // groups)
    return draw_panels(panels, line_colours(names), columns=columns)


def against_exact(study: Study, numbers: pl.DataFrame, column: str) -> Figure:
    """A panel for each setup: the `result` of each arm with its interval, against an exact number.

    A point has the colour of its arm's line in the learning curves, and a shape for the panel there; with more lines
    than colours, it has its arm's name.
    """
    rows = numbers.drop_nulls(column)
    setups = [setup for setup in study.setups if setup.name in rows["setup"]]
    arms = {arm.label: arm for setup in setups for arm in study.arms_in(setup)}
    colours = line_colours([_line(arm) for arm in arms.values()])
    is_crowded = len(colours) > len(SERIES)  # then colours alone do not tell them apart
    panels = dict.fromkeys(arm.panel for arm in arms.values() if arm.panel not in ("", EVERY_PANEL))
    shapes = dict(zip(panels, itertools.cycle(SHAPES)))
    figure = Figure(figsize=(max(3.2 * len(setups) + 0.4, 5.4), 3.2), layout="constrained")
    names: dict[Axes, list[Annotation]] = collections.defaultdict(list)
    for ax, setup in zip(figure.subplots(1, len(setups), squeeze=False)[0], setups, strict=True):
        for row in rows.filter(pl.col("setup") == setup.name).to_dicts():
            arm = arms[row["arm"]]
            _draw_point(ax, row, (column, study.result), shapes.get(arm.panel, "o"), colours[_line(arm)])
            if is_crowded:
                names[ax].append(_draw_name(ax, row[column], row[study.result], arm.label))
        ax.set_title(setup.name, fontsize=10, loc="left")
        ax.set_xlabel(_axis_label(column), fontsize=9)
        ax.tick_params(labelsize=8)
        ax.margins(x=0.12, y=0.1)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color=style.GRID, linewidth=0.6)
        ax.set_axisbelow(True)
    label = "final return" if study.result == "iqm" else study.result.replace("_", " ")
    figure.axes[0].set_ylabel(label, fontsize=9)
    of_panels = {} if is_crowded or len(shapes) < 2 else shapes
    points = [Line2D([], [], color=style.MUTED, marker=shape, ls="", label=name) for name, shape in of_panels.items()]
    legend_above(figure, [*line_handles(colours), *points], columns=4 if points else None)
    if names:
        figure.draw_without_rendering()  # only then it is known where names are
        for of_panel in names.values():
            _move_apart(of_panel)
    return figure


def _draw_point(ax: Axes, row: Mapping[str, Any], columns: tuple[str, str], shape: str, colour: str) -> None:
    x, y = (row[column] for column in columns)
    ax.plot([x, x], [row[f"{columns[1]}_{bound}"] for bound in ("low", "high")], color=colour, linewidth=1.2, zorder=2)
    ax.plot(x, y, shape, color=colour, markersize=4.5, markeredgecolor="white", markeredgewidth=0.4, zorder=3)


def _draw_name(ax: Axes, x: float, y: float, name: str) -> Annotation:
    how = {"textcoords": "offset points", "fontsize": 6.5, "color": style.MUTED, "parse_math": False}
    return ax.annotate(name, (x, y), xytext=BESIDE[0], annotation_clip=False, **how)


def _move_apart(names: Sequence[Annotation]) -> None:
    """Moves each name to the first place beside its point where it does not cover an earlier one, if there is any."""
    taken: list[Bbox] = []
    for name in names:
        for right, up in BESIDE:
            name.set_position((right, up))
            name.set_horizontalalignment("left" if right > 0 else "right")
            if not any(name.get_window_extent().overlaps(other) for other in taken):
                break
        taken.append(name.get_window_extent())


def _axis_label(column: str) -> str:
    """The name of an exact number; `POLICY: NUMBER` says for which agent it was computed."""
    policy, separator, number = column.rpartition(": ")
    text = number.replace("_", " ")
    return f"{text}, {policy} agent (exact)" if separator else f"{text} (exact)"


def _line(arm: Arm) -> str:
    return arm.line or arm.label
