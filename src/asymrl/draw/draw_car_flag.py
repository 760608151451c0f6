"""Pictures of Car-Flag: a road between two flags, with the range of the third one marked on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from asymrl.draw import style
from asymrl.draw.dispatch import draw_view, draw_world, view_text, world_text
from asymrl.draw.style import Axes
from asymrl.worlds.builtin.car_flag import FLAG, INFO_FROM, INFO_TO, MAX_POSITION, MAX_SPEED, CarFlag

GOOD, BAD, UNKNOWN = ("good", "✓", style.GREEN), ("bad", "✗", style.VERMILION), ("flag", "?", style.MUTED)
SIDES = {-1: "left", 0: "unknown", 1: "right"}
BODY = np.array(
    [[-0.15, 0.04], [0.15, 0.04], [0.15, 0.11], [0.09, 0.12], [0.05, 0.19], [-0.08, 0.19], [-0.11, 0.12], [-0.15, 0.1]]
)
WINDOW = np.array([[-0.07, 0.125], [0.06, 0.125], [0.035, 0.17], [-0.06, 0.17]])
COLUMNS = 33  # of the road in text


@draw_world.register(CarFlag)
def _draw_world(env: CarFlag, state: Any, ax: Axes) -> None:
    _draw(ax, np.asarray(state))


@draw_view.register(CarFlag)
def _draw_view(env: CarFlag, observation: Any, ax: Axes) -> None:
    _draw(ax, np.asarray(observation))


@world_text.register(CarFlag)
def _world_text(env: CarFlag, state: Any) -> list[str]:
    return _text(np.asarray(state))


@view_text.register(CarFlag)
def _view_text(env: CarFlag, observation: Any) -> list[str]:
    return _text(np.asarray(observation))


def _draw(ax: Axes, numbers: np.ndarray) -> None:
    """State and observation are the same three numbers, except that the side is 0 where it is not known."""
    position, velocity, side = (float(x) for x in numbers)
    known_side = int(np.sign(side))
    style.stage(ax, -1.38, 1.38, -1.2, 1.15)
    _road(ax)
    flags = {-1: (GOOD, BAD), 0: (UNKNOWN, UNKNOWN), 1: (BAD, GOOD)}[known_side]
    for x, (name, sign, colour) in zip((-FLAG, FLAG), flags, strict=True):
        _flag(ax, x, 0.72, name, sign, colour)
    _flag(ax, 0.5, 0.58, "info", "i", style.BLUE)
    _car(ax, position, velocity)
    rows = [("position", f"{position:+.3f}"), ("velocity", f"{velocity:+.4f}"), ("good flag", SIDES[known_side])]
    for x, (name, value) in zip((-0.8, 0.0, 0.8), rows, strict=True):
        style.write(ax, (x, -0.6), name, colour=style.MUTED, size=style.SMALL)
        is_known = value != SIDES[0]
        style.write(
            ax,
            (x, -0.82),
            value.replace("-", "−"),
            bold=is_known,
            colour=style.INK if is_known else style.MUTED,
            size=style.BODY,
        )


def _road(ax: Axes) -> None:
    middle, width = (INFO_FROM + INFO_TO) / 2, INFO_TO - INFO_FROM
    style.box(ax, (0, -0.06), (2.4, 0.1), style.WALL, rounding=0.04, order=1.0)
    style.box(ax, (middle, -0.06), (width, 0.1), style.SKY, rounding=0.001, order=1.1)
    for x in (-1, 0, 1):
        style.write(ax, (x, -0.15), style.signed(x), colour=style.MUTED, size=style.SMALL, level="top")
    style.write(ax, (middle, -0.15), "range", colour=style.BLUE, size=style.SMALL, level="top")


def _flag(ax: Axes, x: float, height: float, name: str, sign: str, colour: str) -> None:
    style.line(ax, [(x, 0), (x, height)], style.INK, width=2.0, order=1.5)
    # Pennants point to the middle, so that they stay on the picture.
    way = -1 if x > 0 else 1
    wide, low = 0.24 * way, height - 0.2
    style.polygon(ax, [(x, height), (x + wide, height), (x + wide, low), (x, low)], colour, edge=colour, order=1.6)
    style.write(ax, (x + wide / 2, (height + low) / 2), sign, colour=style.PAPER, bold=True, order=1.7)
    style.write(ax, (x + wide / 2, height + 0.06), name, colour=colour, size=style.SMALL, level="bottom")


def _car(ax: Axes, x: float, velocity: float) -> None:
    place = np.array([x, 0.0])
    style.polygon(ax, BODY + place, style.INK, edge=style.INK, width=2.0, order=3.0)
    style.polygon(ax, WINDOW + place, style.PAPER, order=3.1)
    for wheel in (-0.085, 0.085):
        style.disc(ax, (x + wheel, 0.035), 0.045, style.INK, edge=style.PAPER, width=1.2, order=3.2)
    if abs(velocity) > 1e-9:
        reach = float(np.sign(velocity)) * (0.1 + 0.5 * abs(velocity) / MAX_SPEED)
        style.arrow(ax, (x - reach / 2, 0.33), (x + reach / 2, 0.33), style.ORANGE, width=2.0)


def _text(numbers: np.ndarray) -> list[str]:
    position, velocity, side = (float(x) for x in numbers)
    known_side = int(np.sign(side))
    places = np.linspace(-MAX_POSITION, MAX_POSITION, COLUMNS)
    road = ["=" if INFO_FROM <= place <= INFO_TO else "." for place in places]
    left, right, car = (int(np.abs(places - place).argmin()) for place in (-FLAG, FLAG, position))
    road[left], road[right] = {-1: "+-", 0: "??", 1: "-+"}[known_side]
    road[car] = "@"
    return ["".join(road), f"position {position:+.3f}", f"velocity {velocity:+.4f}", f"good flag {SIDES[known_side]}"]
