"""Point-based bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

from asymrl.solvers.optima import solve
from asymrl.solvers.pointbased import Sawtooth, Vectors, point_based
from asymrl.theory.policies import BeliefPolicy
from asymrl.worlds import Tiger
from tests.solvers.oracles import expected_return, random_world
from tests.theory.worlds import problem


def test_endless_tiger_is_between_the_bounds():
    found = point_based(Tiger().pomdp(), None, 0.95, precision=1e-2)
    assert found.low <= 19.37136837489092 <= found.high
    assert found.high - found.low <= 1e-2 * 19.5


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), shows_first=st.booleans())
def test_random_problems_with_a_horizon(seed, shows_first):
    pomdp = random_world(seed, shows_first=shows_first).pomdp()
    found = point_based(pomdp, 5, 0.9, precision=1e-6, seconds=10)
    best = solve(pomdp, 5, 0.9).value
    assert found.low <= best + 1e-12
    assert best <= found.high + 1e-12
    assert found.high - found.low <= 1e-5


def test_shopping_is_solved_nearly():
    found = point_based(problem("shopping-4"), 100, 1.0)
    assert found.low == pytest.approx(5.0, abs=1e-2)
    assert found.high == pytest.approx(5.0, abs=1e-2)


def test_bounds_hold_however_early_one_stops():
    pomdp = problem("shopping-3")
    best = solve(pomdp, 20, 0.99).value
    found = point_based(pomdp, 20, 0.99, seconds=0.0)
    assert found.low <= best <= found.high


@pytest.mark.parametrize("seconds", [0.0, 5.0])
def test_the_policy_gets_what_the_lower_bound_promises(seconds):
    pomdp = Tiger().pomdp()
    found = point_based(pomdp, 6, 0.95, precision=1e-6, seconds=seconds)
    policy = BeliefPolicy(pomdp, found.action, timed=True)
    assert expected_return(pomdp, policy, 6, 0.95) >= found.low - 1e-9


def test_a_sawtooth_has_its_points_and_is_straight_between_them():
    tooth = Sawtooth(np.array([1.0, 3.0]))
    tooth.add(sparse.csr_array(np.array([[0.5, 0.5]])), 1.0)
    at = tooth.at(sparse.csr_array(np.array([[1, 0], [0.75, 0.25], [0.5, 0.5], [0.25, 0.75], [0, 1]])))
    np.testing.assert_allclose(at, [1, 1, 1, 2, 3])
    tooth.add(sparse.csr_array(np.array([[0.5, 0.5]])), 2.0)
    assert tooth.at(sparse.csr_array(np.array([[0.5, 0.5]])))[0] == 1.0, "a worse point changes nothing"


def test_beaten_plans_are_dropped():
    plans = Vectors(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1]))
    plans.add(np.array([1.0, 0.5]), 2)
    np.testing.assert_array_equal(plans.alpha, [[0.0, 1.0], [1.0, 0.5]])
    np.testing.assert_array_equal(plans.action, [0, 2])
