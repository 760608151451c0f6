"""Evaluation, against policies whose expected return is known exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.nn.agent import Actor, Architecture
from asymrl.runs.evaluation import Estimate, Evaluation, evaluate_runs, over_seeds, play
from asymrl.worlds import World, make, scores

STEPS = 6
EPISODES = 900


def with_policies(env: World, policies: Sequence[Sequence[float]]) -> Actor:
    """Actors that do not care what they see: each takes its actions with these probabilities."""
    shape = Architecture("gru", 4, hidden=(4,))
    one = eqx.filter_eval_shape(Actor, jax.random.key(0), env.action_space, env.observation_space, shape)

    def zeros(leaf: Any) -> Any:
        is_array = isinstance(leaf, jax.ShapeDtypeStruct)
        return jnp.asarray(np.zeros((len(policies), *leaf.shape), leaf.dtype)) if is_array else leaf

    logits = jnp.asarray(np.log(policies), jnp.float32)
    return eqx.tree_at(lambda actor: actor.head.layers[-1].bias, jax.tree.map(zeros, one), logits)


def close(estimate: Estimate, exact: float) -> bool:
    """Within five standard errors, which chance leaves once in a million times."""
    return abs(estimate.mean - exact) < 5 * estimate.error


POLICIES = [(0.7, 0.2, 0.1), (0.2, 0.5, 0.3)]  # to listen, to open the left door, the right one
DISCOUNTS = (0.9, 0.5)


@pytest.fixture(scope="module")
def tiger() -> tuple[World, Actor]:
    """The world where an opened door ends the episode, and two actors."""
    env = make("tiger", episodic=True, time_limit=STEPS)
    return env, with_policies(env, POLICIES)


def test_the_value_and_the_end_of_constant_policies(tiger):
    """Listening costs 1; a door chosen without listening is worth (10 - 100) / 2 and ends the episode."""
    env, actors = tiger
    found = evaluate_runs(play(env, actors, [7, 8], DISCOUNTS, episodes=EPISODES), None)
    for (listen, *_), discount, each in zip(POLICIES, DISCOUNTS, found, strict=True):
        per_step = -listen - 45 * (1 - listen)
        alive = listen ** np.arange(STEPS)
        assert close(each.returns, per_step * alive.sum())
        assert close(each.discounted, per_step * (alive * discount ** np.arange(STEPS)).sum())
        assert close(each.length, alive.sum())
        cut = listen**STEPS
        assert abs(each.truncated - cut) < 5 * math.sqrt(cut * (1 - cut) / EPISODES)
        assert each.terminated == pytest.approx(1 - each.truncated)


def test_greedy_takes_the_most_likely_action(tiger):
    env, actors = tiger
    listens, opens = evaluate_runs(play(env, actors, [0, 1], [0.5, 0.5], episodes=60, greedy=True), None)
    assert listens.returns == Estimate(-STEPS, 0.0)
    assert listens.discounted == pytest.approx((-2 * (1 - 0.5**STEPS), 0.0))
    assert listens.truncated == 1.0
    assert opens.length == Estimate(1.0, 0.0)
    assert opens.terminated == 1.0
    assert close(opens.returns, -45)


def test_the_episodes_of_a_run_depend_on_its_own_seed_only(tiger):
    env, actors = tiger
    many = play(env, actors, [5, 6], [1.0, 1.0], episodes=150)
    swapped = jax.tree.map(lambda x: x[::-1] if eqx.is_array(x) else x, actors)
    few = play(env, swapped, [6, 2], [1.0, 1.0], episodes=20)
    np.testing.assert_array_equal(few.returns[0], many.returns[1, :20])
    assert np.any(few.returns[1] != many.returns[0, :20])
    other = play(env, actors, [5, 6], [1.0, 1.0], episodes=150, seed=1)
    assert np.any(other.returns != many.returns)
    assert np.any(many.returns[0, :50] != many.returns[0, 100:])  # every hundred is a hundred of its own


def test_at_least_one_episode_is_needed(tiger):
    env, actors = tiger
    with pytest.raises(ValueError, match="episodes is 0; at least 1"):
        play(env, actors, [0, 1], [1.0, 1.0], episodes=0)


def test_doing_nothing_useful_has_reached_0_and_the_best_policy_1():
    shopping = scores("shopping-5")  # -62 without a query, 4 with one
    assert shopping is not None
    listening, half, best = (
        each.reached for each in evaluate_runs(play_of([[-62.0] * 2, [-62.0, 4.0], [4.0] * 2]), shopping)
    )
    assert (listening, best) == ((0.0, 0.0), (1.0, 0.0))
    assert half == pytest.approx((0.5, 0.5))  # the standard error is on the same scale
    cleaner = scores("cleaner")  # 71 without looking, which is the best: 0 is a random policy
    assert cleaner is not None
    (cleaned,) = evaluate_runs(play_of([[13.5676, 13.5676]]), cleaner)
    assert cleaned.reached is not None
    assert cleaned.reached.mean == pytest.approx(0, abs=1e-3)
    assert [each.reached for each in evaluate_runs(play_of([[1.0, 2.0]]))] == [None]


def play_of(returns: list[list[float]]):
    from asymrl.runs.evaluation import Outcomes

    array = np.array(returns)
    return Outcomes(array, array, np.ones_like(array, int), np.zeros_like(array, bool))


def test_over_seeds_the_error_is_that_of_the_means_of_the_seeds():
    def evaluation(mean: float, reached: Estimate | None) -> Evaluation:
        number = Estimate(mean, 0.1)
        return Evaluation(number, number, number, mean / 10, 1 - mean / 10, reached)

    found = over_seeds([evaluation(mean, Estimate(mean / 10, 0.0)) for mean in (1.0, 2.0, 6.0)])
    assert found.returns == pytest.approx((3.0, np.std([1, 2, 6], ddof=1) / math.sqrt(3)))
    assert found.reached is not None
    assert found.reached.mean == pytest.approx(0.3)
    assert (found.terminated, found.truncated) == pytest.approx((0.3, 0.7))
    single = over_seeds([evaluation(1.0, None)])
    assert math.isnan(single.returns.error)
    assert single.reached is None
