"""Pictures of Cart-Pole: the cart on its track, with arrows for the velocities where they are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asymrl.draw import style
from asymrl.draw.dispatch import draw_view, draw_world, view_text, world_text
from asymrl.draw.style import Axes
from asymrl.worlds.builtin.cart_pole import MAX_ANGLE, MAX_POSITION, CartPole

POLE = 1.8  # drawn longer than it is, so that its angle can be seen
AXLE = 0.3  # its height above the track
COLUMNS = 33  # of the track in text
ROWS = (("position", "{:+.3f}", 1.0), ("velocity", "{:+.3f}", 1.0), ("angle", "{:+.1f}°", 180 / math.pi),
        ("turning", "{:+.1f}°/s", 180 / math.pi))  # fmt: skip


@draw_world.register(CartPole)
def _draw_world(env: CartPole, state: Any, ax: Axes) -> None:
    _draw(ax, np.asarray(state))


@draw_view.register(CartPole)
def _draw_view(env: CartPole, observation: Any, ax: Axes) -> None:
    _draw(ax, _with_gaps(observation))


@world_text.register(CartPole)
def _world_text(env: CartPole, state: Any) -> list[str]:
    return _text(np.asarray(state))


@view_text.register(CartPole)
def _view_text(env: CartPole, observation: Any) -> list[str]:
    return _text(_with_gaps(observation))


def _with_gaps(observation: Any) -> np.ndarray:
    """The four numbers of the state, not-a-number for velocities that are not shown."""
    shown = np.asarray(observation, float)
    return shown if shown.shape == (4,) else np.array([shown[0], np.nan, shown[1], np.nan])


def _draw(ax: Axes, numbers: np.ndarray) -> None:
    position, velocity, angle, spin = (float(x) for x in numbers)
    style.stage(ax, -3.0, 3.0, -1.9, 2.5)
    style.line(ax, [(-MAX_POSITION, 0), (MAX_POSITION, 0)], style.WALL, width=3.0)
    for x in (-MAX_POSITION, 0, MAX_POSITION):
        style.line(ax, [(x, -0.09), (x, 0.09)], style.WALL, width=2.0)
        style.write(ax, (x, -0.2), style.signed(x), colour=style.MUTED, size=style.SMALL, level="top")
    tip = (position + POLE * math.sin(angle), AXLE + POLE * math.cos(angle))
    for lean in (-MAX_ANGLE, MAX_ANGLE):
        end = (position + POLE * math.sin(lean), AXLE + POLE * math.cos(lean))
        style.line(ax, [(position, AXLE), end], style.FAINT, width=1.2, order=1.0)
    style.box(ax, (position, AXLE - 0.05), (0.7, 0.34), style.INK, rounding=0.05)
    for wheel in (-0.2, 0.2):
        style.disc(ax, (position + wheel, 0.07), 0.09, style.INK, edge=style.PAPER, width=1.2)
    style.line(ax, [(position, AXLE), tip], style.ORANGE, width=5.0, order=3.0)
    style.disc(ax, (position, AXLE), 0.06, style.PAPER, order=3.1)
    if abs(velocity) > 0.02:  # also false where it is not a number
        style.arrow(ax, (position, -0.55), (position + 0.5 * _bounded(velocity), -0.55), style.BLUE, width=2.0)
    if abs(spin) > 0.02:
        style.arrow(ax, tip, (tip[0] + 0.5 * _bounded(spin), tip[1]), style.BLUE, width=2.0)
    for x, (name, value) in zip((-2.1, -0.7, 0.7, 2.1), _values(numbers), strict=True):
        is_known = value != "hidden"
        style.write(ax, (x, -1.15), name, colour=style.MUTED, size=style.SMALL)
        style.write(ax, (x, -1.5), value, bold=is_known, colour=style.INK if is_known else style.MUTED, size=style.BODY)


def _bounded(speed: float) -> float:
    """The signed length of an arrow, long enough to be visible and short enough to be drawn."""
    return math.copysign(min(max(abs(speed), 0.4), 3.0), speed)


def _values(numbers: np.ndarray) -> list[tuple[str, str]]:
    """The name and the text of each number."""
    values = []
    for number, (name, text, unit) in zip(numbers, ROWS, strict=True):
        number_text = text.format(unit * number).replace("-", "−")
        values.append((name, number_text if np.isfinite(number) else "hidden"))
    return values


def _text(numbers: np.ndarray) -> list[str]:
    places = np.linspace(-MAX_POSITION, MAX_POSITION, COLUMNS)
    track = ["-"] * COLUMNS
    column = int(np.abs(places - numbers[0]).argmin())
    track[column] = "#"
    upper = [" "] * COLUMNS
    lean = float(numbers[2])
    upper[column] = "|" if abs(lean) < math.radians(1) else "/" if lean > 0 else "\\"
    return ["".join(upper).rstrip(), "".join(track), *(f"{name} {value}" for name, value in _values(numbers))]
