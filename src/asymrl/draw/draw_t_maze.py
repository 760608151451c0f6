"""Pictures of T-maze: the whole maze, and the few cells around the agent that it sees."""

from __future__ import annotations

from typing import Any

from asymrl.draw import style
from asymrl.draw.dispatch import draw_view, draw_world, view_text, world_text
from asymrl.draw.style import Axes
from asymrl.worlds.builtin.t_maze import CORRIDOR, JUNCTION, TMaze

SIDES, ARROWS = ("north", "south"), ("↑", "↓")
MOST_CELLS = 14  # of the corridor that are drawn one by one; longer ones are drawn to scale


@draw_world.register(TMaze)
def _draw_world(env: TMaze, state: Any, ax: Axes) -> None:
    side, cell = _side_and_cell(env, state)
    length = min(env.n, MOST_CELLS)
    style.stage(ax, -0.9, length + 0.9, -2.4, 2.4)
    goals = [(length, 1), (length, -1)]
    if env.n <= MOST_CELLS:
        cells = [(x, 0) for x in range(length + 1)]
        style.squares(ax, [*cells, *goals], style.INK, edge=style.INK, width=4)
        style.squares(ax, cells, style.FLOOR, edge=style.FAINT, width=1.0, order=1.5)
    else:
        ends, tube = [(0, 0), (length, 0)], ((length / 2, 0), (length + 1, 1))
        style.squares(ax, [*ends, *goals], style.INK, edge=style.INK, width=4)
        style.box(ax, *tube, style.INK, edge=style.INK, width=4, rounding=0.01, order=1.0)
        style.box(ax, *tube, style.FLOOR, rounding=0.01, order=1.5)
        style.squares(ax, ends, style.FLOOR, edge=style.FAINT, width=1.0, order=1.6)
    signs = [("✓", style.GREEN), ("✗", style.VERMILION)]
    for place, (sign, colour) in zip(goals, signs if side == 0 else signs[::-1], strict=True):
        style.squares(ax, [place], colour, edge=style.PAPER, width=1.0, order=1.7)
        style.write(ax, place, sign, colour=style.PAPER, size=style.LARGE, bold=True, order=2.0)
    name = (length, 1.9 if side == 0 else -1.9)
    style.write(ax, name, "goal", colour=style.GREEN, size=style.SMALL, bold=True)
    style.write(ax, (0, 1.1), ARROWS[side], colour=style.PLUM, size=style.LARGE, bold=True)
    style.write(ax, (0, -0.75), "start", colour=style.MUTED, size=style.SMALL, level="top")
    style.agent(ax, (cell * length / env.n, 0), 0.33)


@draw_view.register(TMaze)
def _draw_view(env: TMaze, observation: Any, ax: Axes) -> None:
    symbol = int(observation)
    style.stage(ax, -2.4, 2.4, -2.1, 2.1)
    around = {CORRIDOR: [(-1, 0), (1, 0)], JUNCTION: [(-1, 0), (0, 1), (0, -1)]}.get(symbol, [(1, 0)])
    cells = [(0, 0), *around]
    style.squares(ax, cells, style.INK, edge=style.INK, width=4)
    style.squares(ax, cells, style.FLOOR, edge=style.FAINT, width=1.0, order=1.5)
    if symbol == JUNCTION:
        for place in around[1:]:
            style.squares(ax, [place], style.MUTED, edge=style.PAPER, width=1.0, order=1.7)
            style.write(ax, place, "?", colour=style.PAPER, size=style.LARGE, bold=True, order=2.0)
    style.agent(ax, (0, 0), 0.3)
    if symbol < len(SIDES):
        style.speech(ax, (0, 1.35), (2.2, 0.6), (0, 0.42), f"goal {ARROWS[symbol]} {SIDES[symbol]}")


@world_text.register(TMaze)
def _world_text(env: TMaze, state: Any) -> list[str]:
    side, cell = _side_and_cell(env, state)
    gap = " " if env.n <= 2 * MOST_CELLS else ""
    corridor = gap.join("@" if i == cell else "." for i in range(env.n + 1))
    north, south = ("+", "-") if side == 0 else ("-", "+")
    end = len(corridor) - 1
    return [" " * end + north, corridor, " " * end + south, f"cell {cell}, goal {SIDES[side]}"]


@view_text.register(TMaze)
def _view_text(env: TMaze, observation: Any) -> list[str]:
    symbol = int(observation)
    return [f"goal {SIDES[symbol]}" if symbol < len(SIDES) else env.observation_names[symbol]]


def _side_and_cell(env: TMaze, state: Any) -> tuple[int, int]:
    side, cell = divmod(int(state), env.n + 1)
    return side, cell
