"""Worlds in which nothing is random after the start: an episode is a walk on a table, or a little arithmetic.

A kernel can play such episodes whole. The table, or the rules, are registered for the class of the world:

    @deterministic_table.register
    def _(world: MyWorld) -> DeterministicTable | None: ...

    @scalar_rules.register
    def _(world: MyWorld) -> ScalarRules | None: ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asymrl.worlds.builtin.car_flag import CarFlag, drive, shown_side
from asymrl.worlds.builtin.cleaner import AROUND, MOVES, Cleaner, CleanerState
from asymrl.worlds.builtin.memory_rooms import MemoryFourRooms, RoomsState
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.world import is_unchanged

BITS = 32  # floor cells that one number holds
FLOOR, DUST, NO_FLOOR, OTHER, ITSELF = range(5)  # what may be in a cell of a view of the cleaner
COLOURS = np.array([[1, 1, 1], [0, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]], np.float32)


class TransitionTable(NamedTuple):
    """The outcome of every action in every place, row `place * actions + action`."""

    place: Int[Array | np.ndarray, "rows"]
    sight: Int[Array | np.ndarray, "rows"]  # index of the observation
    reward: Float[Array | np.ndarray, "rows"]
    ended: Int[Array | np.ndarray, "rows"]  # 1 if the episode ends, else 0


class DeterministicTable(NamedTuple):
    """The episode that starts in a state, as a walk on a table. Places and sights are indices."""

    table: Callable[[Any], TransitionTable]
    """The table, given the first state."""
    sights: Callable[[Any], Any]
    """All possible observations, `[sight, ...]`, given the first state."""
    first: Callable[[Any, Any], tuple[Any, Any]]
    """Place and sight of the first state and observation."""
    at: Callable[[Any, Any], Any]
    """The state in a place, given the first state and the place."""
    shared: bool
    """Whether all episodes have the same table and the same sights; the first state is then ignored."""


@functools.singledispatch
def deterministic_table(world: Any) -> DeterministicTable | None:
    """The episodes of a world as walks on a table, if nothing after the start is random and its class says so."""
    del world
    return None


Scalars = tuple[Any, ...]


class ScalarRules(NamedTuple):
    """An episode as arithmetic on a few numbers, written for one episode, with scalars and look-ups only.

    The functions get `tables` as their first argument, which they index with one scalar at a time: in a kernel these
    are references to memory.
    """

    tables: tuple[Array | np.ndarray, ...]
    """One-dimensional arrays that the functions look things up in."""
    numbers: Callable[[Any], Scalars]
    """The numbers that describe a state."""
    state: Callable[[Scalars], Any]
    """The state that numbers describe."""
    step: Callable[[tuple[Any, ...], Scalars, Any], tuple[Scalars, Any, Any]]
    """The numbers after an action, the reward, and whether the episode ends."""
    sight: Callable[[tuple[Any, ...], Scalars], Sequence[tuple[Any, Any]]]
    """The observation: rows of `basis` and their weights, to be added up."""
    basis: Float[Array | np.ndarray, "rows size"]
    """Every observation is a weighted sum of these vectors."""

    def observation(self, numbers: Scalars) -> Float[Array, "size"]:
        """The observation as a vector."""
        tables = tuple(map(jnp.asarray, self.tables))
        terms = [weight * jnp.asarray(self.basis)[row] for row, weight in self.sight(tables, numbers)]
        return functools.reduce(jnp.add, terms)


@functools.singledispatch
def scalar_rules(world: Any) -> ScalarRules | None:
    """The episodes of a world as arithmetic on a few numbers, if its class says so."""
    del world
    return None


@deterministic_table.register
def table_of_finite_world(world: FiniteWorld) -> DeterministicTable | None:
    """The tables of a world in which nothing is random after the start, unless a subclass has its own steps."""
    is_table = is_unchanged(world, FiniteWorld, "step", "observe", "advance", "_advance")
    if not (is_table and world.sure):
        return None
    S, A = world.ends.shape
    # With jnp, since a world may be an argument of a compiled function.
    ends, next_state = jnp.asarray(world.ends), jnp.asarray(world.transitions.column).reshape(S, A)
    observation_row = jnp.arange(A)[None] * (S + 1) + jnp.where(ends, S, next_state)
    # After an end any of the observations will do: nobody acts on it.
    entry = jnp.asarray(world.observations.first)[observation_row]
    observation, rewards = jnp.asarray(world.observations.column)[entry], jnp.asarray(world.rewards, jnp.float32)
    table = TransitionTable(next_state.ravel(), observation.ravel(), rewards.ravel(), ends.ravel().astype(jnp.int32))
    return DeterministicTable(
        table=lambda _: table,
        sights=lambda _: jnp.arange(world.observation_space.n),
        first=lambda state, observation: (state, observation),
        at=lambda _, place: place,
        shared=True,
    )


@deterministic_table.register
def table_of_rooms(world: MemoryFourRooms) -> DeterministicTable | None:
    """Within an episode only the agent moves: a place is its cell and heading, which determine what it sees."""
    names = ("step", "observe", "first_observation", "advance", "_advance")
    if not is_unchanged(world, MemoryFourRooms, *names):
        return None
    W, places = world.width, jnp.arange(world.height * world.width * 4)

    def at(start: RoomsState, place: Int[Array, ""]) -> RoomsState:
        cell = place // 4
        return start._replace(position=jnp.stack([cell // W, cell % W]), heading=place % 4)

    def place_of(state: RoomsState) -> Int[Array, ""]:
        return (state.position[0] * W + state.position[1]) * 4 + state.heading

    def table(start: RoomsState) -> TransitionTable:
        def row(place: Int[Array, ""], action: Int[Array, ""]) -> TransitionTable:
            after = world.step(no_chance, at(start, place), action)
            place = place_of(after.state)
            return TransitionTable(place, place, after.reward, after.terminated.astype(jnp.int32))

        rows = jax.vmap(jax.vmap(row, (None, 0)), (0, None))(places, jnp.arange(world.actions))
        return TransitionTable(*(entries.ravel() for entries in rows))

    no_chance = jax.random.key(0)
    return DeterministicTable(
        table=table,
        sights=lambda start: jax.vmap(lambda place: world.first_observation(no_chance, at(start, place)))(places),
        first=lambda state, _: (place_of(state), place_of(state)),
        at=at,
        shared=False,
    )


@scalar_rules.register
def rules_of_car_flag(world: CarFlag) -> ScalarRules | None:
    """Position, velocity and side make up the state, and the observation has an entry for each."""
    if not is_unchanged(world, CarFlag, "step", "observe", "first_observation"):
        return None

    def step(tables: tuple[()], numbers: Scalars, action: Any) -> tuple[Scalars, Any, Any]:
        position, velocity, side = numbers
        return drive(position, velocity, side, action)

    def sight(tables: tuple[()], numbers: Scalars) -> list[tuple[int, Array]]:
        position, velocity, side = numbers
        return [(0, position), (1, velocity), (2, shown_side(position, side))]

    return ScalarRules(
        tables=(),
        numbers=lambda state: (state[0], state[1], state[2]),
        state=lambda numbers: jnp.stack(numbers),
        step=step,
        sight=sight,
        basis=np.eye(3, dtype=np.float32),
    )


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
