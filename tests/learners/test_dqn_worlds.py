"""The DQN family in a world that runs in Python."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import Program
from asymrl.learners.state import keys_of
from asymrl.settings import DQNSettings
from tests.envs.gym.foreign_envs import Aim, Guess
from tests.learners.small import assert_same, member

SETTINGS = DQNSettings(
    world="guess",
    method="adqn",
    memory_size=4,
    hidden=(4,),
    time_limit=5,
    steps=1_000,
    log_points=10,
    prefill=12,
    replay_steps=20,
    train_ratio=2.0,
)
UPDATES = 9


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(SETTINGS.shape(), from_gymnasium(Guess, time_limit=5))


def train(program: Program, *updates: int) -> Any:
    runs = program.start([3, 4])
    for count in updates:
        runs = program.train(runs, stack_numbers([SETTINGS] * 2), count)
    return runs


def test_collected_episodes_enter_the_replay(program: Program):
    runs, numbers = program.start([3, 4]), stack_numbers([SETTINGS] * 2)
    epsilon = eqx.filter_vmap(program.learner.exploration)(runs, jax.tree.map(jnp.asarray, numbers))
    played = program.collector().play(runs.actor, keys_of(runs), np.ones(2, bool), episodes=1, epsilon=epsilon)
    runs = train(program, 1)
    assert runs.replay.rows.tolist() == played.lengths[:, 0].tolist() == [3, 3]
    for run in (0, 1):
        kept = member(runs.replay, run)
        np.testing.assert_array_equal(kept.actions[:3], played.actions[:3, run, 0])
        np.testing.assert_array_equal(kept.rewards[:3], played.rewards[:3, run, 0])
        np.testing.assert_array_equal(kept.latents[:3], played.states[:3, run, 0])
        for part, values in kept.observations.items():
            np.testing.assert_array_equal(values[:3], played.observations[part][:3, run, 0])


def test_runs_learn_and_go_on_bit_for_bit(program: Program):
    whole, cut = train(program, UPDATES), train(program, 4, UPDATES - 4)
    assert_same(whole, cut)
    # Every episode has 3 steps: 4 of them fill the replay, and each of the 5 others allows to learn from 6 steps.
    assert whole.timesteps.tolist() == [27, 27]
    assert whole.replay.episodes.tolist() == [6, 6]
    assert whole.actor_adam.count.tolist() == [10, 10]
    assert not whole.failed.any()


def test_vectors_of_actions_are_refused():
    with pytest.raises(
        ValueError, match="adqn needs a list of actions in Aim, but its actions are vectors; use a2c or ppo"
    ):
        Program(SETTINGS.shape(), from_gymnasium(Aim, time_limit=5))
