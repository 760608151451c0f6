"""Pictures of Shopping: the shop from above, with the agent and the item."""

from __future__ import annotations

from typing import Any

import numpy as np

from asymrl.draw import style
from asymrl.draw.dispatch import draw_view, draw_world, view_text, world_text
from asymrl.draw.style import Axes
from asymrl.worlds.builtin.shopping import Shopping

Place = tuple[int, int]


@draw_world.register(Shopping)
def _draw_world(env: Shopping, state: Any, ax: Axes) -> None:
    agent, item = _agent_and_item(env, state)
    _shop(env, ax)
    together = agent == item
    _bag(ax, item, shift=0.17 if together else 0.0)
    style.agent(ax, (agent[0] - (0.17 if together else 0.0), agent[1]))


@draw_view.register(Shopping)
def _draw_view(env: Shopping, observation: Any, ax: Axes) -> None:
    agent, item = _positions(env, observation)
    _shop(env, ax)
    if agent is not None:
        style.agent(ax, agent)
    elif item is not None:
        _bag(ax, item)
    else:
        middle = (env.n - 1) / 2
        style.note(ax, (middle, middle), "nothing yet", 0.035 * env.n)


@world_text.register(Shopping)
def _world_text(env: Shopping, state: Any) -> list[str]:
    agent, item = _agent_and_item(env, state)
    marks = {item: "$", agent: "&" if agent == item else "@"}
    return [*_map_text(env, marks), f"agent {_coordinates(agent)}, item {_coordinates(item)}"]


@view_text.register(Shopping)
def _view_text(env: Shopping, observation: Any) -> list[str]:
    agent, item = _positions(env, observation)
    if agent is not None:
        return [*_map_text(env, {agent: "@"}), f"agent {_coordinates(agent)}"]
    if item is not None:
        return [*_map_text(env, {item: "$"}), f"item {_coordinates(item)}"]
    return [*_map_text(env, {}), "nothing yet"]


def _agent_and_item(env: Shopping, state: Any) -> tuple[Place, Place]:
    agent, item = divmod(int(state), env.n**2)
    return divmod(agent, env.n), divmod(item, env.n)


def _positions(env: Shopping, observation: Any) -> tuple[Place | None, Place | None]:
    """The position of the agent, or of the item, or neither: an observation never has both."""
    what, position = divmod(int(observation), env.n**2)
    place = divmod(position, env.n)
    return (place if what == 0 else None), (place if what == 1 else None)


def _coordinates(place: Place) -> str:
    return f"({place[0]}, {place[1]})"


def _shop(env: Shopping, ax: Axes) -> None:
    n = env.n
    low, high = -0.5 - max(0.5, 0.07 * n), n - 0.5 + max(0.1, 0.02 * n)  # with room for the numbers of the cells
    style.stage(ax, low, high, low, high)
    middle = (n - 1) / 2
    style.squares(ax, [(middle, middle)], style.INK, side=n, edge=style.INK, width=4)
    style.squares(ax, np.indices((n, n)).reshape(2, -1).T, style.FLOOR, edge=style.FAINT, width=1.0)
    for i in range(0, n, 1 + n // 12):  # in a large shop, there is no room for every number
        style.write(ax, (i, -0.68), str(i), colour=style.MUTED, size=style.SMALL, level="top")
        style.write(ax, (-0.68, i), str(i), colour=style.MUTED, size=style.SMALL, align="right")


def _bag(ax: Axes, place: Place, shift: float = 0.0) -> None:
    x, y = place[0] + shift, float(place[1])
    style.arc(ax, (x, y + 0.1), 0.13, (0, 180), style.ORANGE, width=2.2, order=3.0)
    style.polygon(
        ax,
        [(x - 0.27, y - 0.29), (x + 0.27, y - 0.29), (x + 0.22, y + 0.11), (x - 0.22, y + 0.11)],
        style.ORANGE,
        edge=style.ORANGE,
        width=1.5,
        order=3.1,
    )


def _map_text(env: Shopping, marks: dict[Place, str]) -> list[str]:
    return [" ".join(marks.get((x, y), ".") for x in range(env.n)) for y in reversed(range(env.n))]
