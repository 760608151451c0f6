"""Worlds whose rewards depend on next state and observation do what their outcomes say."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.draw.text import draw_text
from asymrl.envs.pomdp_files import parse_text
from asymrl.worlds.checking.checker import check
from asymrl.worlds.finite import OutcomeWorld
from tests.envs.pomdp_files.texts import SMALL

# A reward for each (s', o) after `go`, an end with a reward that depends on the start of the next episode,
# and observations that depend on the previous state.
TEXT = (
    SMALL + "start: 0.25 0.75\nT: * uniform\nT: stay : right reset\nO: * : left .5 .5\nO: * : right .125 .875\n"
    "OO: go : right : left 1 0\nR: go : *\n1 2\n3 4\nR: stay : right : left : * 10\nR: stay : right : right : * 20\n"
)


def world() -> OutcomeWorld:
    made = parse_text(TEXT, "pairs").world()
    assert isinstance(made, OutcomeWorld)
    return made


def test_it_passes_the_checker() -> None:
    assert check(world()).pairs == 4


def test_expected_rewards_and_tables() -> None:
    env = world()
    np.testing.assert_allclose(
        env.R, [[0, 0.5 * 1.5 + 0.5 * (3 * 0.125 + 4 * 0.875)], [0.25 * 10 + 0.75 * 20, 0.5 * 1 + 0.5 * 3.875]]
    )
    np.testing.assert_array_equal(env.D, [[False, False], [True, False]])
    np.testing.assert_allclose(env.T[1, 0], [0.25, 0.75])
    np.testing.assert_allclose(env.T[0, 0], [0.5, 0.5])


def test_outcomes_as_a_pomdp() -> None:
    pomdp = world().pomdp()
    s, a = pomdp.rows()
    end = (s == 1) & (a == 0)
    np.testing.assert_array_equal(pomdp.done, end)
    np.testing.assert_allclose(pomdp.probability[end], [0.25, 0.75])  # one outcome for each reward
    np.testing.assert_array_equal(pomdp.reward[end], [10, 20])
    np.testing.assert_array_equal(pomdp.next_state[end], 1)
    np.testing.assert_allclose(pomdp.R(), world().R)


def test_steps_happen_as_often_as_they_should() -> None:
    """20 000 draws of the action `go` in the state `left`: each outcome within five standard errors."""
    env, n = world(), 20_000
    state = env.from_latent(jnp.int32(0))
    keys = jax.random.split(jax.random.key(0), n)
    step = jax.jit(jax.vmap(lambda key: env.step(key, state, 1)))(keys)
    seen = jax.vmap(lambda after: env.observe(keys[0], state, 1, after))(step.state)
    np.testing.assert_array_equal(seen, step.state.observation)
    for s_next, o, probability in ((0, 0, 0.25), (0, 1, 0.25), (1, 0, 0.0625), (1, 1, 0.4375)):
        happened = (np.asarray(step.state.state) == s_next) & (np.asarray(seen) == o)
        assert abs(happened.mean() - probability) < 5 * np.sqrt(probability / n)
        np.testing.assert_array_equal(np.asarray(step.reward)[happened], 1 + 2 * s_next + o)
    assert not step.terminated.any()


def test_an_end_stays_where_it_was_and_pays_for_where_it_leads() -> None:
    env, n = world(), 20_000
    keys = jax.random.split(jax.random.key(1), n)
    step = jax.jit(jax.vmap(lambda key: env.step(key, env.from_latent(jnp.int32(1)), 0)))(keys)
    assert step.terminated.all()
    np.testing.assert_array_equal(step.state.state, 1)
    assert abs(np.asarray(step.reward).mean() - 17.5) < 5 * 5 / np.sqrt(n)
    # A state drawn from the start emits: 1/4 1/2 + 3/4 1/8.
    assert abs((np.asarray(step.state.observation) == 0).mean() - 0.21875) < 5 * 0.42 / np.sqrt(n)


def test_the_first_observation_is_the_blank() -> None:
    env = world()
    episode, observation = env.begin(jax.random.key(0))
    assert int(observation) == 2 == env.observation_space.n - 1
    assert int(env.latent(episode.state)) in (0, 1)
    np.testing.assert_array_equal(env.from_latent(env.latent(episode.state)), episode.state)


def test_text_has_names() -> None:
    env = world()
    text = draw_text(env, env.from_latent(jnp.int32(1)), 2)
    assert "right" in text
    assert "nothing yet" in text


def test_there_is_no_table_of_observations() -> None:
    with pytest.raises(ValueError, match="pairs: observations depend on the previous state"):
        _ = world().O
