"""Cleaner: two robots, controlled together, clean a maze; each sees only its surroundings."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.worlds.builtin.mazes import PAPER_MAZE, START, parse_maze, random_maze
from asymrl.worlds.deterministic import ScalarRules, Scalars, is_unchanged, scalar_rules
from asymrl.worlds.spaces import Box
from asymrl.worlds.world import DEFAULT_TIME_LIMIT, Action, Step, World

# Channels of the latent, in the authors' order.
CLEAN, WALL, DIRTY, ROBOT_0, ROBOT_1 = range(5)
UP, DOWN, LEFT, RIGHT = range(4)
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])
AROUND = np.array([[row, column] for row in (-1, 0, 1) for column in (-1, 0, 1)])


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


BITS = 32  # floor cells that one number holds
FLOOR, DUST, NO_FLOOR, OTHER, ITSELF = range(5)  # what may be in a cell of a view
COLOURS = np.array([[1, 1, 1], [0, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]], np.float32)


@scalar_rules.register
def rules_of_cleaner(world: Cleaner) -> ScalarRules | None:
    """A few numbers hold a bit for each floor cell, 1 if it is dirty; two more are the cells of the robots."""
    if not is_unchanged(world, Cleaner, "step", "observe", "first_observation", "_view") or world.end_when_clean:
        return None
    if not isinstance(world.walls, np.ndarray):
        return None  # the world is an argument of a compiled function, as in playback, so its maze is not known
    walls, W = np.asarray(world.walls).ravel(), world.walls.shape[1]
    cells = np.flatnonzero(~walls)
    floor = np.full(walls.size, -1, np.int32)
    floor[cells] = np.arange(cells.size)
    offsets = MOVES @ np.array([W, 1])
    after = np.arange(walls.size)[:, None] + np.where(walls[:, None], 0, offsets)
    after = np.where(walls[np.clip(after, 0, walls.size - 1)], np.arange(walls.size)[:, None], after)
    count = -(-cells.size // BITS)

    def bit(words: Scalars, index: Any) -> Any:
        """The bit of a floor cell; arbitrary for a wall."""
        word = words[0]
        for i in range(1, count):
            word = jnp.where(index >> 5 == i, words[i], word)
        return (word >> (index & 31)) & 1

    def cleaned(words: Scalars, index: Any) -> Scalars:
        mask = ~(jnp.int32(1) << (index & 31))
        return tuple(jnp.where(index >> 5 == i, word & mask, word) for i, word in enumerate(words))

    def step(tables: tuple[Any, ...], numbers: Scalars, action: Any) -> tuple[Scalars, Any, Any]:
        floor, after = tables
        *words, first, second = numbers
        first, second = after[first * 4 + (action >> 2)], after[second * 4 + (action & 3)]
        of_first = bit(tuple(words), floor[first])
        words = cleaned(tuple(words), floor[first])
        of_second = bit(words, floor[second])
        reward = (of_first + of_second).astype(jnp.float32)
        return (*cleaned(words, floor[second]), first, second), reward, first < 0

    def sight(tables: tuple[Any, ...], numbers: Scalars) -> list[tuple[Any, float]]:
        floor, _ = tables
        *words, first, second = numbers
        rows = []
        for robot, (own, other) in enumerate([(first, second), (second, first)]):
            for place, offset in enumerate(AROUND @ np.array([W, 1])):
                cell = own + int(offset)
                index = floor[cell]
                # The bit is FLOOR or DUST.
                kind = jnp.where(index < 0, NO_FLOOR, bit(tuple(words), index))
                kind = jnp.where(cell == other, OTHER, kind) if place != 4 else ITSELF
                rows.append(((robot * 9 + place) * len(COLOURS) + kind, 1.0))
        return rows

    def numbers(state: CleanerState) -> Scalars:
        dirty = jnp.pad(state.dirty[cells], (0, count * BITS - cells.size)).astype(jnp.uint32).reshape(count, BITS)
        words = jnp.sum(dirty << jnp.arange(BITS, dtype=jnp.uint32)[None], axis=1, dtype=jnp.uint32)
        words = jax.lax.bitcast_convert_type(words, jnp.int32)
        return (*(words[i] for i in range(count)), state.robots[0], state.robots[1])

    def state(numbers: Scalars) -> CleanerState:
        *words, first, second = numbers
        dirty = jnp.stack([(word >> jnp.arange(BITS)) & 1 for word in words]).reshape(-1)[floor] > 0
        return CleanerState(dirty & ~jnp.asarray(walls), jnp.stack([first, second]))

    basis = np.zeros((2 * 9, len(COLOURS), 2 * 9, 3), np.float32)
    for place in range(2 * 9):
        basis[place, :, place] = COLOURS
    return ScalarRules((floor, after.astype(np.int32).ravel()), numbers, state, step, sight, basis.reshape(-1, 54))
