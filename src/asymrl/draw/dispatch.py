"""How the true state of a world and the agent's observation are drawn, as a picture and as text.

Each family of worlds registers its own functions; those of `World` and `FiniteWorld` serve all others.
"""

from __future__ import annotations

import functools
from typing import Any

from asymrl.draw.style import Axes
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
    """Draws the observation of the agent, and nothing else, into matplotlib axes."""
    raise TypeError(f"{env!r} is not a world")


@functools.singledispatch
def world_text(env: World, state: Any) -> list[str]:
    """The true state as lines of text."""
    raise TypeError(f"{env!r} is not a world")


@functools.singledispatch
def view_text(env: World, observation: Any) -> list[str]:
    """The observation of the agent as lines of text."""
    raise TypeError(f"{env!r} is not a world")
