"""Shopping-n, as an agent and an item with coordinates on an n x n grid."""

from __future__ import annotations

import itertools

import numpy as np

from tests.oracles.tables import Tables

QUERY, MOVE_LEFT, MOVE_RIGHT, MOVE_UP, MOVE_DOWN, BUY = range(6)
MOVES = {MOVE_LEFT: (-1, 0), MOVE_RIGHT: (1, 0), MOVE_UP: (0, 1), MOVE_DOWN: (0, -1)}


def tables(n: int) -> Tables:
    places = [(x, y) for x in range(n) for y in range(n)]
    number = {place: i for i, place in enumerate(places)}
    pairs = list(itertools.product(places, places))
    state_of = {pair: i for i, pair in enumerate(pairs)}
    start = np.array([1 / n**2 if agent == (0, 0) else 0.0 for agent, _ in pairs])
    world = Tables(n**4, 6, 2 * n**2, start)
    for agent, item in pairs:
        state = state_of[agent, item]
        world.go(state, QUERY, {state: 1.0}, -2.0)
        for action, (dx, dy) in MOVES.items():
            target = (agent[0] + dx, agent[1] + dy)
            if target not in number:
                target = agent
            world.go(state, action, {state_of[target, item]: 1.0}, -1.0)
        if agent == item:
            world.end(state, BUY, 10.0)
        else:
            world.go(state, BUY, {state: 1.0}, -5.0)
        for action in range(6):
            seen = n**2 + number[item] if action == QUERY else number[agent]
            world.see(action, state, {seen: 1.0})
    return world


def plan(n: int, item: int) -> list[int]:
    """Ask once, walk there, buy."""
    x, y = divmod(item, n)
    return [QUERY] + [MOVE_RIGHT] * x + [MOVE_UP] * y + [BUY]
