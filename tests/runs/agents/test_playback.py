"""An episode in every detail: the actions follow the policy, and the values are those of the critic."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.state import training_world
from asymrl.nn.distributions import NO_ACTION, Categorical
from asymrl.runs.playback import Playback, critic_name, play_back
from asymrl.settings import DQNSettings
from tests.runs.engine.stores import random_states, small


def test_the_details_belong_together():
    settings = small("heaven-hell-3", method="a2c-asym-hs", time_limit=10)
    env = training_world(settings)
    run = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, random_states(settings, [0]))
    played = play_back(env, settings, run.actor, run.critic, seed=3, greedy=True)
    T = len(played.actions)
    assert played.truncated == (T == 10)
    np.testing.assert_array_equal(played.actions, played.policy.argmax(-1))
    np.testing.assert_allclose(played.policy.sum(-1), 1, atol=1e-6)
    # Walking the world again with these actions leads through the same states.
    state = jnp.asarray(played.at(0)[0])
    for t, action in enumerate(played.actions):
        state = env.step(jax.random.key(0), state, jnp.int32(action)).state
        np.testing.assert_array_equal(state, played.at(t + 1)[0])
    # The critic knows nothing of what comes later: asked about a part of the episode, it says the same.
    before = jnp.concatenate([jnp.array([NO_ACTION]), jnp.asarray(played.actions)])[:, None]
    latents = jax.vmap(env.latent)(played.states)[:, None]
    cut = T // 2
    values = run.critic(before[:cut], jnp.asarray(played.observations)[:cut, None], latents[:cut])
    np.testing.assert_allclose(played.values[:cut], values[:, 0], atol=1e-5)


@pytest.mark.parametrize(
    ("method", "sees", "critic"),
    [
        ("a2c", "heaven-side", "V(h)"),
        ("a2c-react-2", "state", "V(h)"),
        ("a2c-asym-s", "state", "V(s)"),
        ("a2c-asym-s", "heaven-side", "V(heaven-side)"),
        ("a2c-asym-hs", "state", "V(h, s)"),
        ("a2c-asym-hs", "heaven-side", "V(h, heaven-side)"),
        ("a2c-asym-s", "belief", "V(b)"),
        ("a2c-asym-hs", "sampled-state", "V(h, s~b)"),
        ("a2c-asym-s", "state+time", "V(s, t)"),
    ],
)
def test_the_critic_is_called_what_it_reads(method: str, sees: str, critic: str):
    assert critic_name(small("heaven-hell-3", method=method, critic_sees=sees)) == critic


@pytest.mark.parametrize(
    ("method", "sees", "critic"),
    [("dqn", "state", "Q(h, a)"), ("adqn-vr", "state", "Q(h, s, a)"), ("adqn-state", "state+time", "Q(s, t, a)")],
)
def test_of_action_values_that_of_the_action_taken_is_told(method: str, sees: str, critic: str):
    settings = DQNSettings(
        world="heaven-hell-1", method=method, critic_sees=sees, memory_size=8, hidden=(8,), time_limit=6, replay_steps=6
    )
    run = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, random_states(settings, [0]))
    played = play_back(training_world(settings), settings, run.actor, run.critic, seed=3)
    assert played.critic == critic
    assert played.values.shape == played.actions.shape
    np.testing.assert_array_equal(played.actions, played.policy.argmax(-1))
    if method == "dqn":  # the actor values its actions itself
        np.testing.assert_array_equal(played.values, played.policy.max(-1))


def test_returns_to_go():
    rewards, nothing = np.array([1.0, 0.0, 2.0]), np.zeros(3)
    of_one = Categorical(1)
    played = Playback(None, None, np.zeros(3, int), rewards, np.ones((3, 1)), nothing, True, "V(h)", 0.5, of_one)
    np.testing.assert_allclose(played.returns_to_go(), [1.5, 1.0, 2.0])
