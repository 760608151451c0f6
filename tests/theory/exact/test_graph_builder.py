"""Following the likeliest histories only: the rest is bounded, for any policy."""

import math

import numpy as np
import pytest

from asymrl import theory
from asymrl.theory.exact.graph_builder import unroll
from tests.oracles.trajectories import random_policy
from tests.theory.exact.worlds import problem

WORLDS = {"heaven-hell-1": 5, "tiger": 4, "shopping-2": 4, "good-bad": 5}


@pytest.mark.parametrize(("name", "depth"), WORLDS.items())
@pytest.mark.parametrize("mass", [0.3, 0.8, 0.99])
def test_truth_lies_within_the_error(name: str, depth: int, mass: float) -> None:
    pomdp = problem(name)
    policy = random_policy(3, pomdp.actions)
    all_of_it = theory.analyse(pomdp, policy, horizon=depth)
    likely = theory.analyse(pomdp, policy, horizon=depth, mass=mass)
    assert likely.graph.nodes <= all_of_it.graph.nodes
    assert likely.left_over <= 1 - mass
    assert abs(likely.J - all_of_it.J) <= likely.error + 1e-12
    graph = likely.graph
    for node in np.flatnonzero(~graph.open)[::9]:
        h = graph.history(int(node))
        assert abs(likely.V(h) - all_of_it.V(h)) <= likely.V_error(h) + 1e-12
    np.testing.assert_allclose(graph.per_node(graph.belief * likely.values.V_hs), likely.values.V_h, atol=1e-12)


def test_open_histories_with_equal_beliefs_are_one_node() -> None:
    pomdp = problem("heaven-hell-1")
    policy = theory.analyse(pomdp, random_policy(3, pomdp.actions), horizon=7).policy
    apart = unroll(pomdp, policy, 7, merge="history", threshold=0.01)
    merged = unroll(pomdp, policy, 7, threshold=0.01)
    assert merged.open.sum() < apart.open.sum() / 2
    assert (~merged.open).sum() == (~apart.open).sum()
    assert merged.left_over == pytest.approx(apart.left_over, abs=1e-14)
    for t in range(7):
        here, there = (np.bincount(g.state, np.where(g.time[g.node] == t, g.mass, 0.0)) for g in (merged, apart))
        np.testing.assert_allclose(here, there, atol=1e-14)


def test_an_endless_graph_with_too_many_transitions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asymrl.theory.exact.graph_builder.EDGES", 10)
    with pytest.raises(theory.TooLargeError, match="more than 10 transitions; give a horizon"):
        theory.analyse("tiger", "uniform", horizon=math.inf)
