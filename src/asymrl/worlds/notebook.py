"""A world as a short piece of HTML, for notebooks: a table of facts, and a picture if one can be drawn.

Pictures are drawn by another package, which registers itself with `draw_worlds_by`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asymrl.worlds.world import World

Drawer = Callable[["World"], bytes | None]  # the start of an episode as a PNG file, if it can be drawn
_drawers: list[Drawer] = []
MOST_ACTIONS = 12


def draw_worlds_by(drawer: Drawer) -> Drawer:
    """Registers the function that draws worlds for notebooks, and returns it."""
    _drawers[:] = [drawer]
    return drawer


def world_html(world: World) -> str:
    """The name of a world, its actions, spaces, discount and time limit, beside the start of an episode."""
    names = world.action_names
    more = f" and {len(names) - MOST_ACTIONS} more" if len(names) > MOST_ACTIONS else ""
    facts = {
        "actions": ", ".join(names[:MOST_ACTIONS]) + more,
        "observations": str(world.observation_space),
        "what a critic may read": ", ".join(world.signals()),
        "discount": f"{world.discount:g}",
        "time limit": "none" if world.time_limit is None else str(world.time_limit),
    }
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in facts.items()
    )
    pictures = [base64.b64encode(data).decode("ascii") for draw in _drawers if (data := draw(world)) is not None]
    shown = "".join(f'<img alt="the start of an episode" src="data:image/png;base64,{text}">' for text in pictures)
    return f"<p><strong>{escape(world.name)}</strong></p><table>{rows}</table>{shown}"
