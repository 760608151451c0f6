"""Pictures of Memory-Four-Rooms: the rooms from above, and the six cells in front of the agent."""

from __future__ import annotations

from typing import Any

import numpy as np

from asymrl.draw import style
from asymrl.draw.dispatch import draw_view, draw_world, view_text, world_text
from asymrl.draw.style import Axes
from asymrl.worlds.builtin.memory_rooms import BEACON, DIRECTIONS, EXIT, KINDS, VIEW, WALL, MemoryFourRooms

COLOURS = [("red", style.VERMILION), ("green", style.GREEN), ("blue", style.BLUE), ("yellow", style.YELLOW)]
# A latent given by hand may hold any index; only 1 to 4 have a name.
COLOURS = [("none", style.MUTED), *COLOURS, *[("other", style.PURPLE)] * (KINDS - 5)]
HEADINGS = "^>v<"


@draw_world.register(MemoryFourRooms)
def _draw_world(env: MemoryFourRooms, state: Any, ax: Axes) -> None:
    kind, colour, position = (np.asarray(x) for x in (state.kind, state.colour, state.position))
    heading = int(state.heading)
    style.stage(ax, -0.6, env.width - 0.4, -env.height + 0.4, 0.6)
    _cells(ax, kind, colour, size=style.BODY * 7 / max(7, *kind.shape), good=int(colour[kind == BEACON][0]))
    _field_of_view(ax, position, heading)
    _pointer(ax, (float(position[1]), -float(position[0])), heading)


@draw_view.register(MemoryFourRooms)
def _draw_view(env: MemoryFourRooms, observation: Any, ax: Axes) -> None:
    grid = np.asarray(observation["grid"])
    style.stage(ax, -0.6, 2.6, -1.7, 0.7)
    _cells(ax, grid[..., 0], grid[..., 2], size=style.HUGE)
    _pointer(ax, (1.0, -1.0), 0)


@world_text.register(MemoryFourRooms)
def _world_text(env: MemoryFourRooms, state: Any) -> list[str]:
    kind, colour = np.asarray(state.kind), np.asarray(state.colour)
    row, column = (int(i) for i in state.position)
    canvas = _marks(kind, colour)
    canvas[row, column] = HEADINGS[int(state.heading)]
    beacon = COLOURS[int(colour[kind == BEACON][0])][0]
    return [" ".join(line) for line in canvas] + [f"agent at row {row}, column {column}", f"good exit {beacon}"]


@view_text.register(MemoryFourRooms)
def _view_text(env: MemoryFourRooms, observation: Any) -> list[str]:
    grid = np.asarray(observation["grid"])
    canvas = _marks(grid[..., 0], grid[..., 2])
    below = canvas[1, 1]
    canvas[1, 1] = HEADINGS[0]
    return [" ".join(line) for line in canvas] + ([f"standing on {below}"] if below != "." else [])


def _cells(ax: Axes, kind: np.ndarray, colour: np.ndarray, *, size: float, good: int | None = None) -> None:
    """Draws the cells `[row, column]`; exits get a sign where the `good` colour is known. `size` is the font size."""
    row, column = np.indices(kind.shape)
    places = np.stack([column, -row], -1).astype(float)
    wall = kind == WALL
    style.squares(ax, places[~wall], style.FLOOR, edge=style.FAINT, width=1.0)
    style.squares(ax, places[wall], style.WALL, edge=style.WALL, width=1.0, order=1.3)
    for at in zip(*np.nonzero(kind == EXIT), strict=True):
        sign = "" if good is None else " ✓" if colour[at] == good else " ✗"
        _exit(ax, places[at], int(colour[at]), sign, size)
    for at in zip(*np.nonzero(kind == BEACON), strict=True):
        _beacon(ax, places[at], int(colour[at]), size)


def _exit(ax: Axes, place: np.ndarray, colour: int, sign: str, size: float) -> None:
    name, fill = COLOURS[colour]
    at = (float(place[0]), float(place[1]))
    style.box(ax, at, (0.86, 0.86), fill, rounding=0.12, order=2.0)
    style.write(ax, at, name[0].upper() + sign, colour=_on(fill), size=size, bold=True, order=2.1)


def _beacon(ax: Axes, place: np.ndarray, colour: int, size: float) -> None:
    name, fill = COLOURS[colour]
    at = (float(place[0]), float(place[1]))
    style.disc(ax, at, 0.42, "none", edge=fill, width=1.6, order=2.0)
    style.disc(ax, at, 0.31, fill, order=2.1)
    style.write(ax, at, name[0].upper(), colour=_on(fill), size=size, bold=True, order=2.2)


def _on(fill: str) -> str:
    return style.INK if fill == style.YELLOW else style.PAPER


def _field_of_view(ax: Axes, position: np.ndarray, heading: int) -> None:
    ahead, right = DIRECTIONS[heading], DIRECTIONS[(heading + 1) % 4]
    cells = position + VIEW[..., :1] * ahead + VIEW[..., 1:] * right
    (bottom, left), (top, far) = cells.reshape(-1, 2).max(0), cells.reshape(-1, 2).min(0)
    centre = ((left + far) / 2, -(top + bottom) / 2)
    style.box(
        ax,
        centre,
        (left - far + 0.94, bottom - top + 0.94),
        "none",
        edge=style.ORANGE,
        width=1.6,
        dashed=True,
        order=3.0,
    )


def _pointer(ax: Axes, at: style.Point, heading: int) -> None:
    """The agent as an arrow-head that points where it looks."""
    shape = np.array([[0.0, 0.34], [0.26, -0.28], [0.0, -0.14], [-0.26, -0.28]])
    turn = np.radians(-90 * heading)
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    style.polygon(ax, shape @ rotation + at, style.INK, edge=style.PAPER, width=1.6, order=4.0)


def _marks(kind: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Walls `#`, floor `.`, exits as the capital and the beacon as the small initial of its colour."""
    letters = np.array([name[0] for name, _ in COLOURS])[colour]
    marks = np.where(kind == WALL, "#", np.where(kind == BEACON, letters, "."))
    return np.where(kind == EXIT, np.char.upper(letters), marks)
