"""Evaluation, against policies whose expected return is known exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.envs import World, make
from asymrl.learning.settings import Settings
from asymrl.models.agent import Actor, Architecture
from asymrl.runs.evaluation import Estimate, Evaluation, Yardstick, evaluate_runs, over_seeds, play, yardstick

DISCOUNT = 0.9
STEPS = 6
EPISODES = 900


def with_policies(env: World, policies: Sequence[Sequence[float]]) -> Actor:
    """Actors that do not care what they see: each takes its actions with these probabilities."""

    def make_actor(key: jax.Array, logits: jax.Array) -> Actor:
        shape = Architecture("gru", 4, hidden=(4,))
        actor = Actor(key, env.action_space, env.observation_space, shape, STEPS + 1)
        last = actor.head.layers[-1]
        return eqx.tree_at(
            lambda a: (a.head.layers[-1].weight, a.head.layers[-1].bias), actor, (jnp.zeros_like(last.weight), logits)
        )

    keys = jax.random.split(jax.random.key(0), len(policies))
    return eqx.filter_jit(eqx.filter_vmap(make_actor))(keys, jnp.log(jnp.asarray(policies)))


def close(estimate: Estimate, exact: float) -> bool:
    """Within five standard errors, which chance leaves once in a million times."""
    return abs(estimate.mean - exact) < 5 * estimate.error


@pytest.fixture(scope="module")
def good_bad() -> tuple[World, Actor]:
    env = make("good-bad", time_limit=STEPS)
    return env, with_policies(env, [(0.8, 0.2), (0.3, 0.7)])


def test_the_value_of_a_constant_policy_in_good_bad(good_bad):
    env, actors = good_bad
    outcomes = play(env, actors, [0, 1], [DISCOUNT, 0.5], episodes=EPISODES)
    for share, discount, found in zip((0.8, 0.3), (DISCOUNT, 0.5), evaluate_runs(outcomes, None), strict=True):
        assert close(found.returns, share * STEPS)
        assert close(found.discounted, share * (1 - discount**STEPS) / (1 - discount))
        # The number of good actions is binomial.
        assert found.returns.error == pytest.approx(math.sqrt(STEPS * share * (1 - share) / EPISODES), rel=0.15)
        assert found.length == Estimate(STEPS, 0.0)
        assert (found.terminated, found.truncated) == (0.0, 1.0)


def test_the_value_and_the_end_of_a_constant_policy_in_the_tiger_world():
    """Listening costs 1; a door chosen without listening is worth (10 - 100) / 2 and ends the episode."""
    env = make("tiger", episodic=True, time_limit=STEPS)
    listen = 0.7
    outcomes = play(env, with_policies(env, [(listen, 0.2, 0.1)]), [7], [DISCOUNT], episodes=EPISODES)
    found = evaluate_runs(outcomes, None)[0]
    per_step = -listen - 45 * (1 - listen)
    alive = listen ** np.arange(STEPS)
    assert close(found.returns, per_step * alive.sum())
    assert close(found.discounted, per_step * (alive * DISCOUNT ** np.arange(STEPS)).sum())
    assert close(found.length, alive.sum())
    cut = listen**STEPS
    assert abs(found.truncated - cut) < 5 * math.sqrt(cut * (1 - cut) / EPISODES)
    assert found.terminated == pytest.approx(1 - found.truncated)


def test_greedy_takes_the_most_likely_action(good_bad):
    env, actors = good_bad
    good, bad = evaluate_runs(play(env, actors, [0, 1], [1.0, 1.0], episodes=3, greedy=True), None)
    assert good.returns == Estimate(STEPS, 0.0)
    assert bad.returns == Estimate(0.0, 0.0)


def test_the_episodes_of_a_run_depend_on_its_own_seed_only(good_bad):
    env, actors = good_bad
    many = play(env, actors, [5, 6], [1.0, 1.0], episodes=150)
    swapped = jax.tree.map(lambda x: x[::-1] if eqx.is_array(x) else x, actors)
    few = play(env, swapped, [6, 2], [1.0, 1.0], episodes=20)
    np.testing.assert_array_equal(few.returns[0], many.returns[1, :20])
    assert np.any(few.returns[1] != many.returns[0, :20])
    other = play(env, actors, [5, 6], [1.0, 1.0], episodes=150, seed=1)
    assert np.any(other.returns != many.returns)
    assert np.any(many.returns[0, :50] != many.returns[0, 100:])  # every hundred is a hundred of its own


def test_at_least_one_episode_is_needed(good_bad):
    env, actors = good_bad
    with pytest.raises(ValueError, match="episodes is 0; at least 1"):
        play(env, actors, [0, 1], [1.0, 1.0], episodes=0)


def test_normalised_returns_stand_between_random_and_best():
    assert yardstick(Settings(world="shopping-5")) == pytest.approx((-142.494659, 4.0))
    assert yardstick(Settings(world="shopping-5", time_limit=50)) is None
    assert yardstick(Settings(world="shopping-4")) is None
    reference = Yardstick(random=-2.0, best=6.0)
    assert reference.normalise(Estimate(2.0, 0.8)) == pytest.approx((0.5, 0.1))
    found = evaluate_runs(play_of([[2.0, 6.0], [-2.0, -2.0]]), reference)
    assert [each.normalised.mean for each in found if each.normalised] == [0.75, 0.0]


def play_of(returns: list[list[float]]):
    from asymrl.runs.evaluation import Outcomes

    array = np.array(returns)
    return Outcomes(array, array, np.ones_like(array, int), np.zeros_like(array, bool))


def test_over_seeds_the_error_is_that_of_the_means_of_the_seeds():
    def evaluation(mean: float, normalised: Estimate | None) -> Evaluation:
        number = Estimate(mean, 0.1)
        return Evaluation(number, number, number, mean / 10, 1 - mean / 10, normalised)

    found = over_seeds([evaluation(mean, Estimate(mean / 10, 0.0)) for mean in (1.0, 2.0, 6.0)])
    assert found.returns == pytest.approx((3.0, np.std([1, 2, 6], ddof=1) / math.sqrt(3)))
    assert found.normalised is not None
    assert found.normalised.mean == pytest.approx(0.3)
    assert (found.terminated, found.truncated) == pytest.approx((0.3, 0.7))
    single = over_seeds([evaluation(1.0, None)])
    assert math.isnan(single.returns.error)
    assert single.normalised is None
