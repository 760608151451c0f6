"""A compiled world whose actions are vectors of indices: what is acted is what is learned from."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.collector import play
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import Program
from asymrl.learners.state import RunState
from asymrl.runs.playback import play_back
from tests.learners.small import member, start, tiny
from tests.worlds.dials import BLANK, SIZES, Dials

SETTINGS = tiny(
    method="a2c-asym-hs", world="dials", time_limit=3, discount=0.9, episodes=16, hidden=(16,), steps=100_000,
    actor_rate=1e-2, critic_rate=1e-2, entropy_weight=0.01, target_period=1,
)  # fmt: skip


@pytest.fixture(scope="module")
def runs() -> RunState:
    env = Dials()
    program = Program(SETTINGS, env)
    return program.train(start(env, SETTINGS, [0, 1]), stack_numbers([SETTINGS] * 2), 150)


def test_it_is_learned_to_set_both_from_memory(runs: RunState):
    """At each of three steps, knowing nothing, one gets (1/3 + 1/2) / 2."""
    keys, everyone = jax.random.split(jax.random.key(0), 2), jnp.ones(2, bool)
    played = play(Dials(), runs.actor, keys, everyone, episodes=32, greedy=True)
    wanted = np.asarray(played.observations[0])
    assert (np.asarray(played.observations[1:4]) == BLANK).all()
    right = np.stack([wanted // SIZES[1], wanted % SIZES[1]], -1)[None] == np.asarray(played.actions[:3])
    np.testing.assert_allclose(played.rewards[:3], right.mean(-1), rtol=1e-6)
    assert right.mean() > 0.9


def test_a_playback_shows_the_probabilities_of_each_entry(runs: RunState):
    run = member(runs, 0)
    played = play_back(Dials(), SETTINGS, run.actor, run.critic, greedy=True)
    left, right = np.split(played.policy, [3], axis=1)
    np.testing.assert_allclose([left.sum(1), right.sum(1)], 1.0, rtol=1e-5)
    np.testing.assert_array_equal(played.actions, np.stack([left.argmax(1), right.argmax(1)], 1))
    assert eqx.tree_equal(played.distribution, run.actor.distribution)
