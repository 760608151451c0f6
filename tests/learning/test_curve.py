"""What a run writes down about itself, and the episodes it plays apart from training."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learning.program import Program, is_active, stack_numbers
from asymrl.learning.rollout import Episodes, roll_out
from asymrl.learning.run import METRICS, Run
from tests.learning.small import assert_same, member, numbers, rules_of, start, tiny
from tests.oracles.update import entropy_weight

# Every update writes a point: with steps = log_points the period is a single step.
EVERY = tiny(
    world="heaven-hell-1",
    steps=300,
    log_points=300,
    entropy_steps=200.0,
    evaluation_episodes=3,
    evaluation_greedy=True,
)
SEEDS = [0, 1]


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(EVERY)


@pytest.fixture(scope="module")
def runs(program: Program) -> Run:
    trained = program.train(start(program.env, EVERY, SEEDS), numbers(EVERY, len(SEEDS)), 10_000)
    assert not is_active(trained, numbers(EVERY, len(SEEDS))).any()
    return trained


def columns(runs: Run, i: int) -> dict[str, np.ndarray]:
    """The curve of a run, by metric, without the points that it did not reach."""
    curve = np.asarray(runs.curve[i])
    reached = int(runs.logged[i])
    assert np.isnan(curve[reached:]).all()
    return dict(zip(METRICS, curve[:reached].T, strict=True))


@pytest.mark.parametrize("i", range(len(SEEDS)))
def test_counters(runs: Run, i: int):
    curve = columns(runs, i)
    np.testing.assert_array_equal(curve["update"], np.arange(1, int(runs.updates[i]) + 1))
    np.testing.assert_array_equal(curve["episode"], EVERY.episodes * curve["update"])
    assert curve["timestep"][0] == 0
    assert curve["timestep"][-1] < EVERY.steps <= int(runs.timesteps[i])
    # While there were fewer than 100 episodes, their mean length is steps over episodes.
    steps = np.append(curve["timestep"][1:], runs.timesteps[i])
    early = curve["episode"] <= 100
    assert early.sum() > 10
    np.testing.assert_allclose(curve["length"][early], (steps / curve["episode"])[early], rtol=1e-5)
    # The weight of the entropy is that of the time after the episodes of the update.
    expected = [entropy_weight(int(step), rules_of(EVERY)) for step in steps]
    np.testing.assert_allclose(curve["entropy_weight"], expected, rtol=1e-5)


@pytest.mark.parametrize("i", range(len(SEEDS)))
def test_the_last_hundred_episodes(runs: Run, i: int):
    curve, count = columns(runs, i), min(100, int(runs.episodes[i]))
    np.testing.assert_allclose(curve["return"][-1], runs.recent_returns[i, :count].mean(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(curve["length"][-1], runs.recent_lengths[i, :count].mean(), rtol=1e-5)
    assert set(np.unique(runs.recent_returns[i])) <= {-1.0, 0.0, 1.0}
    assert all(np.isfinite(values).all() for values in curve.values())


def test_points_are_a_period_apart(program: Program):
    longer = replace(EVERY, steps=10 * EVERY.steps)
    assert longer.log_period == 10
    runs = program.train(start(program.env, longer, SEEDS), numbers(longer, len(SEEDS)), 10_000)
    for i in range(len(SEEDS)):
        gaps = np.diff(columns(runs, i)["timestep"])
        assert (gaps >= longer.log_period).all()
        assert (gaps < longer.log_period + longer.episodes * longer.time_limit).all()
        assert 100 <= int(runs.logged[i]) <= longer.log_points


def play_apart(program: Program, runs: Run, *, greedy: bool) -> Episodes:
    @eqx.filter_jit
    def play(runs: Run) -> Episodes:
        keys = jax.vmap(lambda key: jax.random.fold_in(jax.random.fold_in(key, 0), 1_000_000))(runs.key)
        return roll_out(program.env, runs.actor, keys, jnp.ones(len(SEEDS), bool), episodes=3, greedy=greedy)

    return play(runs)


def test_evaluation_plays_the_policy_before_the_update(program: Program, runs: Run):
    episodes = play_apart(program, start(program.env, EVERY, SEEDS), greedy=True)
    for i in range(len(SEEDS)):
        curve = columns(runs, i)
        assert curve["evaluation_length"][0] == pytest.approx(float(episodes.lengths[i].mean()))
        assert curve["evaluation_return"][0] == pytest.approx(float(episodes.rewards[:, i].sum(0).mean()), abs=1e-6)


@pytest.mark.slow
def test_evaluation_has_no_influence_on_training(program: Program, runs: Run):
    for evaluation in ({"evaluation_episodes": 0}, {"evaluation_greedy": False}):
        settings = replace(EVERY, **evaluation)
        other = Program(settings)
        trained = other.train(start(other.env, settings, SEEDS), stack_numbers([settings] * len(SEEDS)), 10_000)
        assert_same((trained.actor, trained.critic, trained.timesteps), (runs.actor, runs.critic, runs.timesteps))
        assert_same(trained.curve[..., :11], runs.curve[..., :11])
        for i in range(len(SEEDS)):
            evaluated = np.asarray(member(trained, i).curve[:, 11:])
            if settings.evaluation_episodes:
                assert not np.array_equal(evaluated, runs.curve[i, :, 11:], equal_nan=True)
            else:
                assert np.isnan(evaluated).all()
