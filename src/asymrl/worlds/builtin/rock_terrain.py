"""The terrain of RockSample: the grid, where rocks are in the published sizes, and how good the sensor is."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int

NORTH, EAST, SOUTH, WEST, SAMPLE, CHECK = range(6)  # and CHECK + i for the other rocks
HALF_EFFICIENCY = 20.0  # the distance at which the sensor is half as good
MOST_ROCKS = 32  # the bits of the random number that decides which are good
LONGEST_SIDE = 100

# Rocks (x, y) of the published sizes: those of the files that came with HSVI, and 11-11 of the later literature.
LAYOUTS = {
    (4, 4): ((3, 1), (2, 1), (1, 3), (1, 0)),
    (5, 5): ((2, 4), (0, 4), (3, 3), (2, 2), (4, 1)),
    (5, 7): ((1, 0), (2, 1), (1, 2), (2, 2), (4, 2), (0, 3), (3, 4)),
    (7, 8): ((2, 0), (0, 1), (3, 1), (6, 3), (2, 4), (3, 4), (5, 5), (1, 6)),
    (10, 10): ((0, 3), (0, 7), (1, 8), (3, 3), (3, 8), (4, 3), (5, 8), (6, 1), (9, 3), (9, 9)),
    (11, 11): ((0, 3), (0, 7), (1, 8), (2, 4), (3, 3), (3, 8), (4, 3), (5, 8), (6, 1), (9, 3), (9, 9)),
}
# The smallest published problems have weaker sensors: exp(-d) in 4-4.
WEAKER_SENSORS = {(4, 4): math.log(2), (5, 5): 4.0}


class Terrain(NamedTuple):
    """The part of RockSample that never changes: an n x n grid, its rocks, and the sensor."""

    n: int
    rocks: tuple[tuple[int, int], ...]
    half_efficiency: float

    @property
    def name(self) -> str:
        return f"rock-sample-{self.n}-{len(self.rocks)}"

    @property
    def start(self) -> int:
        """The cell, `x * n + y`, in the middle of the west side."""
        return self.n // 2

    @property
    def cells(self) -> int:
        return self.n**2

    @property
    def action_names(self) -> tuple[str, ...]:
        return "north", "east", "south", "west", "sample", *(f"check-{i + 1}" for i in range(len(self.rocks)))

    def observation_names(self, position: bool) -> tuple[str, ...]:
        """`none`, `good` and `bad`, for each cell if the position is observed."""
        readings = ("none", "good", "bad")
        places = [divmod(cell, self.n) for cell in range(self.cells)]
        return tuple(f"{x}_{y}_{word}" for x, y in places for word in readings) if position else readings

    def moves(self) -> Int[np.ndarray, "cells 4"]:
        """The cell that each move leads to; a move off the grid stays, even in the east, where the episode ends."""
        x, y = np.divmod(np.arange(self.cells), self.n)
        steps = ((0, 1), (1, 0), (0, -1), (-1, 0))
        reached = [(np.clip(x + dx, 0, self.n - 1), np.clip(y + dy, 0, self.n - 1)) for dx, dy in steps]
        return np.stack([x * self.n + y for x, y in reached], 1)

    def accuracy(self) -> Float64[np.ndarray, "cells rocks"]:
        """The probability that the sensor is right: (1 + 2^(-d / d0)) / 2 at the distance d from a rock."""
        places = np.stack(np.divmod(np.arange(self.cells), self.n), 1)
        distance = np.linalg.norm(places[:, None] - np.array(self.rocks)[None], axis=-1)
        return (1 + 2 ** (-distance / self.half_efficiency)) / 2

    def rock_at(self) -> Int[np.ndarray, "cells"]:
        """Which rock lies in each cell; -1 for none."""
        there = np.full(self.cells, -1)
        for i, (x, y) in enumerate(self.rocks):
            there[x * self.n + y] = i
        return there


def terrain_of(n: int, k: int, layout_seed: int | None = None, half_efficiency: float | int | None = None) -> Terrain:
    """The published terrain of this size or, with a seed or in other sizes, one with rocks in random cells."""
    name, most = f"rock-sample-{n}-{k}", min(n**2, MOST_ROCKS)
    if not 2 <= n <= LONGEST_SIDE:
        raise ValueError(f"{name}: the grid needs 2 to {LONGEST_SIDE} cells on each side; try rock-sample-4-4")
    if not 1 <= k <= most:
        raise ValueError(f"{name}: {k} rocks on {n} x {n} cells, expected 1 to {most}; try rock-sample-{n}-{n}")
    if layout_seed is not None and layout_seed < 0:
        raise ValueError(f"{name}: layout_seed {layout_seed}; a seed must not be negative")
    if half_efficiency is not None and not 0 < half_efficiency < math.inf:
        raise ValueError(f"{name}: half_efficiency is {half_efficiency}, expected a distance above 0")
    sensor = WEAKER_SENSORS.get((n, k), HALF_EFFICIENCY) if half_efficiency is None else float(half_efficiency)
    if layout_seed is None and (n, k) in LAYOUTS:
        return Terrain(n, LAYOUTS[n, k], sensor)
    drawn = np.random.default_rng(layout_seed or 0).choice(n**2, k, replace=False)
    return Terrain(n, tuple((int(cell) // n, int(cell) % n) for cell in drawn), sensor)
