"""Cleaner, with the dirt as a set of cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Cell = tuple[int, int]

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # up, down, left, right
WALL, CLEAN, DIRTY, MATE, SELF = (0, 0, 0), (1, 1, 1), (0, 1, 0), (0, 0, 1), (1, 0, 0)

# Walls '#' and floor '.' of the paper's maze, copied from the description.
PAPER_MAZE = (
    "#############",
    "#.#.....#...#",
    "#.###.###.###",
    "#...#.......#",
    "###.#####.#.#",
    "#.........#.#",
    "#.#######.#.#",
    "#.......#.#.#",
    "#####.#.#####",
    "#.....#.....#",
    "#.#####.###.#",
    "#.#.......#.#",
    "#############",
)


@dataclass(frozen=True)
class Cleaning:
    """The cells that are still dirty and where the two robots are."""

    dirty: frozenset[Cell]
    robots: tuple[Cell, Cell]


@dataclass(frozen=True)
class Maze:
    rows: tuple[str, ...]

    def floor(self) -> list[Cell]:
        return [(r, c) for r, row in enumerate(self.rows) for c, mark in enumerate(row) if mark == "."]

    def start(self) -> Cleaning:
        return Cleaning(frozenset(self.floor()), ((1, 1), (1, 1)))

    def step(self, state: Cleaning, action: int) -> tuple[Cleaning, float]:
        """The next state and the reward; robot 0 moves and cleans before robot 1."""
        dirty, robots, reward = set(state.dirty), list(state.robots), 0.0
        for robot, move in enumerate(divmod(action, 4)):
            row, column = robots[robot]
            target = (row + MOVES[move][0], column + MOVES[move][1])
            if self.rows[target[0]][target[1]] != "#":
                robots[robot] = target
            if robots[robot] in dirty:
                dirty.remove(robots[robot])
                reward += 1.0
        return Cleaning(frozenset(dirty), (robots[0], robots[1])), reward

    def latent(self, state: Cleaning) -> np.ndarray:
        """Channels clean, wall, dirty, robot 0, robot 1 of each cell, flattened row by row."""
        numbers = []
        for r, row in enumerate(self.rows):
            for c, mark in enumerate(row):
                wall, dirty = mark == "#", (r, c) in state.dirty
                numbers += [not wall and not dirty, wall, dirty, state.robots[0] == (r, c), state.robots[1] == (r, c)]
        return np.array(numbers, np.float32)

    def observe(self, state: Cleaning) -> np.ndarray:
        """The 3 x 3 colours around robot 0, then those around robot 1, flattened."""
        numbers: list[int] = []
        for me, mate in (state.robots, state.robots[::-1]):
            for row in range(me[0] - 1, me[0] + 2):
                for column in range(me[1] - 1, me[1] + 2):
                    numbers += self._colour((row, column), me, mate, state.dirty)
        return np.array(numbers, np.float32)

    def _colour(self, cell: Cell, me: Cell, mate: Cell, dirty: frozenset[Cell]) -> tuple[int, int, int]:
        if cell == me:
            return SELF
        if cell == mate:
            return MATE
        if self.rows[cell[0]][cell[1]] == "#":
            return WALL
        return DIRTY if cell in dirty else CLEAN


def tour(maze: Maze, *, backwards: bool) -> list[int]:
    """The moves of a walk through the whole tree of corridors from (1, 1) and back, in one of two opposite orders."""
    floor, seen, moves = set(maze.floor()), {(1, 1)}, []

    def visit(cell: Cell) -> None:
        for move in range(3, -1, -1) if backwards else range(4):
            target = (cell[0] + MOVES[move][0], cell[1] + MOVES[move][1])
            if target in floor and target not in seen:
                seen.add(target)
                moves.append(move)
                visit(target)
                moves.append(move ^ 1)  # up and down, left and right are neighbours in the order of moves

    visit((1, 1))
    return moves
