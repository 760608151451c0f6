"""Cleaner: two robots, controlled together, clean a maze; each sees only its surroundings."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.worlds.spaces import Box
from asymrl.worlds.world import DEFAULT_TIME_LIMIT, Action, Step, World

# Channels of the latent, in the authors' order.
CLEAN, WALL, DIRTY, ROBOT_0, ROBOT_1 = range(5)
UP, DOWN, LEFT, RIGHT = range(4)
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])
AROUND = np.array([[row, column] for row in (-1, 0, 1) for column in (-1, 0, 1)])
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


class CleanerState(NamedTuple):
    """Which cells are dirty, and the cell of each robot."""

    dirty: Bool[Array, "cells"]
    robots: Int[Array, "2"]  # row * W + column


class Cleaner(World):
    """Cleaner (paper, appendix "Cleaner").

    The joint action is `4 * move of robot 0 + move of robot 1`, a move being up, down, left or right. Robot 0
    moves first; a robot that hits a wall stays; a robot cleans the dirty cell it ends up on for a reward of 1.
    Robots may share a cell. The latent is the maze in five binary channels, flattened; each robot sees the 3 x 3
    cells around it in three channels: wall 000, clean 111, dirty 010, the other robot 001, itself 100.
    An episode continues when everything is clean, as in the authors' runs, unless `end_when_clean`.
    """

    walls: Bool[np.ndarray, "H W"]
    end_when_clean: bool = eqx.field(static=True)
    name: str = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    time_limit: int | None = eqx.field(static=True)

    def __init__(
        self,
        maze: str | None = None,
        *,
        maze_seed: int | None = None,
        height: int = 13,
        width: int = 13,
        end_when_clean: bool = False,
        discount: float = 0.99,
        time_limit: int | None = DEFAULT_TIME_LIMIT,
    ):
        """The maze comes from a drawing, or from a seed and a size; by default it is the paper's maze."""
        if maze is not None and maze_seed is not None:
            raise ValueError("cleaner: pass a drawing (maze) or a maze_seed, not both")
        if maze_seed is None:
            if (height, width) != (13, 13):
                raise ValueError("cleaner: height and width belong to a random maze; pass maze_seed too")
            self.walls = parse_maze(PAPER_MAZE if maze is None else maze)
        else:
            self.walls = random_maze(maze_seed, height, width)
        self.end_when_clean = end_when_clean
        self.name = "cleaner"
        self.discount = discount
        self.time_limit = time_limit

    @property
    def action_names(self) -> tuple[str, ...]:
        moves = ("up", "down", "left", "right")
        return tuple(f"{first}+{second}" for first in moves for second in moves)

    @property
    def observation_space(self) -> Box:
        return Box((54,), 0.0, 1.0)

    @property
    def latent_space(self) -> Box:
        return Box((self.walls.size * 5,), 0.0, 1.0)

    def reset(self, key: PRNGKeyArray) -> CleanerState:
        start = START[0] * self.walls.shape[1] + START[1]
        return CleanerState(~jnp.asarray(self.walls).ravel(), jnp.full(2, start, jnp.int32))

    def step(self, key: PRNGKeyArray, state: CleanerState, action: Action) -> Step:
        walls = jnp.asarray(self.walls).ravel()
        offsets = jnp.asarray(MOVES @ np.array([self.walls.shape[1], 1]), jnp.int32)
        targets = state.robots + offsets[jnp.stack([action // 4, action % 4])]
        robots = jnp.where(walls[targets], state.robots, targets)
        # With thousands of episodes, comparing all cells is faster than scattering.
        cleaned = jnp.any(jnp.arange(walls.size)[None, :] == robots[:, None], axis=0)
        dirty = state.dirty & ~cleaned
        # If both robots end up on the same dirty cell, only one of them cleans it.
        on_dirt = state.dirty[robots]
        shared = (robots[0] == robots[1]) & on_dirt[0]
        reward = jnp.sum(on_dirt, dtype=jnp.float32) - shared
        terminated = ~jnp.any(dirty) if self.end_when_clean else jnp.bool_(False)
        return Step(CleanerState(dirty, robots), reward, terminated)

    def first_observation(self, key: PRNGKeyArray, state: CleanerState) -> Float[Array, "54"]:
        return jnp.concatenate([self._view(state, 0), self._view(state, 1)])

    def observe(
        self, key: PRNGKeyArray, state: CleanerState, action: Action, next_state: CleanerState
    ) -> Float[Array, "54"]:
        return self.first_observation(key, next_state)

    def _view(self, state: CleanerState, robot: int) -> Float[Array, "27"]:
        """The 3 x 3 x 3 surroundings of a robot, flattened."""
        W = self.walls.shape[1]
        cells = state.robots[robot] + jnp.asarray(AROUND @ np.array([W, 1]), jnp.int32)
        wall = jnp.asarray(self.walls).ravel()[cells]
        dirty = state.dirty[cells]
        other = cells == state.robots[1 - robot]
        itself = jnp.arange(9) == 4
        floor = ~wall & ~other & ~itself
        clean = floor & ~dirty
        # Red, green, blue: itself 100, the other robot 001, dirty 010, clean 111, wall 000.
        channels = [clean | itself, floor, clean | (other & ~itself)]
        return jnp.stack(channels, axis=1).astype(jnp.float32).ravel()

    def latent(self, state: CleanerState) -> Float[Array, "latent"]:
        wall = jnp.asarray(self.walls).ravel()
        # Comparisons, since a stack along the last axis is many times slower.
        cell, channel = jnp.arange(wall.size)[:, None], jnp.arange(5)[None]
        kind = jnp.where(wall, WALL, jnp.where(state.dirty, DIRTY, CLEAN))[:, None]
        robot = state.robots[jnp.maximum(channel - ROBOT_0, 0)]
        return jnp.where(channel < ROBOT_0, kind == channel, cell == robot).astype(jnp.float32).ravel()

    def from_latent(self, latent: Float[Array, "latent"]) -> CleanerState:
        channels = jnp.asarray(latent).reshape(-1, 5) > 0.5
        robots = jnp.argmax(channels[:, ROBOT_0:], axis=0)
        return CleanerState(channels[:, DIRTY], robots.astype(jnp.int32))

    def latent_problem(self, latent: Any) -> str | None:
        if problem := super().latent_problem(latent):
            return problem
        channels = np.asarray(latent).reshape(*self.walls.shape, 5)
        if not np.isin(channels, (0, 1)).all():
            return "holds a value other than 0 and 1"
        if (channels[..., WALL] != self.walls).any():
            row, column = np.argwhere(channels[..., WALL] != self.walls)[0]
            return f"has other walls than this maze, first at row {row}, column {column}"
        if (channels[..., : DIRTY + 1].sum(-1) != 1).any():
            row, column = np.argwhere(channels[..., : DIRTY + 1].sum(-1) != 1)[0]
            return f"must say exactly one of clean, wall, dirty at row {row}, column {column}"
        for robot in (ROBOT_0, ROBOT_1):
            places = channels[..., robot] == 1
            if places.sum() != 1 or self.walls[places].any():
                return f"must place robot {robot - ROBOT_0} on exactly one floor cell"
        return None


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
