"""T-maze-n, as cells with coordinates: a step is possible where the next coordinate is a cell or a goal."""

from __future__ import annotations

import numpy as np

from tests.oracles.tables import Tables

NORTH, EAST, SOUTH, WEST = range(4)
DIRECTIONS = {NORTH: (0, 1), EAST: (1, 0), SOUTH: (0, -1), WEST: (-1, 0)}
UP, DOWN, CORRIDOR, JUNCTION = range(4)


def tables(n: int, goal: float = 4.0, wrong: float = -0.1, bump: float = -0.1) -> Tables:
    start = np.zeros(2 * (n + 1))
    start[[0, n + 1]] = 0.5
    world = Tables(2 * (n + 1), 4, 4, start)
    for side in (UP, DOWN):
        ends = {(n, 1): goal if side == UP else wrong, (n, -1): goal if side == DOWN else wrong}
        for x in range(n + 1):
            state = side * (n + 1) + x
            for action, (dx, dy) in DIRECTIONS.items():
                target = (x + dx, dy)
                if target in ends:
                    world.end(state, action, ends[target])
                elif dy == 0 and 0 <= x + dx <= n:
                    world.go(state, action, {state + dx: 1.0}, 0.0)
                else:
                    world.go(state, action, {state: 1.0}, bump)
                world.see(action, state, {side if x == 0 else JUNCTION if x == n else CORRIDOR: 1.0})
    return world
