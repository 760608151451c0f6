"""RockSample: tables against its rules written a second time, and the simulation against the tables."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from asymrl.worlds import RockSample, SimulatedRockSample, World, make
from asymrl.worlds.builtin.rock_terrain import LAYOUTS, terrain_of
from tests.oracles import rock_sample
from tests.worlds.chance import assert_rate

STEPS, EPISODES = 60, 32


@pytest.mark.parametrize("name", ["rock-sample-2-1", "rock-sample-3-3:position=true", "rock-sample-4-4"])
def test_tables(name: str):
    env = make(name)
    assert isinstance(env, RockSample)
    terrain = env.terrain
    rules = rock_sample.tables(terrain.n, terrain.rocks, terrain.half_efficiency, env.position)
    for table in ("T", "R", "D"):
        np.testing.assert_array_equal(getattr(env, table), getattr(rules, table).astype(getattr(env, table).dtype))
    np.testing.assert_allclose(env.O, rules.O, atol=1e-7)
    np.testing.assert_array_equal(env.start, rules.start)
    assert env.first_observations is not None
    np.testing.assert_array_equal(env.first_observations.dense(), rules.O[0])


def test_the_sensor_is_as_published():
    # Right on the rock, right three times out of four at the distance of half efficiency, almost a coin far away.
    plain = terrain_of(21, 1, half_efficiency=20.0)._replace(rocks=((0, 0),))
    assert plain.accuracy()[[0, 20, 21 * 20], 0].tolist() == [1.0, 0.75, 0.75]
    assert terrain_of(7, 8).half_efficiency == 20
    assert terrain_of(5, 5).half_efficiency == 4
    four = terrain_of(4, 4)
    rock, cell = four.rocks[0], four.start
    distance = np.hypot(rock[0], rock[1] - cell)
    assert four.accuracy()[cell, 0] == pytest.approx((1 + np.exp(-distance)) / 2)


@pytest.mark.parametrize("size", LAYOUTS)
def test_published_rocks_lie_on_the_grid(size: tuple[int, int]):
    terrain = terrain_of(*size)
    assert (terrain.n, len(set(terrain.rocks))) == size
    assert all(0 <= x < terrain.n and 0 <= y < terrain.n for x, y in terrain.rocks)
    assert [i for i in terrain.rock_at() if i >= 0] == [terrain.rocks.index(rock) for rock in sorted(terrain.rocks)]


@given(n=st.integers(2, 12), share=st.floats(0, 1), seed=st.integers(0, 9))
def test_drawn_rocks_lie_in_different_cells_and_stay_there(n: int, share: float, seed: int):
    k = max(1, int(share * min(n**2, 32)))
    terrain = terrain_of(n, k, seed)
    assert len(set(terrain.rocks)) == k
    assert terrain == terrain_of(n, k, seed)
    if (n, k) not in LAYOUTS:
        assert (terrain == terrain_of(n, k)) == (seed == 0 or terrain.rocks == terrain_of(n, k).rocks)


def walk(env: World):
    """Compiled: episodes with random actions, and new ones where they end: states as indices, and what came of them."""
    k, A = len(env.terrain.rocks), len(env.action_names)  # pyright: ignore[reportAttributeAccessIssue]

    def index(state):
        if isinstance(env, RockSample):
            return state
        return state.cell * 2**k + jnp.sum(state.good * 2 ** jnp.arange(k))

    def one(key):
        begin_key, walk_key = jax.random.split(key)
        episode, first = env.begin(begin_key)

        def step(episode, key):
            action_key, step_key = jax.random.split(key)
            # Half of the actions go east or sample, so that walks reach rocks and the exit.
            action = jax.random.choice(
                action_key, jnp.arange(A), p=jnp.full(A, 0.5 / A).at[jnp.array([1, 4])].add(0.25)
            )
            following, seen, ended, came = env.advance_or_begin(step_key, episode, action)
            return following, (index(ended.state), index(following.state), seen, came)

        return first, jax.lax.scan(step, episode, jax.random.split(walk_key, STEPS))[1]

    return jax.jit(jax.vmap(one))


@pytest.mark.parametrize(("name", "position"), [("rock-sample-4-4", False), ("rock-sample-3-5", True)])
def test_the_simulation_does_what_the_tables_do(name: str, position: bool):
    tabled, simulated = (make(name, simulated=value, position=position) for value in (False, True))
    assert isinstance(tabled, RockSample)
    assert isinstance(simulated, SimulatedRockSample)
    assert (tabled.action_names, tabled.observation_space) == (simulated.action_names, simulated.observation_space)
    keys = jax.random.split(jax.random.key(0), EPISODES)
    one, other = jax.device_get(walk(tabled)(keys)), jax.device_get(walk(simulated)(keys))
    jax.tree.map(np.testing.assert_array_equal, one, other)
    came = one[1][-1]
    assert came.terminated.any()
    assert {-10.0, 0.0, 10.0} == set(came.reward.ravel().tolist())


def test_tables_end_where_they_would_be_too_large():
    assert isinstance(make("rock-sample-7-8"), RockSample)
    assert isinstance(make("rock-sample-8-9"), SimulatedRockSample)
    assert isinstance(make("rock-sample-11-11"), SimulatedRockSample)


@settings(max_examples=20)
@given(x=st.integers(0, 10), y=st.integers(0, 10), good=st.lists(st.booleans(), min_size=11, max_size=11))
def test_the_latent_of_the_simulation_is_its_state(x: int, y: int, good: list[bool]):
    env = make("rock-sample-11-11")
    latent = np.concatenate([np.eye(11)[x], np.eye(11)[y], good]).astype(np.float32)
    state = env.from_latent(jnp.asarray(latent))
    assert int(state.cell) == 11 * x + y
    assert state.good.tolist() == good
    np.testing.assert_array_equal(env.latent(state), latent)
    assert env.latent_problem(latent) is None


def test_impossible_latents_are_named():
    env = make("rock-sample-11-11")
    latent = np.array(env.latent(env.reset(jax.random.key(0))))
    for change, message in (
        (lambda v: v[:-1], "has shape"),
        (lambda v: np.where(np.arange(33) == 32, 0.5, v), "other than 0 and 1"),
        (lambda v: np.where(np.arange(33) < 11, 0, v), "exactly one column and one row"),
    ):
        assert message in str(env.latent_problem(change(latent).astype(np.float32)))


def test_every_rock_is_good_half_of_the_time():
    env = make("rock-sample-6-32")
    states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(1), 4000))
    for hits in np.asarray(states.good).sum(0):
        assert_rate(int(hits), 4000, 0.5)
    pairs = np.asarray(states.good[:, :-1] == states.good[:, 1:]).sum(0)
    for hits in pairs:
        assert_rate(int(hits), 4000, 0.5)


def test_signals():
    tabled, simulated = make("rock-sample-3-2"), make("rock-sample-3-2:simulated=true")
    told = {name: signal.of(jnp.array([2 * 4 + 1, 3 * 4 + 2])) for name, signal in tabled.signals().items()}
    assert told["rocks"].tolist() == [[1, 0], [0, 1]]
    assert told["position"].tolist() == [2, 3]
    latent = jnp.array([[0, 1, 0, 0, 0, 1, 1, 0.0]])
    told = {name: signal.of(latent) for name, signal in simulated.signals().items()}
    assert told["rocks"].tolist() == [[1, 0]]
    assert told["position"].tolist() == [[0, 1, 0, 0, 0, 1]]
