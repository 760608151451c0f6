"""The rules of a world are the world: the same states, rewards, ends and observations along random episodes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.worlds import CarFlag, World, make
from asymrl.worlds.builtin.cleaner import Cleaner
from asymrl.worlds.deterministic import scalar_rules

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
