"""Exact values along an episode, against all trajectories of the policy and against the belief by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asymrl import theory
from asymrl.runs.playback import Playback, play_back
from asymrl.runs.trained import TrainedRun
from asymrl.theory.audit import episode_values as episode_values_module, simulated_values
from asymrl.theory.audit.episode_values import ExactPolicy, episode_beliefs, episode_values, exact_policy
from asymrl.theory.audit.simulated_values import simulated_state_values
from asymrl.theory.audit.trained_networks import TrainedActor
from asymrl.worlds import FiniteWorld
from tests.oracles.trajectories import mean_returns, trajectories
from tests.theory.audit.networks import acts, untrained


@pytest.fixture(scope="module")
def tiger() -> tuple[FiniteWorld, TrainedRun, Playback]:
    """An untrained agent that hears the tiger left or right, and one of its episodes."""
    world, settings, state = untrained("tiger", method="a2c-asym-hs", bootstrap_truncated=False, estimator="mc")
    playback = play_back(world, settings, state.actor, state.critic, seed=1)
    return world, TrainedRun(state, settings, 0, world, 0.0), playback


def history(world: FiniteWorld, playback: Playback, t: int) -> theory.History:
    pairs = zip(playback.actions[:t].tolist(), playback.observations[1 : t + 1].tolist(), strict=True)
    return tuple(pairs)


def test_values_are_mean_returns_over_all_trajectories(tiger: tuple[FiniteWorld, TrainedRun, Playback]):
    world, run, playback = tiger
    exact = exact_policy(run, mass=1.0)
    values = episode_values(world, playback, exact)
    pomdp, discount = world.pomdp(), run.settings.discount
    paths = list(trajectories(pomdp, acts(run.state.actor, pomdp.observations), 4))
    of_h = mean_returns(paths, discount, lambda path, t: path.histories[t])
    of_hs = mean_returns(paths, discount, lambda path, t: (path.histories[t], path.states[t]))
    of_s = mean_returns(paths, discount, lambda path, t: path.states[t])
    for t in range(len(playback.actions)):
        h, s = history(world, playback, t), int(playback.states[t])
        assert values.V_h[t] == pytest.approx(of_h[h], abs=1e-4)
        assert values.V_hs[t] == pytest.approx(of_hs[h, s], abs=1e-4)
        assert values.V_s[t] == pytest.approx(of_s[s], abs=1e-4)
    assert exact.missing == ""
    np.testing.assert_array_equal(values.V_h_error, 0.0)
    assert not values.simulated.any()


def test_the_belief_is_the_one_of_the_history(tiger: tuple[FiniteWorld, TrainedRun, Playback]):
    world, _, playback = tiger
    beliefs = episode_beliefs(world, playback)
    assert beliefs.shape == (len(playback.actions), 2)
    for t, belief in enumerate(beliefs):
        np.testing.assert_allclose(belief, theory.belief_of(world.pomdp(), history(world, playback, t)))


def test_what_was_not_followed_is_simulated(tiger: tuple[FiniteWorld, TrainedRun, Playback]):
    world, run, playback = tiger
    few = exact_policy(run, limit=40)
    values = episode_values(world, playback, few)
    whole = episode_values(world, playback, exact_policy(run))
    assert "likeliest histories" in few.missing or few.analysis is None
    assert "simulated" in few.missing
    assert values.simulated.any()
    for name in ("V_h", "V_hs"):
        distance = np.abs(getattr(values, name) - getattr(whole, name))
        assert (distance <= 4.5 * getattr(values, f"{name}_error") + 1e-4).all()
    np.testing.assert_allclose(values.V_s, whole.V_s, rtol=0.15)  # as far as so many episodes tell
    none = episode_values(world, playback, ExactPolicy(None, None, "too large"))
    assert all(np.isnan(part).all() for part in none[:5])


def test_simulated_state_values_are_what_the_targets_teach(tiger: tuple[FiniteWorld, TrainedRun, Playback]):
    world, run, _ = tiger
    exact = exact_policy(run, mass=1.0).analysis
    assert exact is not None
    policy, discount = TrainedActor(run.state.actor), run.settings.discount
    for kind in ("mc", "td0"):
        V = simulated_state_values(world.pomdp(), policy, discount, bootstraps=kind == "td0", enough=80_000)
        np.testing.assert_allclose(V, exact.visit_values(kind), rtol=0.05)


def test_a_greedy_policy_is_followed_as_it_acts(tiger: tuple[FiniteWorld, TrainedRun, Playback]):
    """Of a policy without chance, and a world whose observations have two values, there are few histories."""
    _, run, _ = tiger
    greedy = exact_policy(run, greedy=True)
    assert greedy.analysis is not None
    assert greedy.analysis.left_over == 0
    np.testing.assert_array_equal(np.sort(greedy.analysis.graph.pi, 1)[:, :-1], 0)


def test_the_values_of_an_untrained_agent_in_long_episodes_take_few_simulated_steps(monkeypatch: pytest.MonkeyPatch):
    """Its likely histories are too many to be followed, and a hundred steps are not simulated one by one."""
    world, settings, state = untrained(
        "tiger", method="a2c-asym-hs", bootstrap_truncated=False, estimator="mc", time_limit=100
    )
    run = TrainedRun(state, settings, 0, world, 0.0)
    playback = play_back(world, settings, state.actor, state.critic, seed=1)
    counted, limits = [], []

    def counting(*args: Any) -> simulated_values.Transitions:
        counted.append(len((steps := simulate(*args)).reward))
        return steps

    def limited(*args: Any, limit: int, **options: Any) -> theory.Analysis:
        limits.append(limit)
        return analyse(*args, limit=limit, **options)

    simulate, analyse = simulated_values.simulate, episode_values_module.analyse
    monkeypatch.setattr(simulated_values, "simulate", counting)
    monkeypatch.setattr(episode_values_module, "analyse", limited)
    exact = exact_policy(run)
    values = episode_values(world, playback, exact)
    assert "far too many likely histories" in exact.missing
    assert max(limits) <= 1000
    assert counted[0] <= simulated_values.STATE_STEPS + 100 * simulated_values.TOGETHER
    assert sum(counted[1:]) <= 1.1 * simulated_values.EPISODE_STEPS
    assert 20 <= values.simulated.sum() < 100
    assert values.simulated[0]
    assert np.isfinite(values.V_s).all()
