"""Heaven-Hell, Shopping, Tiger and Good-Bad against their rules written a second time."""

from __future__ import annotations

import functools
from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from asymrl.worlds import Episode, FiniteWorld, GoodBad, HeavenHell, Shopping, Tiger
from tests.oracles import classics, heaven_hell, shopping
from tests.oracles.tables import Tables
from tests.worlds.chance import assert_frequencies, assert_uniform

DETERMINISTIC = [f"heaven-hell-{n}" for n in range(1, 7)] + [f"shopping-{n}" for n in range(2, 7)]
STOCHASTIC = ["tiger", "tiger-episodic", "good-bad"]


@functools.cache
def world(name: str) -> FiniteWorld:
    kind, _, size = name.rpartition("-")
    if name in STOCHASTIC:
        return {"tiger": Tiger(), "tiger-episodic": Tiger(episodic=True), "good-bad": GoodBad()}[name]
    return HeavenHell(int(size)) if kind == "heaven-hell" else Shopping(int(size))


@functools.cache
def oracle(name: str) -> Tables:
    kind, _, size = name.rpartition("-")
    if name in STOCHASTIC:
        return classics.good_bad() if name == "good-bad" else classics.tiger(episodic=name == "tiger-episodic")
    return heaven_hell.tables(int(size)) if kind == "heaven-hell" else shopping.tables(int(size))


@functools.cache
def every_step(name: str):
    """The outcome of each action in each state of a world that draws nothing: arrays [S, A]."""
    env = world(name)

    def one(state, action):
        key = jax.random.key(0)
        step = env.step(key, state, action)
        return step, env.observe(key, state, action, step.state)

    S, A = env.latent_space.n, len(env.action_names)
    compiled = jax.jit(jax.vmap(jax.vmap(one, (None, 0)), (0, None)))
    return jax.device_get(compiled(jnp.arange(S), jnp.arange(A)))


def follow(name: str, state: int, plan: list[int]) -> tuple[list[float], list[bool], list[int]]:
    """Rewards, ends and observations along a plan."""
    steps, seen = every_step(name)
    outcomes = []
    for action in plan:
        outcomes.append((steps.reward[state, action], steps.terminated[state, action], seen[state, action]))
        state = steps.state[state, action]
    rewards, ends, observations = zip(*outcomes, strict=True)
    return list(rewards), list(ends), list(observations)


@functools.cache
def walk(name: str):
    """Compiled: an episode at a state and a list of actions give the episodes and transitions that follow."""
    env = world(name)

    def one(episode, action):
        episode, transition = env.advance(jax.random.key(0), episode, action)
        return episode, (episode, transition)

    def from_state(state, actions):
        return jax.lax.scan(one, Episode(state, jnp.int32(0)), actions)[1]

    return jax.jit(from_state)


def walk_oracle(rules: Tables, state: int, actions: list[int]):
    """Follows actions up to the end of the episode: states, rewards, ends and observations."""
    for action in actions:
        ended = bool(rules.D[state, action])
        reward = rules.R[state, action]
        # The row of an ending action holds the next start; its cell is the same whatever that start hides.
        next_state = int(rules.T[state, action].argmax())
        seen = int(rules.O[action, next_state].argmax())
        state = state if ended else next_state
        yield state, reward, ended, seen
        if ended:
            return


@pytest.mark.parametrize("name", DETERMINISTIC + STOCHASTIC)
def test_tables(name):
    env, rules = world(name), oracle(name)
    for table in ("T", "O", "R"):
        np.testing.assert_array_equal(getattr(env, table), getattr(rules, table).astype(np.float32), err_msg=table)
        assert getattr(env, table).dtype == np.float32
    np.testing.assert_array_equal(env.D, rules.D)
    np.testing.assert_allclose(env.start, rules.start, rtol=1e-15)
    assert (env.latent_space.n, len(env.action_names)) == (rules.states, rules.actions)
    assert len(env.observation_names) == rules.observations


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_every_action_in_every_state(name):
    rules = oracle(name)
    step, seen = every_step(name)
    following = rules.T.argmax(-1)
    stays = np.broadcast_to(np.arange(rules.states)[:, None], following.shape)
    np.testing.assert_array_equal(step.state, np.where(rules.D, stays, following))
    np.testing.assert_array_equal(step.reward, rules.R)
    np.testing.assert_array_equal(step.terminated, rules.D)
    expected = rules.O.argmax(-1)[np.arange(rules.actions), following]
    np.testing.assert_array_equal(seen, expected)


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_the_last_observation_comes_from_the_next_start(name):
    # Both worlds start in cell 0, and it is what the agent sees when an episode is over.
    _, seen = every_step(name)
    ends = world(name).D
    assert ends.any()
    assert set(np.asarray(seen)[ends].tolist()) == {0}


@pytest.mark.parametrize("name", DETERMINISTIC + STOCHASTIC)
def test_rows_of_ending_actions_hold_the_start(name):
    env = world(name)
    start = env.start.astype(np.float32)
    np.testing.assert_array_equal(env.T[env.D], np.broadcast_to(start, (int(env.D.sum()), start.size)))
    np.testing.assert_allclose(env.T.sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(env.O.sum(-1), 1, rtol=1e-6)


@pytest.mark.parametrize("name", ["heaven-hell-3", "shopping-5"])
@given(data=st.data())
def test_walks(name, data):
    rules = oracle(name)
    state = data.draw(st.integers(0, rules.states - 1))
    actions = data.draw(st.lists(st.integers(0, rules.actions - 1), min_size=1, max_size=50))
    padded = np.array(actions + [0] * (50 - len(actions)), np.int32)
    episode, after = jax.device_get(walk(name)(np.int32(state), padded))
    for t, expected in enumerate(walk_oracle(rules, state, actions)):
        assert (episode.state[t], after.reward[t], after.terminated[t], after.observation[t]) == expected
        assert episode.t[t] == t + 1


@pytest.mark.parametrize("n", range(1, 7))
def test_heaven_hell_takes_4n_plus_3_steps(n):
    env = world(f"heaven-hell-{n}")
    cells = 4 * n + 2
    for side in (heaven_hell.LEFT, heaven_hell.RIGHT):
        plan = heaven_hell.plan(n, side)
        rewards, ends, seen = follow(env.name, side * cells, plan)
        assert len(plan) == 4 * n + 3
        assert ends == [False] * (len(plan) - 1) + [True]
        assert sum(rewards) == 1
        assert seen[n] == cells - 1 + side, "the priest was not heard"
    # No way is shorter: the priest first, since only there the two sides look different, then an exit, then one step.
    moves = env.T.argmax(-1)[:cells]
    to_priest = distances(moves, 0)[cells - 1]
    assert to_priest + distances(moves, cells - 1)[2 * n] + 1 == 4 * n + 3
    same = env.O[:, : cells - 1] == env.O[:, cells : 2 * cells - 1]
    assert same.all()


def distances(moves: np.ndarray, start: int) -> dict[int, int]:
    """Steps from a state to every other, where moves[s, a] is the next state."""
    far, queue = {start: 0}, deque([start])
    while queue:
        state = queue.popleft()
        for following in set(moves[state].tolist()) - set(far):
            far[following] = far[state] + 1
            queue.append(following)
    return far


@pytest.mark.parametrize(("n", "value"), [(2, 7), (3, 6), (4, 5), (5, 4), (6, 3)])
def test_value_of_the_shopping_plan(n, value):
    returns = []
    for item in range(n**2):
        plan = shopping.plan(n, item)
        rewards, ends, seen = follow(f"shopping-{n}", item, plan)
        assert seen[0] == n**2 + item
        assert ends == [False] * (len(plan) - 1) + [True]
        returns.append(sum(rewards))
    assert np.mean(returns) == pytest.approx(value)


@pytest.mark.parametrize("name", ["heaven-hell-3", "heaven-hell-4", "shopping-5", "shopping-6", *STOCHASTIC])
def test_starts(name):
    env = world(name)
    states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(1), 20_000))
    assert_frequencies(np.bincount(states, minlength=env.latent_space.n), env.start)


@pytest.mark.parametrize("name", [*DETERMINISTIC, "tiger"])
def test_the_first_observation_is_a_symbol_of_its_own(name):
    env = world(name)
    symbol = len(env.observation_names)
    assert env.observation_space.n == symbol + 1
    assert int(env.first_observation(jax.random.key(0), jnp.int32(0))) == symbol


def test_good_bad_shows_itself_before_the_first_action():
    env = world("good-bad")
    assert env.observation_space.n == 2
    keys = jax.random.split(jax.random.key(2), 20_000)
    first = jax.jit(jax.vmap(env.first_observation, (0, None)))
    for state, probabilities in ((classics.GOOD, [1, 0]), (classics.BAD, [0.5, 0.5])):
        seen = first(keys, jnp.int32(state))
        assert_frequencies(np.bincount(seen, minlength=2), np.array(probabilities))


@pytest.mark.parametrize("name", STOCHASTIC)
def test_frequencies_of_steps_and_observations(name):
    env, rules = world(name), oracle(name)

    def one(key, state, action):
        step_key, observe_key = jax.random.split(key)
        step = env.step(step_key, state, action)
        return step, env.observe(observe_key, state, action, step.state)

    keys = jax.random.split(jax.random.key(3), 20_000)
    many = jax.jit(jax.vmap(one, (0, None, None)))
    for state in range(rules.states):
        for action in range(rules.actions):
            step, seen = many(keys, jnp.int32(state), jnp.int32(action))
            counts = np.zeros((rules.states, rules.observations), int)
            np.add.at(counts, (np.asarray(step.state), np.asarray(seen)), 1)
            together = rules.T[state, action][:, None] * rules.O[action]
            if rules.D[state, action]:
                together = np.zeros_like(together)
                together[state] = rules.start @ rules.O[action]
            assert_frequencies(counts, together)
            assert set(np.asarray(step.reward).tolist()) == {rules.R[state, action]}
            assert set(np.asarray(step.terminated).tolist()) == {bool(rules.D[state, action])}


def test_a_door_hides_a_new_tiger_each_time():
    # The tiger after opening is independent of the one before: steps in a row, not only single ones.
    env = world("tiger")

    def two_openings(key):
        first, second = jax.random.split(key)
        once = env.step(first, jnp.int32(0), jnp.int32(classics.OPEN_LEFT)).state
        return once, env.step(second, once, jnp.int32(classics.OPEN_RIGHT)).state

    pairs = np.stack(jax.jit(jax.vmap(two_openings))(jax.random.split(jax.random.key(4), 20_000)), -1)
    assert_uniform(pairs, (2, 2))
