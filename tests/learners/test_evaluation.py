"""The episodes that a run plays apart from training."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.curve import evaluate_if_due
from asymrl.learners.episodes import Episodes
from asymrl.learners.key_purposes import EVALUATION
from asymrl.learners.program import Program
from asymrl.learners.rollout import roll_out
from asymrl.learners.state import METRICS, RunState, training_world
from tests.learners.small import assert_same, numbers, start, tiny

SEEDS = [0, 1, 2]
SETTINGS = tiny(world="heaven-hell-1", steps=300, log_points=300, evaluation_episodes=5)
RETURN, LENGTH = METRICS.index("evaluation_return"), METRICS.index("evaluation_length")


@pytest.mark.parametrize("greedy", [True, False])
def test_evaluation_plays_the_policy_as_it_is(greedy: bool):
    """With keys of its own, for the runs where a point is due."""
    settings = replace(SETTINGS, evaluation_greedy=greedy)
    env = training_world(settings)
    due = jnp.asarray([True, False, True])

    @eqx.filter_jit
    def both(runs: RunState) -> tuple[jax.Array, Episodes]:
        apart = jax.vmap(lambda key: jax.random.fold_in(key, EVALUATION))(runs.key)
        played = roll_out(env, runs.actor, apart, due, episodes=5, greedy=greedy)
        return evaluate_if_due(env, settings, runs, runs.key, due), played

    evaluated, played = both(start(env, settings, SEEDS))
    for run in (0, 2):
        mean_return = float(played.rewards[:, run].sum(axis=0).mean())
        mean_length = float(played.lengths[run].mean())
        np.testing.assert_allclose(evaluated[run], [mean_return, mean_length], rtol=1e-5, atol=1e-6)
    assert np.isnan(evaluated[1]).all()


def test_no_evaluation_unless_asked_for():
    settings = replace(SETTINGS, evaluation_episodes=0)
    env = training_world(settings)
    runs = start(env, settings, SEEDS)
    assert np.isnan(evaluate_if_due(env, settings, runs, runs.key, jnp.ones(3, bool))).all()


@pytest.mark.slow
def test_evaluation_has_no_influence_on_training():
    def train(**evaluation: int | bool) -> RunState:
        settings = replace(SETTINGS, **evaluation)
        program = Program(settings)
        return program.train(start(program.world, settings, SEEDS), numbers(settings, len(SEEDS)), 10_000)

    without, greedy, sampled = train(evaluation_episodes=0), train(), train(evaluation_greedy=False)
    for runs in (greedy, sampled):
        assert_same((runs.actor, runs.critic, runs.timesteps), (without.actor, without.critic, without.timesteps))
        assert_same(runs.curve[..., :RETURN], without.curve[..., :RETURN])
        assert np.isfinite(runs.curve[0, : int(runs.logged[0]), [RETURN, LENGTH]]).all()
    assert np.isnan(without.curve[..., RETURN:]).all()
    assert not np.array_equal(greedy.curve[..., LENGTH], sampled.curve[..., LENGTH], equal_nan=True)
