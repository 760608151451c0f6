"""Pictures of Heaven-Hell: the corridor, with the exits named or unknown."""

from __future__ import annotations

from typing import Any

import numpy as np

from asymrl.draw import style
from asymrl.draw.dispatch import draw_view, draw_world, view_text, world_text
from asymrl.draw.style import Axes
from asymrl.worlds.builtin.heaven_hell import HeavenHell, corridor_map

SIDES = ("left", "right")


@draw_world.register(HeavenHell)
def _draw_world(env: HeavenHell, state: Any, ax: Axes) -> None:
    side, cell = _side_and_cell(env, state)
    _corridor(env, ax)
    signs = [("heaven", "✓", style.GREEN), ("hell", "✗", style.VERMILION)]
    for place, (name, sign, colour) in zip(_exits(env), signs if side == 0 else signs[::-1], strict=True):
        _exit(ax, place, name, sign, colour)
    _agent(env, ax, cell)


@draw_view.register(HeavenHell)
def _draw_view(env: HeavenHell, observation: Any, ax: Axes) -> None:
    cell, side = _cell_and_side(env, observation)
    _corridor(env, ax)
    for place in _exits(env):
        _exit(ax, place, "exit", "?", style.MUTED)
    nook = ((env.n + 1) / 2 + 0.05, (env.n - 1) / 2 + 0.1)  # the free space between the corridors
    if cell is None:
        style.note(ax, nook, "nothing yet", 0.055 * max(env.n, 2))
        return
    _agent(env, ax, cell)
    if side is not None:
        words = "← heaven" if side == 0 else "heaven →"
        x, y = _place(env, cell)
        width, height = max(0.85 * env.n, 1.5), max(0.26 * env.n, 0.45)
        style.speech(ax, (nook[0], y + 0.9 + height / 2), (width, height), (x + 0.2, y + 0.45), words)


@world_text.register(HeavenHell)
def _world_text(env: HeavenHell, state: Any) -> list[str]:
    side, cell = _side_and_cell(env, state)
    marks = {2 * env.n: "+-"[side], 3 * env.n: "-+"[side], 4 * env.n + 1: "P", cell: "@"}
    return [*_map_text(env, marks), f"cell {cell}, heaven {SIDES[side]}"]


@view_text.register(HeavenHell)
def _view_text(env: HeavenHell, observation: Any) -> list[str]:
    cell, side = _cell_and_side(env, observation)
    marks = {2 * env.n: "?", 3 * env.n: "?", 4 * env.n + 1: "P"} | ({} if cell is None else {cell: "@"})
    text = "nothing yet" if cell is None else f"cell {cell}" if side is None else f"priest: heaven {SIDES[side]}"
    return [*_map_text(env, marks), text]


def _side_and_cell(env: HeavenHell, state: Any) -> tuple[int, int]:
    side, cell = divmod(int(state), 4 * env.n + 2)
    return side, cell


def _cell_and_side(env: HeavenHell, observation: Any) -> tuple[int | None, int | None]:
    """The cell of an observation, and the side of heaven, which only the priest reveals; None where not observed."""
    index, priest = int(observation), 4 * env.n + 1
    if index < priest:
        return index, None
    return (None, None) if index == len(env.observation_names) else (priest, index - priest)


def _place(env: HeavenHell, cell: int) -> style.Point:
    x, y = corridor_map(env.n)[cell]
    return float(x), float(y)


def _exits(env: HeavenHell) -> tuple[style.Point, style.Point]:
    return _place(env, 2 * env.n), _place(env, 3 * env.n)


def _corridor(env: HeavenHell, ax: Axes) -> None:
    n = env.n
    side = max(n + 0.6, 2.1)
    style.stage(ax, -side, side, -2.2, n + 1.2)
    cells = corridor_map(n)
    style.squares(ax, cells, style.INK, edge=style.INK, width=4)
    style.squares(ax, cells, style.FLOOR, edge=style.FAINT, width=1.0, order=1.5)
    x, y = _place(env, 4 * n + 1)
    style.squares(ax, [(x, y)], style.LILAC, edge=style.FAINT, width=1.0, order=1.6)
    _priest(ax, x + 0.2, y - 0.02)
    style.write(ax, (x + 0.5, y - 0.65), "priest", colour=style.PLUM, size=style.SMALL, align="right", level="top")
    style.write(ax, (-0.65, 0), "start", colour=style.MUTED, size=style.SMALL, align="right")


def _agent(env: HeavenHell, ax: Axes, cell: int) -> None:
    x, y = _place(env, cell)
    beside = cell == 4 * env.n + 1
    style.agent(ax, (x - 0.22, y) if beside else (x, y), 0.23 if beside else 0.3)


def _priest(ax: Axes, x: float, y: float) -> None:
    angle = np.linspace(0, np.pi, 24)
    style.polygon(ax, np.stack([x + 0.21 * np.cos(angle), y - 0.26 + 0.25 * np.sin(angle)], 1), style.PURPLE, order=2.0)
    style.disc(ax, (x, y + 0.13), 0.13, style.PURPLE, edge=style.LILAC, width=1.2, order=2.1)


def _exit(ax: Axes, place: style.Point, name: str, sign: str, colour: str) -> None:
    style.squares(ax, [place], colour, edge=style.PAPER, width=1.0, order=1.6)
    style.write(ax, place, sign, colour=style.PAPER, size=style.LARGE, bold=True, order=2.0)
    # Aligned with the end of the corridor, so that long corridors do not push the names off the picture.
    outwards = -1 if place[0] < 0 else 1
    at, align = (place[0] + 0.5 * outwards, place[1] - 0.65), "left" if outwards < 0 else "right"
    style.write(ax, at, name, colour=colour, size=style.SMALL, align=align, level="top", bold=name != "exit")


def _map_text(env: HeavenHell, marks: dict[int, str]) -> list[str]:
    cells = corridor_map(env.n)
    columns, rows = cells[:, 0] + env.n, env.n - cells[:, 1]
    canvas = np.full((env.n + 2, 2 * env.n + 1), " ")
    canvas[rows, columns] = "."
    for cell, mark in marks.items():
        canvas[rows[cell], columns[cell]] = mark
    return [" ".join(row).rstrip() for row in canvas]
