"""Rules and tables are the world: the same states, rewards, ends and observations along random episodes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.kernels.world_rules import deterministic_table, scalar_rules
from asymrl.worlds import CarFlag, FiniteWorld, HeavenHell, MemoryFourRooms, World, make
from asymrl.worlds.builtin.cleaner import Cleaner

STEPS, EPISODES = 60, 8


@pytest.mark.parametrize(
    "world", [make("car-flag"), make("cleaner"), Cleaner(maze_seed=3, height=5, width=9)], ids=["car", "paper", "small"]
)
def test_rules_are_the_world(world: World):
    rules = scalar_rules(world)
    assert rules is not None
    tables = tuple(map(jnp.asarray, rules.tables))

    def episode(key: jax.Array, actions: jax.Array) -> object:
        def step(now: tuple, action: jax.Array) -> tuple:
            state, numbers = now
            after = world.step(key, state, action)
            numbers, reward, ended = rules.step(tables, numbers, action)
            seen = world.observe(key, state, action, after.state)
            by_world = (after.state, after.reward, after.terminated, seen)
            by_rules = (rules.state(numbers), reward, ended, rules.observation(numbers))
            return (after.state, numbers), (by_world, by_rules)

        start = world.reset(key)
        first = world.first_observation(key, start), rules.observation(rules.numbers(start))
        return first, jax.lax.scan(step, (start, rules.numbers(start)), actions)[1]

    actions = np.random.default_rng(0).integers(len(world.action_names), size=(EPISODES, STEPS)).astype(np.int32)
    # Long drives in one direction, which reach flags and walls.
    actions[: EPISODES // 2] = actions[: EPISODES // 2, :1]
    first, (by_world, by_rules) = jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(1), EPISODES), actions)
    np.testing.assert_allclose(*first, rtol=0, atol=1e-6)
    for one, other in zip(jax.tree.leaves(by_world), jax.tree.leaves(by_rules), strict=True):
        np.testing.assert_allclose(np.float32(one), np.float32(other), rtol=0, atol=1e-6)
    assert np.abs(by_world[1]).max() >= 1  # somebody reached a flag, or cleaned a cell


def test_who_has_no_rules():
    class Slower(CarFlag):
        def step(self, key: object, state: object, action: object) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
            return super().step(key, state, action)  # pyright: ignore[reportArgumentType]

    for world in (Slower(), Cleaner(end_when_clean=True), make("tiger")):
        assert scalar_rules(world) is None


def check_table(world: World) -> None:
    """Takes random actions in the world and on its table."""
    table = deterministic_table(world)
    assert table is not None

    def episode(key: jax.Array, actions: jax.Array) -> object:
        start = world.reset(key)
        columns, sights = tuple(map(jnp.asarray, table.table(start))), table.sights(start)

        def seen(sight: jax.Array) -> object:
            return jax.tree.map(lambda leaf: leaf[sight], sights)

        def step(now: tuple, action: jax.Array) -> tuple:
            state, place, alive = now
            after = world.step(key, state, action)
            place, sight, reward, ended = (column[place * len(world.action_names) + action] for column in columns)
            goes_on = alive & ~after.terminated
            by_world = (after.state, after.reward, after.terminated)
            by_table = (table.at(start, place), reward, ended > 0)
            # The observation after an end belongs to the next episode, and may be random.
            observations = world.observe(key, state, action, after.state), seen(sight)
            return (after.state, place, goes_on), ((by_world, by_table, alive), (*observations, goes_on))

        first = world.first_observation(key, start)
        place, sight = table.first(start, first)
        return (first, seen(sight)), jax.lax.scan(step, (start, jnp.int32(place), True), actions)[1]

    actions = np.random.default_rng(0).integers(len(world.action_names), size=(EPISODES, STEPS)).astype(np.int32)
    first, compared = jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(1), EPISODES), actions)
    jax.tree.map(np.testing.assert_array_equal, *first)
    for by_world, by_table, matters in compared:
        assert matters.any()
        jax.tree.map(lambda one, other: np.testing.assert_array_equal(one[matters], other[matters]), by_world, by_table)  # noqa: B023


@pytest.mark.parametrize("name", ["heaven-hell-1", "memory-four-rooms-5x5", "t-maze-2"])
def test_tables_are_the_world(name: str):
    check_table(make(name))


class Foggy(MemoryFourRooms):
    """Rooms in which nothing is seen but the first time."""

    def __init__(self):
        super().__init__(7)

    def observe(self, key, state, action, next_state):
        return jax.tree.map(jnp.zeros_like, super().observe(key, state, action, next_state))


class Patient(HeavenHell):
    """A corridor without an end."""

    def __init__(self):
        super().__init__(1)

    def step(self, key, state, action):
        return super().step(key, state, action)._replace(terminated=jnp.bool_(False))


def test_chance_at_the_start_and_after_the_end_is_no_hindrance():
    """Two rooms that look different, of which only one is left: the next episode may begin in either."""
    T = np.zeros((2, 2, 2))
    T[0, :, 0], T[1, 0, 0], T[1, 1, 1] = 1.0, 1.0, 1.0
    D = np.array([[True, False], [False, False]])
    O, R = np.tile(np.eye(2), (2, 1, 1)), np.where(D, 1.0, -0.1)
    T[D] = 0.5
    world = FiniteWorld.from_tables("two-rooms", T, O, R, np.full(2, 0.5), D, first_O=np.eye(2))
    check_table(world)
    noisy = FiniteWorld.from_tables("foggy-rooms", T, 0.9 * O + 0.05, R, np.full(2, 0.5), D, first_O=np.eye(2))
    assert deterministic_table(noisy) is None


def test_a_subclass_that_changes_the_steps_has_no_table():
    assert deterministic_table(MemoryFourRooms(7)) is not None
    assert deterministic_table(Foggy()) is None
    assert deterministic_table(HeavenHell(1)) is not None
    assert deterministic_table(Patient()) is None
