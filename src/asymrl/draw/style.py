"""The style of all pictures and figures: colours, type, and the few shapes that worlds are made of.

These are the only colours of the package. The accents are those of Okabe and Ito, which colour-blind readers can
distinguish; where a colour carries meaning in a picture, a letter or a sign repeats it. Matplotlib is imported when
something is drawn, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any

Number = float | int  # a run-time type checker does not take an int for a float
Point = tuple[Number, Number]

INK, MUTED, FAINT, GRID, CARD, PAPER = "#22303C", "#6F7B86", "#D5DADF", "#E9ECEF", "#F3F5F7", "#FFFFFF"
FLOOR, WALL = "#FFFFFF", "#46535F"
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, YELLOW, PURPLE = "#56B4E9", "#F0E442", "#CC79A7"
LILAC, PLUM = "#F3E1EB", "#9A4A78"  # around a priest in PURPLE
SAND, OCHRE = "#EADFC8", "#B9A679"  # dirt
WOOD, DARK_WOOD, NIGHT = "#B08B5B", "#8A6A41", "#2E2A33"  # doors, and the room behind them

SMALL, BODY, LARGE, HUGE = 8.0, 9.5, 13.0, 22.0  # sizes of type, in points
FONT = "DejaVu Sans"  # ships with matplotlib, so that pictures are the same on every machine


def stage(ax: Axes, left: Number, right: Number, bottom: Number, top: Number) -> None:
    """Prepares bare axes that show this rectangle without distortion."""
    ax.set_axis_off()
    ax.set_aspect("equal", anchor="C")
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top)


def show_pixels(ax: Axes, pixels: Any) -> None:
    """Shows a picture, `[height, width]` or with colours as a last axis, as large as the axes allow."""
    pixels = np.asarray(pixels)
    height, width = pixels.shape[:2]
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    colours = {"cmap": "gray", "vmin": 0, "vmax": 255} if pixels.ndim == 2 else {}
    smooth = "nearest" if max(height, width) < 128 else "antialiased"
    ax.imshow(pixels, extent=(0, width, 0, height), interpolation=smooth, zorder=0, **colours)
    stage(ax, 0, width, 0, height)


def squares(
    ax: Axes,
    centres: Any,
    fill: str | Sequence[str],
    *,
    side: Number = 1.0,
    edge: str = PAPER,
    width: Number = 1.2,
    order: Number = 1.0,
) -> None:
    """Squares around `centres` [n, 2], in one colour or in one each."""
    from matplotlib.collections import PolyCollection

    corners = side / 2 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    outlines = np.asarray(centres, float).reshape(-1, 1, 2) + corners
    if len(outlines) == 1:  # matplotlib snaps a collection of one to pixels, in spite of the setting below
        polygon(ax, outlines[0], fill if isinstance(fill, str) else fill[0], edge=edge, width=width, order=order)
        return
    shapes = PolyCollection(list(outlines), facecolors=fill, edgecolors=edge, linewidths=width, zorder=order)
    shapes.set_snap(False)  # snapping to pixels would make equal borders unequal
    ax.add_collection(shapes, autolim=False)


def box(
    ax: Axes,
    centre: Point,
    size: Point,
    fill: str,
    *,
    edge: str = "none",
    width: Number = 1.0,
    rounding: Number = 0.1,
    order: Number = 2.0,
    dashed: bool = False,
) -> None:
    """A rectangle with round corners."""
    from matplotlib.patches import FancyBboxPatch

    corner = (centre[0] - size[0] / 2, centre[1] - size[1] / 2)
    shape = f"round,pad=0,rounding_size={rounding}"
    style = (0, (3, 2)) if dashed else "solid"
    ax.add_artist(
        FancyBboxPatch(
            corner,
            *size,
            boxstyle=shape,
            facecolor=fill,
            edgecolor=edge,
            linewidth=width,
            linestyle=style,
            zorder=order,
        )
    )


def disc(
    ax: Axes, centre: Point, radius: Number, fill: str, *, edge: str = "none", width: Number = 1.0, order: Number = 3.0
) -> None:
    from matplotlib.patches import Circle

    ax.add_artist(Circle(centre, radius, facecolor=fill, edgecolor=edge, linewidth=width, zorder=order))


def polygon(ax: Axes, corners: Any, fill: str, *, edge: str = "none", width: Number = 1.0, order: Number = 3.0) -> None:
    """A closed polygon with round joints through `corners` [n, 2]."""
    from matplotlib.patches import Polygon

    shape = Polygon(np.asarray(corners, float), closed=True, facecolor=fill, edgecolor=edge, linewidth=width)
    shape.set_joinstyle("round")
    shape.set_zorder(order)
    ax.add_artist(shape)


def line(ax: Axes, points: Any, colour: str = INK, *, width: Number = 1.5, order: Number = 2.0) -> None:
    """An open line with round ends through `points` [n, 2]."""
    from matplotlib.lines import Line2D

    x, y = np.asarray(points, float).T
    shape = Line2D(x, y, color=colour, linewidth=width, solid_capstyle="round", solid_joinstyle="round", zorder=order)
    ax.add_artist(shape)


def arc(
    ax: Axes, centre: Point, radius: Number, degrees: Point, colour: str, *, width: Number = 1.5, order: Number = 3.0
) -> None:
    """Part of a circle, in degrees, counter-clockwise from the east."""
    angle = np.radians(np.linspace(*degrees, 24))
    line(
        ax,
        np.stack([centre[0] + radius * np.cos(angle), centre[1] + radius * np.sin(angle)], 1),
        colour,
        width=width,
        order=order,
    )


def arrow(ax: Axes, start: Point, end: Point, colour: str = INK, *, width: Number = 1.6, order: Number = 4.0) -> None:
    from matplotlib.patches import FancyArrowPatch

    ax.add_artist(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>,head_length=4.5,head_width=2.8",
            color=colour,
            linewidth=width,
            shrinkA=0,
            shrinkB=0,
            joinstyle="miter",
            capstyle="butt",
            zorder=order,
        )
    )


def write(
    ax: Axes,
    at: Point,
    text: str,
    *,
    colour: str = INK,
    size: Number = BODY,
    bold: bool = False,
    align: str = "center",
    level: str = "center",
    order: Number = 6.0,
) -> None:
    """Text at a point. `$` is an ordinary character, not the start of a formula."""
    ax.text(
        *at,
        text,
        color=colour,
        fontsize=size,
        fontweight="bold" if bold else "normal",
        fontfamily=FONT,
        ha=align,
        va=level,
        zorder=order,
        parse_math=False,
    )


def agent(ax: Axes, at: Point, radius: Number = 0.3, fill: str = INK) -> None:
    """The agent: a disc with two eyes."""
    disc(ax, at, radius, fill, edge=PAPER, width=1.4, order=4.0)
    for side in (-1, 1):
        disc(ax, (at[0] + side * 0.36 * radius, at[1] + 0.12 * radius), 0.2 * radius, PAPER, order=4.1)


def speech(ax: Axes, at: Point, size: Point, tip: Point, text: str) -> None:
    """A speech balloon around `at`, its tip pointing to the speaker."""
    base = 0.12 * size[0]
    foot_x = float(np.clip(tip[0], at[0] - size[0] / 2 + 1.5 * base, at[0] + size[0] / 2 - 1.5 * base))
    foot_y = at[1] + np.sign(tip[1] - at[1]) * size[1] / 2
    feet = [(foot_x - base / 2, foot_y), (foot_x + base / 2, foot_y)]
    polygon(ax, [*feet, tip], PAPER, edge=PURPLE, width=1.4, order=5.0)
    box(ax, at, size, PAPER, edge=PURPLE, width=1.4, rounding=0.18 * size[1], order=5.1)
    # Painting over the border between tail and balloon makes them one outline.
    line(
        ax,
        [(x + inset, foot_y) for (x, _), inset in zip(feet, (0.02, -0.02), strict=True)],
        PAPER,
        width=2.4,
        order=5.2,
    )
    write(ax, at, text, size=BODY, order=6.0)


def note(ax: Axes, at: Point, text: str, unit: Number) -> None:
    """A remark in a box; `unit` is the width of a letter in the units of the axes."""
    box(ax, at, ((len(text) + 3) * unit, 3.2 * unit), CARD, edge=FAINT, rounding=1.6 * unit, order=5.0)
    write(ax, at, text, colour=MUTED)


def signed(number: Number) -> str:
    """A number with its sign, a typographic minus and at most two decimals."""
    text = f"{number:+.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("+0", "-0") else text.replace("-", "−")
