"""Mazes: the one of the paper, drawings of your own, and random ones."""

from __future__ import annotations

from collections import deque

import numpy as np
from jaxtyping import Bool

START: tuple[int, int] = (1, 1)  # where both robots begin

# The maze that the authors' generator makes from seed 5, which all their runs use.
PAPER_MAZE = """
#############
#.#.....#...#
#.###.###.###
#...#.......#
###.#####.#.#
#.........#.#
#.#######.#.#
#.......#.#.#
#####.#.#####
#.....#.....#
#.#####.###.#
#.#.......#.#
#############
"""


def parse_maze(drawing: str) -> Bool[np.ndarray, "H W"]:
    """The walls of a drawing: one line per row, `#` a wall and `.` a floor; blank lines around it are ignored.

    Raises:
        ValueError: if the drawing is not a closed maze with a connected floor; says where and why.
    """
    lines = [line.strip() for line in drawing.strip().splitlines()]
    if len(lines) < 3 or len(lines[0]) < 3:
        raise ValueError("maze: at least 3 rows and 3 columns are needed, a floor inside closed walls")
    for row, line in enumerate(lines):
        if len(line) != len(lines[0]):
            raise ValueError(
                f"maze: row {row} has {len(line)} cells, row 0 has {len(lines[0])}; make all rows equally long"
            )
        for column, mark in enumerate(line):
            if mark not in "#.":
                raise ValueError(f"maze: {mark!r} at row {row}, column {column}; use '#' for wall and '.' for floor")
    walls = np.array([[mark == "#" for mark in line] for line in lines])
    _check_walls(walls)
    return walls


def _check_walls(walls: Bool[np.ndarray, "H W"]) -> None:
    border = np.ones_like(walls)
    border[1:-1, 1:-1] = False
    if (border & ~walls).any():
        row, column = np.argwhere(border & ~walls)[0]
        raise ValueError(f"maze: row {row}, column {column} is an opening in the outer wall; close it with '#'")
    if walls[START]:
        raise ValueError("maze: row 1, column 1 is a wall, but both robots start there; make it a floor '.'")
    lost = ~walls & ~_reachable(walls)
    if lost.any():
        row, column = np.argwhere(lost)[0]
        raise ValueError(f"maze: the floor at row {row}, column {column} cannot be reached from row 1, column 1")


def _reachable(walls: Bool[np.ndarray, "H W"]) -> Bool[np.ndarray, "H W"]:
    reached = np.zeros_like(walls)
    reached[START] = True
    queue = deque([START])
    while queue:
        row, column = queue.popleft()
        for cell in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if not walls[cell] and not reached[cell]:
                reached[cell] = True
                queue.append(cell)
    return reached


def random_maze(seed: int, height: int = 13, width: int = 13) -> Bool[np.ndarray, "H W"]:
    """A maze whose floor is a random tree, by Kruskal's algorithm. Height and width are odd."""
    if height < 3 or width < 3 or height % 2 == 0 or width % 2 == 0:
        raise ValueError(f"maze: size {height}x{width}; height and width must be odd and at least 3, e.g. 13x13")
    if seed < 0:
        raise ValueError(f"maze: seed {seed}; a seed must not be negative")
    rows, columns = height // 2, width // 2
    walls = np.ones((height, width), bool)
    walls[1::2, 1::2] = False
    tree = np.arange(rows * columns).reshape(rows, columns)
    doors = [((i, j), (i + 1, j)) for i in range(rows - 1) for j in range(columns)]
    doors += [((i, j), (i, j + 1)) for i in range(rows) for j in range(columns - 1)]
    for k in np.random.default_rng(seed).permutation(len(doors)):
        here, there = doors[k]
        if tree[here] != tree[there]:
            tree[tree == tree[there]] = tree[here]
            walls[here[0] + there[0] + 1, here[1] + there[1] + 1] = False
    return walls
