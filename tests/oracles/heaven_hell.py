"""Heaven-Hell-n, as cells with coordinates: a step is possible where the next coordinate is a cell."""

from __future__ import annotations

import numpy as np

from tests.oracles.tables import Tables

NORTH, SOUTH, EAST, WEST = range(4)
DIRECTIONS = {NORTH: (0, 1), SOUTH: (0, -1), EAST: (1, 0), WEST: (-1, 0)}
LEFT, RIGHT = 0, 1


def cells(n: int) -> list[tuple[int, int]]:
    """The coordinates (east, north) of the cells in the order of their numbers."""
    start = [(0, 0)]
    up_to_the_fork = [(0, k) for k in range(1, n + 1)]
    west = [(-k, n) for k in range(1, n + 1)]
    east = [(k, n) for k in range(1, n + 1)]
    corner = [(0, -1)]
    to_the_priest = [(k, -1) for k in range(1, n + 1)]
    return start + up_to_the_fork + west + east + corner + to_the_priest


def tables(n: int) -> Tables:
    places = cells(n)
    number = {place: i for i, place in enumerate(places)}
    exits = {(-n, n): LEFT, (n, n): RIGHT}
    priest = (n, -1)
    start = np.zeros(2 * len(places))
    start[[0, len(places)]] = 0.5
    # Every cell but the priest's is seen as such; the priest tells one of two sides.
    world = Tables(2 * len(places), 4, len(places) - 1 + 2, start)
    for heaven in (LEFT, RIGHT):
        for place in places:
            state = heaven * len(places) + number[place]
            for action, (dx, dy) in DIRECTIONS.items():
                if place in exits:
                    world.end(state, action, 1.0 if exits[place] == heaven else -1.0)
                else:
                    target = (place[0] + dx, place[1] + dy)
                    cell = number.get(target, number[place])
                    world.go(state, action, {heaven * len(places) + cell: 1.0}, 0.0)
                seen = len(places) - 1 + heaven if place == priest else number[place]
                world.see(action, state, {seen: 1.0})
    return world


def plan(n: int, heaven: int) -> list[int]:
    """To the priest, back to the fork, to heaven, and one more action there: a shortest way to a sure reward."""
    sideways = WEST if heaven == LEFT else EAST
    return [SOUTH] + [EAST] * n + [WEST] * n + [NORTH] * (n + 1) + [sideways] * n + [NORTH]
