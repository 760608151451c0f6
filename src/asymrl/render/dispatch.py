"""What there is to draw of a world: its true state and the agent's view, as a picture and as text.

Each family of worlds registers its own way; the ways of `World` and `FiniteWorld` serve all others.
"""

from __future__ import annotations

import functools
from typing import Any

from asymrl.render.style import Axes
from asymrl.worlds.world import World


@functools.singledispatch
def draw_world(env: World, state: Any, ax: Axes) -> None:
    """Draws the true state of a world into matplotlib axes.

    Args:
        env: the world; its class decides how it is drawn.
        state: a single state, as `env.reset` and `env.step` return it.
        ax: axes of any figure; their limits and aspect are set here.
    """
    raise TypeError(f"{env!r} is not a world")


@functools.singledispatch
def draw_view(env: World, observation: Any, ax: Axes) -> None:
    """Draws what the agent sees into matplotlib axes: only the observation, nothing else is known."""
    raise TypeError(f"{env!r} is not a world")


@functools.singledispatch
def world_text(env: World, state: Any) -> list[str]:
    """The true state as lines of text."""
    raise TypeError(f"{env!r} is not a world")


@functools.singledispatch
def view_text(env: World, observation: Any) -> list[str]:
    """What the agent sees as lines of text."""
    raise TypeError(f"{env!r} is not a world")
