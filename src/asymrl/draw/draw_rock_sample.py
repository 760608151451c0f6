"""Pictures of RockSample: the grid with its rocks, and the reading of the sensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from asymrl.draw import style
from asymrl.draw.dispatch import draw_view, draw_world, view_text, world_text
from asymrl.draw.style import Axes
from asymrl.worlds.builtin.rock_sample import BAD, GOOD, RockSample, SimulatedRockSample
from asymrl.worlds.builtin.rock_terrain import Terrain

Place = tuple[int, int]
Rover = RockSample | SimulatedRockSample
WORDS = {GOOD: "good", BAD: "bad"}


@draw_world.register(RockSample)
@draw_world.register(SimulatedRockSample)
def _draw_world(env: Rover, state: Any, ax: Axes) -> None:
    place, good = _place_and_rocks(env, state)
    _grid(env.terrain, ax, 0.0)
    for number, (rock, is_good) in enumerate(zip(env.terrain.rocks, good, strict=True), start=1):
        sign, colour = ("✓", style.GREEN) if is_good else ("✗", style.VERMILION)
        _rock(env.terrain, ax, rock, sign, colour)
        corner = (rock[0] + 0.35, rock[1] + 0.35)
        style.write(ax, corner, str(number), colour=style.MUTED, size=0.6 * _type_size(env.terrain))
    _agent(env.terrain, ax, place)


@draw_view.register(RockSample)
@draw_view.register(SimulatedRockSample)
def _draw_view(env: Rover, observation: Any, ax: Axes) -> None:
    place, word = _place_and_word(env, observation)
    n = env.terrain.n
    _grid(env.terrain, ax, 0.17 * n)
    for number, rock in enumerate(env.terrain.rocks, start=1):
        _rock(env.terrain, ax, rock, str(number), style.MUTED)
    if place is not None:
        _agent(env.terrain, ax, place)
    colour = {GOOD: style.GREEN, BAD: style.VERMILION}.get(word, style.FAINT)
    text = f"sensor: {'✓' if word == GOOD else '✗'} {WORDS[word]}" if word in WORDS else "sensor: –"
    at = ((n - 1) / 2, n - 0.5 + 0.1 * n)
    style.box(ax, at, (0.5 * n, 0.11 * n), style.PAPER, edge=colour, width=1.4, rounding=0.05 * n, order=5.0)
    style.write(ax, at, text, colour=style.MUTED if word not in WORDS else colour, bold=word in WORDS)


@world_text.register(RockSample)
@world_text.register(SimulatedRockSample)
def _world_text(env: Rover, state: Any) -> list[str]:
    place, good = _place_and_rocks(env, state)
    marks = {rock: "+" if is_good else "-" for rock, is_good in zip(env.terrain.rocks, good, strict=True)}
    words = " ".join(f"{i + 1}{'+' if is_good else '-'}" for i, is_good in enumerate(good))
    return [*_map_text(env.terrain, marks | {place: "@"}), f"agent ({place[0]}, {place[1]})", f"rocks {words}"]


@view_text.register(RockSample)
@view_text.register(SimulatedRockSample)
def _view_text(env: Rover, observation: Any) -> list[str]:
    place, word = _place_and_word(env, observation)
    marks = dict.fromkeys(env.terrain.rocks, "?") | ({} if place is None else {place: "@"})
    where = [] if place is None else [f"agent ({place[0]}, {place[1]})"]
    return [*_map_text(env.terrain, marks), *where, f"sensor: {WORDS.get(word, '-')}"]


def _place_and_rocks(env: Rover, state: Any) -> tuple[Place, list[bool]]:
    k = len(env.terrain.rocks)
    if isinstance(env, SimulatedRockSample):
        cell, good = int(state.cell), [bool(is_good) for is_good in np.asarray(state.good)]
    else:
        cell, rocks = divmod(int(state), 2**k)
        good = [rocks >> i & 1 == 1 for i in range(k)]
    return divmod(cell, env.terrain.n), good


def _place_and_word(env: Rover, observation: Any) -> tuple[Place | None, int]:
    """The position, if it is observed, and the reading of the sensor."""
    cell, word = divmod(int(observation), 3)
    return divmod(cell, env.terrain.n) if env.position else None, word


def _grid(terrain: Terrain, ax: Axes, room: float) -> None:
    """The cells and the exit, with some room above them."""
    n, middle = terrain.n, (terrain.n - 1) / 2
    strip = 0.08 * n
    style.stage(ax, -0.5 - 0.03 * n, n - 0.5 + 1.9 * strip, -0.5 - 0.03 * n, n - 0.5 + max(room, 0.03 * n))
    style.box(ax, (n - 0.5 + strip / 2, middle), (strip, n), style.GREEN, rounding=0.01, order=0.9)
    style.squares(ax, [(middle, middle)], style.INK, side=n, edge=style.INK, width=4)
    style.squares(ax, np.indices((n, n)).reshape(2, -1).T, style.FLOOR, edge=style.FAINT, width=1.0)
    ax.text(
        n - 0.5 + strip / 2 + 0.01 * n, middle, "exit", color=style.PAPER, fontsize=style.SMALL, fontfamily=style.FONT,
        fontweight="bold", ha="center", va="center", rotation=270, zorder=6.0,
    )  # fmt: skip


def _rock(terrain: Terrain, ax: Axes, rock: Place, mark: str, colour: str) -> None:
    """A stone with a mark."""
    angle = np.radians([20, 70, 115, 165, 215, 270, 325])
    radius = np.array([0.32, 0.29, 0.31, 0.33, 0.31, 0.29, 0.32])
    corners = np.stack([rock[0] + radius * np.cos(angle), rock[1] + 0.92 * radius * np.sin(angle)], 1)
    style.polygon(ax, corners, colour, edge=colour, width=1.2, order=2.0)
    style.write(ax, rock, mark, colour=style.PAPER, size=_type_size(terrain), bold=True, order=2.1)


def _agent(terrain: Terrain, ax: Axes, place: Place) -> None:
    on_rock = place in terrain.rocks
    style.agent(ax, (place[0] - 0.25, place[1] - 0.25) if on_rock else place, 0.2 if on_rock else 0.28)


def _type_size(terrain: Terrain) -> float:
    return min(style.LARGE, 80 / terrain.n)


def _map_text(terrain: Terrain, marks: dict[Place, str]) -> list[str]:
    n = terrain.n
    return [" ".join([*(marks.get((x, y), ".") for x in range(n)), ">"]) for y in reversed(range(n))]
