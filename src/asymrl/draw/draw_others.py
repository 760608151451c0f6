"""Pictures of all other worlds: the names of state and observation, or their numbers."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from asymrl.draw import style
from asymrl.draw.dispatch import draw_view, draw_world, view_text, world_text
from asymrl.draw.style import Axes
from asymrl.worlds.finite import FiniteWorld, OutcomeWorld
from asymrl.worlds.repeated import RepeatedWorld
from asymrl.worlds.spaces import Image, Record, Space
from asymrl.worlds.world import World

MOST_DOTS = 400  # beyond this many states, dots would be too small to see
MOST_LINES, LINE_LENGTH = 12, 38


@draw_world.register(FiniteWorld)
def _draw_state(env: FiniteWorld, state: Any, ax: Axes) -> None:
    _draw_choice(ax, int(state), env.state_names[int(state)], len(env.state_names), "state", style.BLUE)


@draw_world.register(OutcomeWorld)
def _draw_state_of_pair(env: OutcomeWorld, state: Any, ax: Axes) -> None:
    _draw_state(env, state.state, ax)


@draw_view.register(FiniteWorld)
def _draw_observation(env: FiniteWorld, observation: Any, ax: Axes) -> None:
    index, names = int(observation), env.observation_names
    name = names[index] if index < len(names) else "nothing yet"
    _draw_choice(ax, index, name, len(names), "observation", style.ORANGE)


@world_text.register(FiniteWorld)
def _state_text(env: FiniteWorld, state: Any) -> list[str]:
    return [env.state_names[int(state)]]


@world_text.register(OutcomeWorld)
def _state_of_pair_text(env: OutcomeWorld, state: Any) -> list[str]:
    return _state_text(env, state.state)


@view_text.register(FiniteWorld)
def _observation_text(env: FiniteWorld, observation: Any) -> list[str]:
    index, names = int(observation), env.observation_names
    return [names[index] if index < len(names) else "nothing yet"]


@draw_world.register(RepeatedWorld)
def _draw_repeated(env: RepeatedWorld, state: Any, ax: Axes) -> None:
    draw_world(env.world, state, ax)


@draw_view.register(RepeatedWorld)
def _draw_view_of_repeated(env: RepeatedWorld, observation: Any, ax: Axes) -> None:
    draw_view(env.world, observation, ax)


@world_text.register(RepeatedWorld)
def _repeated_text(env: RepeatedWorld, state: Any) -> list[str]:
    return world_text(env.world, state)


@view_text.register(RepeatedWorld)
def _view_of_repeated_text(env: RepeatedWorld, observation: Any) -> list[str]:
    return view_text(env.world, observation)


@draw_world.register(World)
def _draw_latent(env: World, state: Any, ax: Axes) -> None:
    _draw_lines(ax, world_text(env, state))


@draw_view.register(World)
def _draw_numbers(env: World, observation: Any, ax: Axes) -> None:
    pixels = _pixels_in(env.observation_space, observation)
    if pixels is None:
        _draw_lines(ax, view_text(env, observation))
    else:
        style.show_pixels(ax, pixels)


def _pixels_in(space: Space, value: Any) -> Any:
    """The first picture in a value, `[height, width]` (the last channel) or with three colours, or None."""
    if isinstance(space, Record):
        # An agent that sees only some groups has no values of the others.
        parts = ((part, value[name]) for name, part in space.items() if name in value)
        return next((pixels for pair in parts if (pixels := _pixels_in(*pair)) is not None), None)
    if not isinstance(space, Image):
        return None
    return value if space.shape[2] == 3 else value[..., -1]


@world_text.register(World)
def _latent_text(env: World, state: Any) -> list[str]:
    latent = env.latent(state)
    return _number_lines(latent) if any(np.size(leaf) for leaf in jax.tree.leaves(latent)) else ["not known"]


@view_text.register(World)
def _numbers_text(env: World, observation: Any) -> list[str]:
    return _number_lines(observation)


def _draw_choice(ax: Axes, index: int, name: str, count: int, what: str, colour: str) -> None:
    """A card with the name of one of `count` things, and a dot for each of them, with this one filled."""
    style.stage(ax, -1.8, 1.8, -1.54, 1.54)
    size = style.HUGE if len(name) < 12 else style.LARGE if len(name) < 24 else style.SMALL
    style.box(ax, (0, 0.55), (3.2, 1.3), style.PAPER, edge=style.FAINT, width=1.2, rounding=0.08)
    style.write(ax, (0, 0.62), name, size=size, bold=True)
    if index >= count:
        return
    style.write(ax, (0, 0.13), f"{what} {index} of 0..{count - 1}", colour=style.MUTED, size=style.SMALL)
    if count <= MOST_DOTS:
        columns = min(count, max(10, math.ceil(math.sqrt(3.2 * count))))
        pitch = min(0.3, 3.2 / columns, 1.1 / math.ceil(count / columns))
        row, column = np.divmod(np.arange(count), columns)
        places = np.stack([(column - (columns - 1) / 2) * pitch, -0.45 - row * pitch], 1)
        fills = [style.FAINT] * count
        fills[index] = colour
        style.squares(ax, places, fills, side=0.78 * pitch, edge="none", width=0)


def _draw_lines(ax: Axes, lines: list[str]) -> None:
    style.stage(ax, -1.8, 1.8, -1.54, 1.54)
    larger = style.LARGE / style.SMALL
    fits = larger * len(lines) <= MOST_LINES and larger * max(map(len, lines), default=0) <= LINE_LENGTH
    scale = larger if fits else 1.0
    for i, text in enumerate(lines):
        place = (-1.7, 1.35 - 0.22 * scale * i)
        style.write(ax, place, text, align="left", level="top", size=scale * style.SMALL)


def _number_lines(value: Any) -> list[str]:
    """Each array in a tree of arrays as its path and its numbers, shortened where they are many."""
    lines: list[str] = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(value):
        numbers = _numbers(np.asarray(leaf))
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        text = f"{name}: {numbers}" if name else numbers
        lines.append(text if len(text) <= LINE_LENGTH else text[: LINE_LENGTH - 4] + " ...")
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], f"and {len(lines) - MOST_LINES + 1} more"]


def _numbers(array: np.ndarray) -> str:
    """An array in a line; for a picture, whose corner would say nothing, its shape, range and mean."""
    if array.ndim > 2 and array.size:
        shape = "x".join(map(str, array.shape))
        return f"{shape}, {array.min():.3g} to {array.max():.3g}, mean {array.mean():.3g}"
    with np.printoptions(precision=3, suppress=True, threshold=8, edgeitems=3, linewidth=10_000):
        return " ".join(str(array).split()).replace("[ ", "[")
