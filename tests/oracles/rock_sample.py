"""RockSample, one state at a time: a place, and a set of good rocks."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tests.oracles.tables import Tables

NORTH, EAST, SOUTH, WEST, SAMPLE, CHECK = range(6)
DIRECTIONS = {NORTH: (0, 1), EAST: (1, 0), SOUTH: (0, -1), WEST: (-1, 0)}
NOTHING, GOOD, BAD = range(3)


def tables(n: int, rocks: tuple[tuple[int, int], ...], half_efficiency: float, position: bool = False) -> Tables:
    k = len(rocks)
    every = list(itertools.product(range(n), range(n), range(2**k)))
    number = {state: i for i, state in enumerate(every)}
    start = np.zeros(len(every))
    for good in range(2**k):
        start[number[0, n // 2, good]] = 1 / 2**k
    world = Tables(len(every), CHECK + k, 3 * n * n if position else 3, start)
    for (x, y, good), state in number.items():
        for action, (dx, dy) in DIRECTIONS.items():
            if x + dx == n:
                world.end(state, action, 10.0)
            else:
                world.go(state, action, {number.get((x + dx, y + dy, good), state): 1.0}, 0.0)
        if (x, y) in rocks:
            rock = 2 ** rocks.index((x, y))
            is_good = good & rock > 0
            world.go(state, SAMPLE, {number[x, y, good - rock if is_good else good]: 1.0}, 10.0 if is_good else -10.0)
        else:
            world.go(state, SAMPLE, {state: 1.0}, 0.0)
        here = 3 * (x * n + y) if position else 0
        for action in range(CHECK):
            world.see(action, state, {here + NOTHING: 1.0})
        for i, rock in enumerate(rocks):
            world.go(state, CHECK + i, {state: 1.0}, 0.0)
            efficiency = math.exp(-math.dist((x, y), rock) * math.log(2) / half_efficiency)
            truth, lie = (GOOD, BAD) if good >> i & 1 else (BAD, GOOD)
            seen = {here + truth: (1 + efficiency) / 2, here + lie: (1 - efficiency) / 2}
            world.see(CHECK + i, state, {o: p for o, p in seen.items() if p > 0})
    return world
