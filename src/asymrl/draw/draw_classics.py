"""Pictures of the two small worlds: good-bad as a diagram, and the tiger behind its doors."""

from __future__ import annotations

from typing import Any

import numpy as np

from asymrl.draw import style
from asymrl.draw.dispatch import draw_view, draw_world
from asymrl.draw.style import Axes
from asymrl.worlds.builtin.tiger import GoodBad, Tiger

GOOD_BAD = ((style.GREEN, "✓"), (style.VERMILION, "✗"))


@draw_world.register(GoodBad)
def _draw_good_bad(env: GoodBad, state: Any, ax: Axes) -> None:
    """The states above, their observations below; the true state is filled."""
    style.stage(ax, -2.1, 2.1, -1.85, 1.75)
    states, symbols = [(-1.1, 0.95), (1.1, 0.95)], [(-1.1, -1.05), (1.1, -1.05)]
    for s, o, chance, shift in ((0, 0, "1", -0.22), (1, 0, "½", 0.0), (1, 1, "½", 0.22)):
        start, end = np.array(states[s]), np.array(symbols[o])
        way = (end - start) / np.linalg.norm(end - start)
        live = s == int(state)
        colour = style.INK if live else style.FAINT
        begin, stop, middle = start + 0.56 * way, end - 0.5 * way, start + 0.5 * (end - start)
        style.arrow(ax, (begin[0], begin[1]), (stop[0], stop[1]), colour, width=1.8)
        label = (middle[0] + shift, middle[1] + (0.16 if shift == 0 else 0))
        style.write(ax, label, chance, colour=colour if live else style.MUTED, size=style.LARGE)
    for s, (place, name) in enumerate(zip(states, env.state_names, strict=True)):
        colour = GOOD_BAD[s][0]
        live = s == int(state)
        style.disc(ax, place, 0.5, colour if live else style.PAPER, edge=colour, width=2.0)
        style.write(ax, place, name, colour=style.PAPER if live else colour, bold=True)
    for o, (place, name) in enumerate(zip(symbols, env.observation_names, strict=True)):
        style.box(ax, place, (0.95, 0.62), style.PAPER, edge=GOOD_BAD[o][0], width=1.5, rounding=0.08)
        style.write(ax, place, name, colour=style.INK)
    style.write(ax, (0, 0.95), "state", colour=style.MUTED, size=style.SMALL)
    style.write(ax, (0, -1.05), "emits", colour=style.MUTED, size=style.SMALL)


@draw_view.register(GoodBad)
def _draw_good_bad_view(env: GoodBad, observation: Any, ax: Axes) -> None:
    style.stage(ax, -2.1, 2.1, -1.85, 1.75)
    symbol = int(observation)
    colour, sign = GOOD_BAD[symbol]
    style.box(ax, (0, 0), (2.4, 1.6), style.PAPER, edge=colour, width=2.0, rounding=0.15)
    style.write(ax, (0, 0.22), sign, colour=colour, size=style.HUGE, bold=True)
    style.write(ax, (0, -0.42), env.observation_names[symbol], size=style.LARGE)


@draw_world.register(Tiger)
def _draw_tiger(env: Tiger, state: Any, ax: Axes) -> None:
    style.stage(ax, -2.1, 2.1, -1.85, 1.75)
    for door, x in enumerate((-1.0, 1.0)):
        _frame(ax, x)
        style.box(ax, (x, -0.1), (1.3, 2.2), style.NIGHT, rounding=0.04)
        if door == int(state):
            _tiger(ax, x, -0.35)
            style.write(ax, (x, -1.35), "−100", colour=style.VERMILION, bold=True, level="top")
        else:
            _pot_of_gold(ax, x, -0.7)
            style.write(ax, (x, -1.35), "+10", colour=style.GREEN, bold=True, level="top")


@draw_view.register(Tiger)
def _draw_tiger_view(env: Tiger, observation: Any, ax: Axes) -> None:
    style.stage(ax, -2.1, 2.1, -1.85, 1.75)
    heard = int(observation)
    for door, x in enumerate((-1.0, 1.0)):
        _frame(ax, x)
        style.box(ax, (x, -0.1), (1.3, 2.2), style.WOOD, rounding=0.04)
        for panel_y, panel_height in ((0.45, 0.75), (-0.65, 0.75)):
            style.box(ax, (x, panel_y), (0.9, panel_height), "none", edge=style.DARK_WOOD, width=1.5, rounding=0.04)
        style.disc(ax, (x + 0.5, -0.1), 0.07, style.INK)
        style.write(ax, (x, -1.35), ("left", "right")[door], colour=style.MUTED, level="top")
        if door == heard:
            for radius in (0.22, 0.4, 0.58):
                for middle in (0, 180):
                    style.arc(ax, (x, 0.0), radius, (middle - 40, middle + 40), style.PAPER, width=2.6)
            style.box(ax, (x, 0.0), (0.72, 0.34), style.PAPER, rounding=0.15, order=4.0)
            style.write(ax, (x, 0.0), "growl", bold=True, colour=style.VERMILION)
    if heard == len(env.observation_names):
        style.note(ax, (0, 1.43), "nothing yet", 0.105)


def _frame(ax: Axes, x: float) -> None:
    style.box(ax, (x, -0.07), (1.5, 2.34), style.INK, rounding=0.06, order=1.5)


def _tiger(ax: Axes, x: float, y: float) -> None:
    for side in (-1, 1):
        style.disc(ax, (x + side * 0.34, y + 0.36), 0.15, style.ORANGE, order=3.0)
        style.disc(ax, (x + side * 0.34, y + 0.36), 0.07, style.NIGHT, order=3.1)
    style.disc(ax, (x, y), 0.48, style.ORANGE, order=3.2)
    style.disc(ax, (x, y - 0.2), 0.2, style.PAPER, order=3.3)
    style.polygon(ax, [(x - 0.08, y - 0.08), (x + 0.08, y - 0.08), (x, y - 0.18)], style.NIGHT, order=3.5)
    for side in (-1, 1):
        style.disc(ax, (x + side * 0.19, y + 0.1), 0.065, style.NIGHT, order=3.4)
        for height, reach in ((0.02, 0.14), (-0.12, 0.12)):
            edge = np.sqrt(0.48**2 - height**2)
            tips = [(x + side * edge, y + height + 0.035), (x + side * edge, y + height - 0.035)]
            style.polygon(ax, [*tips, (x + side * (edge - reach), y + height)], style.NIGHT, order=3.4)
    for offset, depth in ((-0.13, 0.14), (0.0, 0.2), (0.13, 0.14)):
        top = y + np.sqrt(0.48**2 - offset**2)
        style.polygon(
            ax,
            [(x + offset - 0.035, top), (x + offset + 0.035, top), (x + offset, top - depth)],
            style.NIGHT,
            order=3.4,
        )


def _pot_of_gold(ax: Axes, x: float, y: float) -> None:
    for dx, dy in ((-0.22, 0.3), (0.22, 0.3), (0.0, 0.34), (-0.11, 0.42), (0.12, 0.42)):
        style.disc(ax, (x + dx, y + dy), 0.13, style.YELLOW, edge=style.ORANGE, width=1.2, order=3.0)
    angle = np.linspace(np.pi * 1.02, np.pi * 1.98, 24)
    bowl = np.stack([x + 0.42 * np.cos(angle), y + 0.28 + 0.58 * np.sin(angle)], 1)
    style.polygon(ax, bowl, style.MUTED, order=3.2)
    style.box(ax, (x, y + 0.25), (0.92, 0.12), style.MUTED, rounding=0.05, order=3.3)
