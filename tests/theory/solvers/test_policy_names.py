"""Policies by name, and the analysis of as much of an episode as fits."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import numpy as np
import pytest

from asymrl.theory import EpsilonSoft, History, TooLargeError, analyse, as_pomdp
from asymrl.theory.exact import graph_builder
from asymrl.theory.solvers import analyse_what_fits, policy_by_name, policy_names, solve
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.pomdp import Pomdp
from tests.oracles.trajectories import trajectories
from tests.theory.exact.worlds import problem
from tests.theory.solvers.oracles import expected_return


@pytest.fixture(scope="module")
def drifting() -> Pomdp:
    """Guess which of two states it is: the better, the more was remembered, and hardly two beliefs are the same."""
    T = np.repeat(np.array([[0.93, 0.07], [0.11, 0.89]])[:, None], 2, axis=1)
    O = np.array([[[0.8, 0.2], [0.3, 0.7]], [[0.7, 0.3], [0.15, 0.85]]])
    R = np.array([[1.0, -1.0], [-1.0, 1.0]])
    return as_pomdp(FiniteWorld.from_tables("drifting", T, O, R, np.array([0.5, 0.5])))


def test_whole_episodes_where_they_fit():
    analysis, best = analyse_what_fits(problem("heaven-hell-3"), "eps-optimal:0.5", 100)
    assert analysis.horizon == 100
    assert best.value == pytest.approx(0.99**14)


def test_the_beginning_where_they_do_not(drifting: Pomdp):
    analysis, best = analyse_what_fits(drifting, "eps-optimal:0.5", 50, limit=2_000, beliefs=2_000, seconds=0.5)
    assert 3 <= analysis.horizon <= 20
    assert analysis.graph.nodes <= 2_000
    assert analysis.J <= best.high <= analysis.horizon  # the optimum is that of as many actions, each worth 1 at most


def test_too_short_a_beginning_says_nothing(drifting: Pomdp):
    with pytest.raises(TooLargeError, match="does not fit: 21 nodes already at depth 2, 10 fit"):
        analyse_what_fits(drifting, "eps-optimal:0.5", 50, limit=10, beliefs=100, seconds=0.5)


def test_outcomes_are_counted_before_they_are_laid_out(drifting: Pomdp, monkeypatch: pytest.MonkeyPatch):
    # Every history has 2 states x 2 actions x 2 next states x 2 observations, and 4 histories follow it.
    monkeypatch.setattr(graph_builder, "EDGES", 16 * (1 + 4 + 16))
    assert analyse(drifting, lambda h: [0.5, 0.5], horizon=3, merge="history").graph.nodes == 1 + 4 + 16
    with pytest.raises(TooLargeError, match="1360 transitions already at depth 3, 336 fit") as caught:
        analyse(drifting, lambda h: [0.5, 0.5], horizon=4, merge="history")
    assert caught.value.depth == 3


def test_returns_of_policies_by_name() -> None:
    pomdp = problem("heaven-hell-1")
    best = solve(pomdp, 20)
    soft = expected_return(pomdp, EpsilonSoft(best.policy(timed=False), 0.25), 20, pomdp.discount)
    expected = {"uniform": 0.0, "optimal": 0.99**6, "eps-optimal:0": 0.99**6, "eps-optimal:0.25": soft}
    for name, value in expected.items():
        analysis = analyse(pomdp, policy_by_name(pomdp, name, best, 20), horizon=20)
        assert pytest.approx(value, abs=1e-12) == analysis.J, name


@pytest.mark.parametrize("k", [1, 2])
def test_window_does_what_the_expert_does_on_average(k: int) -> None:
    """Against the mean of the expert's action probabilities over all its trajectories, by their last k pairs."""
    pomdp = problem("heaven-hell-1")
    best = solve(pomdp, 4)
    expert = analyse(pomdp, EpsilonSoft(best.policy(timed=False), 0.5), horizon=4)
    total: dict[History, np.ndarray] = defaultdict(lambda: np.zeros(pomdp.actions))
    for path in trajectories(pomdp, cache(expert.pi), 4):
        for h in path.histories[: len(path.actions)]:
            total[h[-k:]] += path.probability * expert.pi(h)
    window = analyse(pomdp, policy_by_name(pomdp, f"window:{k}", best, 4), horizon=4)
    for pairs, mass in total.items():
        if not pairs or len(pairs) == k:
            np.testing.assert_allclose(window.policy.act(_memory(k, pairs))[0], mass / mass.sum(), atol=1e-12)


def _memory(k: int, pairs: History) -> np.ndarray:
    """The memory of a window policy that holds these pairs."""
    return np.array([[(-1, -1)] * (k - len(pairs)) + list(pairs)])


def test_three_actions_are_tried_even_if_the_policy_for_many_got_less_far(monkeypatch: pytest.MonkeyPatch):
    """The best policy for few actions is another one, whose histories may fit."""
    tried: list[float] = []

    def analyse_few(pomdp: Pomdp, policy: Any, *, horizon: int, limit: int) -> Any:
        tried.append(horizon)
        if horizon > 3:
            raise TooLargeError("too many", depth=1)
        return analyse(pomdp, policy, horizon=horizon, limit=limit)

    monkeypatch.setattr(policy_names, "analyse", analyse_few)
    analysis, best = analyse_what_fits(problem("tiger"), "eps-optimal:0.5", 50, seconds=0.5)
    assert tried == [50, 3]
    assert analysis.horizon == 3
    assert best.low <= best.high
