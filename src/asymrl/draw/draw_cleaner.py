"""Pictures of Cleaner: the maze with its dirt and both robots, and the surroundings that each of them sees."""

from __future__ import annotations

from typing import Any

import numpy as np

from asymrl.draw import style
from asymrl.draw.dispatch import draw_view, draw_world, view_text, world_text
from asymrl.draw.style import Axes
from asymrl.worlds.builtin.cleaner import Cleaner

ROBOTS = (style.VERMILION, style.BLUE)
SPECKS = np.array([[-0.22, 0.15], [0.2, 0.24], [0.05, -0.08], [-0.2, -0.25], [0.27, -0.2]])

# Red, green and blue of a cell in an observation, and what they mean.
WALL, ITSELF, DIRTY, OTHER, CLEAN = "000", "100", "010", "001", "111"
MARKS = {WALL: "#", DIRTY: "*", CLEAN: "."}


@draw_world.register(Cleaner)
def _draw_world(env: Cleaner, state: Any, ax: Axes) -> None:
    H, W = env.walls.shape
    dirty, robots = np.asarray(state.dirty).reshape(H, W), np.asarray(state.robots)
    style.stage(ax, -0.6, W - 0.4, -H + 0.4, 0.6)
    _cells(ax, env.walls, dirty, ~env.walls & ~dirty)
    places = [(float(robot % W), -float(robot // W)) for robot in robots]
    for place, colour in zip(places, ROBOTS, strict=True):
        style.box(ax, place, (2.96, 2.96), "none", edge=colour, width=1.3, rounding=0.15, dashed=True, order=2.0)
    if places[0] == places[1]:
        (x, y), shift = places[0], 0.2
        places = [(x - shift, y), (x + shift, y)]
    for place, colour in zip(places, ROBOTS, strict=True):
        style.agent(ax, place, 0.42, colour)


@draw_view.register(Cleaner)
def _draw_view(env: Cleaner, observation: Any, ax: Axes) -> None:
    style.stage(ax, -1.6, 5.6, -2.2, 2.2)
    for robot, view in enumerate(_views(observation)):
        left = 4 * robot
        _cells(ax, view == WALL, view == DIRTY, view == CLEAN, corner=(left - 1, 1))
        for row, column in np.argwhere(view == OTHER).tolist():
            style.agent(ax, (left - 1 + column, 1 - row), 0.36, ROBOTS[1 - robot])
        style.agent(ax, (left, 0), 0.36, ROBOTS[robot])
        style.write(ax, (left, 1.75), f"robot {robot}", colour=ROBOTS[robot], bold=True, level="bottom")


@world_text.register(Cleaner)
def _world_text(env: Cleaner, state: Any) -> list[str]:
    H, W = env.walls.shape
    dirty = np.asarray(state.dirty).reshape(H, W)
    canvas = np.where(env.walls, "#", np.where(dirty, "*", "."))
    first, second = (int(robot) for robot in np.asarray(state.robots))
    canvas.flat[first], canvas.flat[second] = "0", "&" if first == second else "1"
    return ["".join(row) for row in canvas] + [f"{int(dirty.sum())} dirty cells"]


@view_text.register(Cleaner)
def _view_text(env: Cleaner, observation: Any) -> list[str]:
    lines = ["robot 0  robot 1"]
    marks = [{**MARKS, ITSELF: str(robot), OTHER: str(1 - robot)} for robot in (0, 1)]
    views = [
        [" ".join(mark[cell] for cell in row) for row in view]
        for mark, view in zip(marks, _views(observation), strict=True)
    ]
    return lines + [f"{one:7}  {other}" for one, other in zip(*views, strict=True)]


def _views(observation: Any) -> np.ndarray:
    """The code of each cell that each robot sees: `[robot, row, column]`, such as "010" for dirt."""
    channels = np.asarray(observation).reshape(2, 3, 3, 3).astype(int).astype(str)
    return np.apply_along_axis("".join, -1, channels)


def _cells(ax: Axes, walls: np.ndarray, dirty: np.ndarray, clean: np.ndarray, corner: style.Point = (0, 0)) -> None:
    """Draws the cells `[row, column]`, the upper left one at `corner`; a robot in view hides what is below it."""
    row, column = np.indices(walls.shape)
    places = np.stack([corner[0] + column, corner[1] - row], -1)
    style.squares(ax, places[~walls & ~dirty & ~clean], style.FAINT, edge=style.FAINT, width=0.8)
    style.squares(ax, places[clean], style.FLOOR, edge=style.FAINT, width=0.8)
    style.squares(ax, places[dirty], style.SAND, edge=style.FAINT, width=0.8)
    specks = (places[dirty][:, None] + SPECKS).reshape(-1, 2)
    style.squares(ax, specks, style.OCHRE, side=0.09, width=0, order=1.2)
    style.squares(ax, places[walls], style.WALL, edge=style.WALL, width=0.8, order=1.3)
