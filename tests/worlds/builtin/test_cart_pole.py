"""Cart-Pole against Gymnasium's CartPole-v1, and what hidden velocities ask of an agent."""

from __future__ import annotations

import functools
import itertools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from asymrl.worlds import CartPole
from asymrl.worlds.builtin.cart_pole import MAX_ANGLE, MAX_POSITION, SECONDS, START, TIME_LIMIT
from tests.worlds.chance import FALSE_ALARM

COUNT = 400
# Gymnasium computes in double precision; closer than this to a limit, single precision may decide otherwise.
ROUNDING = 1e-6


@functools.cache
def compiled():
    env, key = CartPole(), jax.random.key(0)

    def one(state, action):
        step = env.step(key, state, action)
        return step, env.observe(key, state, action, step.state)

    return jax.jit(jax.vmap(one))


def original_step(state: np.ndarray, action: int) -> tuple[np.ndarray, float, bool]:
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset()
    env.state = state.astype(np.float64)  # pyright: ignore[reportAttributeAccessIssue]
    observation, reward, terminated, _, _ = env.step(action)
    return observation, float(reward), terminated


def test_steps_equal_those_of_gymnasium():
    generator = np.random.default_rng(0)
    high = np.array([MAX_POSITION, 4.0, MAX_ANGLE, 4.0])
    states = generator.uniform(-high, high, (COUNT, 4)).astype(np.float32)
    actions = generator.integers(2, size=COUNT).astype(np.int32)
    step, shown = jax.device_get(compiled()(states, actions))
    ends = 0
    for i, (state, action) in enumerate(zip(states, actions, strict=True)):
        expected, reward, terminated = original_step(state, int(action))
        case = f"action {action} in {state}"
        np.testing.assert_allclose(step.state[i], expected, rtol=1e-6, atol=ROUNDING, err_msg=case)
        np.testing.assert_array_equal(shown[i], step.state[i, [0, 2]], err_msg=case)
        if (np.abs(np.abs(expected[::2]) - [MAX_POSITION, MAX_ANGLE]) > ROUNDING).all():
            assert (step.reward[i], step.terminated[i]) == (reward, terminated), case
            ends += terminated
    assert 20 < ends < COUNT - 20


def test_whole_episodes_equal_those_of_gymnasium():
    generator = np.random.default_rng(1)
    lengths = []
    for _ in range(10):
        original = gymnasium.make("CartPole-v1")
        start, _ = original.reset(seed=int(generator.integers(1_000)))
        state, ended = np.broadcast_to(start, (COUNT, 4)), False
        while not ended:
            action = generator.integers(2)
            observation, _, ended, _, _ = original.step(action)
            step, _ = jax.device_get(compiled()(state, np.full(COUNT, action, np.int32)))
            np.testing.assert_allclose(step.state[0], observation, rtol=1e-4, atol=1e-5)
            assert step.terminated[0] == ended
            state = step.state
        lengths.append(original.get_wrapper_attr("_elapsed_steps"))
    assert len(set(lengths)) > 3


def test_starts():
    starts = np.asarray(jax.jit(jax.vmap(CartPole().reset))(jax.random.split(jax.random.key(0), 5_000)))
    for number in starts.T:
        assert stats.kstest(number, stats.uniform(-START, 2 * START).cdf).pvalue > FALSE_ALARM
    np.testing.assert_allclose(np.corrcoef(starts.T), np.eye(4), atol=0.07)


def test_the_limits_are_part_of_the_track():
    limit, lean = np.float32(MAX_POSITION), np.float32(MAX_ANGLE)
    beyond = [np.nextafter(x, np.float32(9)) for x in (limit, lean)]
    # Without velocities the step leaves the positions as they are.
    states = np.array([[limit, 0, 0, 0], [0, 0, -lean, 0], [beyond[0], 0, 0, 0], [0, 0, -beyond[1], 0]], np.float32)
    padded = np.concatenate([states, np.zeros((COUNT - 4, 4), np.float32)])
    step, _ = compiled()(padded, np.ones(COUNT, np.int32))
    assert np.asarray(step.terminated[:4]).tolist() == [False, False, True, True]


def balance(start: np.ndarray, remembers: bool) -> np.ndarray:
    """Steps, of at most 500, that a linear rule keeps the pole up from each start [n, 4].

    If it remembers the previous observation, it estimates the velocities from the difference.
    """
    env, key = CartPole(), jax.random.key(0)

    def step(carry, _):
        state, before, going, steps = carry
        shown = env.first_observation(key, state)
        velocity = (shown - before) / SECONDS if remembers else jnp.zeros(2)
        lean = jnp.dot(jnp.array([1.0, 20.0]), shown) + jnp.dot(jnp.array([1.5, 3.0]), velocity)
        after = env.step(key, state, (lean > 0).astype(jnp.int32))
        return (after.state, shown, going & ~after.terminated, steps + going), None

    def episode(state):
        begin = (state, env.first_observation(key, state), jnp.bool_(True), jnp.int32(0))
        return jax.lax.scan(step, begin, None, length=TIME_LIMIT)[0][3]

    return np.asarray(jax.jit(jax.vmap(episode))(jnp.asarray(start, jnp.float32)))


@pytest.mark.parametrize("remembers", [True, False])
def test_two_observations_are_enough_and_one_is_not(remembers):
    corners = START * np.array(list(itertools.product([-1, 1], repeat=4)))
    inside = np.random.default_rng(0).uniform(-START, START, (1_000, 4))
    steps = balance(np.concatenate([corners, inside]), remembers)
    assert (steps == TIME_LIMIT).all() if remembers else steps.max() < 100


def test_velocities_can_be_shown():
    env = CartPole(velocities=True)
    state = env.from_latent(jnp.array([0.1, -0.2, 0.03, 0.4]))
    assert env.observation_space == env.latent_space
    np.testing.assert_array_equal(env.first_observation(jax.random.key(0), state), state)
    np.testing.assert_array_equal(env.signals()["velocities"].of(state), np.array([-0.2, 0.4], np.float32))


def test_latents_outside_the_box_are_refused():
    env = CartPole()
    assert env.latent_problem(np.array([0.5, 30.0, 0.1, -30.0])) is None
    assert "outside" in (env.latent_problem(np.array([0.0, 0.0, 1.0, 0.0])) or "")
