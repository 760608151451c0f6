"""Point-based bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from asymrl.theory.exact.policies import BeliefPolicy
from asymrl.theory.solvers import hsvi, optima
from asymrl.theory.solvers.bounds import fib
from asymrl.theory.solvers.deadline import Deadline
from asymrl.theory.solvers.hsvi import point_based, truncated
from asymrl.theory.solvers.hsvi_values import Sawtooth, Vectors
from asymrl.theory.solvers.optima import solve
from asymrl.worlds import Tiger
from tests.theory.exact.worlds import problem
from tests.theory.solvers.oracles import expected_return, optimum, random_world


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
    tooth = Sawtooth(np.array([[1.0, 3.0]]))
    middle = np.array([0.5, 0.5])
    tooth.add(middle, np.array([1.0]))
    at = tooth.at(np.array([[1, 0], [0.75, 0.25], [0.5, 0.5], [0.25, 0.75], [0, 1]]))
    np.testing.assert_allclose(at, [1, 1, 1, 2, 3])
    tooth.lower(np.array([0]), np.array([[2.0]]), 0.0)
    assert tooth.at(middle[None])[0] == 1.0, "a worse value changes nothing"


def test_actions_are_interpolated_one_by_one():
    # Each action is worth 1 in one state and 0 in the other: 0.5 in the middle. The plane through the maxima says 1.
    tooth = Sawtooth(np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert tooth.at(np.array([[0.5, 0.5]]))[0] == 0.5


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_the_lowest_cone_is_found_among_all(seed):
    rng = np.random.default_rng(seed)
    tooth = Sawtooth(rng.normal(size=(2, 6)))
    points = rng.dirichlet(np.full(6, 0.3), 30) * (rng.random((30, 6)) < 0.8) + 1e-9 * np.eye(6)[0]
    points /= points.sum(1, keepdims=True)
    for point in points:
        tooth.add(point, tooth.corners @ point - rng.random(2))
    beliefs = rng.dirichlet(np.full(6, 0.3), 10)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(beliefs[:, None] / points, nan=np.inf, posinf=np.inf).min(2)
    expected = (beliefs @ tooth.corners.T + (share[:, :, None] * tooth.drops).min(1)).max(1)
    np.testing.assert_allclose(tooth.at(beliefs), expected, rtol=1e-12, atol=1e-12)


def test_beaten_plans_are_compared_no_more():
    plans = Vectors(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1]))
    plans.add(np.array([1.0, 0.5]), 2)
    np.testing.assert_array_equal(plans.useful, [0, 2])
    number, value = plans.best(np.array([[1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_array_equal(plans.action[number], [2, 0])
    np.testing.assert_array_equal(value, [1.0, 1.0])


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), discount=st.sampled_from([0.3, 0.5]), trials=st.integers(0, 4))
def test_endless_bounds_enclose_the_optimum_at_any_time(seed, discount, trials):
    world = random_world(seed)
    ticks = itertools.count()
    # The clock moves by one second at each look, so that the search is stopped at some point or other.
    deadline = Deadline(40 * trials, lambda: float(next(ticks)))
    found = point_based(world.pomdp(), None, discount, precision=1e-6, deadline=deadline)
    steps = 7
    best, tail = optimum(world, steps, discount), discount**steps / (1 - discount) * np.abs(world.rewards).max()
    assert found.low <= best + tail + 1e-9
    assert best - tail <= found.high + 1e-9


def test_the_deadline_holds_for_a_discount_of_nearly_one():
    ticks = itertools.count()
    pomdp = random_world(3).pomdp()
    found = point_based(pomdp, None, 0.99999, precision=0.0, deadline=Deadline(300, lambda: float(next(ticks))))
    assert found.low <= found.high
    assert next(ticks) < 320, "hardly anything may happen after the end"


def test_bounds_of_long_episodes_come_from_endless_ones():
    # 0.9^60 is small enough to use endless episodes; both give the optimum of 60 actions.
    pomdp = random_world(1).pomdp()
    best = solve(pomdp, 60, 0.9)
    found = optima._point_based_endless(pomdp, 60, 0.9, Deadline(20))
    assert found.low <= best.high + 1e-9
    assert best.low <= found.high + 1e-9
    assert found.high - found.low < 0.05
    # The correction is that of the quick bounds, even if the time is over when they are used.
    ticks = itertools.count()
    early = optima._point_based_endless(pomdp, 60, 0.9, Deadline(60, lambda: float(next(ticks))))
    endless = point_based(pomdp, None, 0.9, deadline=Deadline(0.0))
    assert early.low >= endless.low - 0.9**60 * max(fib(pomdp, None, 0.9).vectors.max(), 0) - 1e-9


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), horizon=st.integers(0, 5), discount=st.sampled_from([0.4, 0.8]))
def test_endless_bounds_hold_for_truncated_episodes(seed, horizon, discount):
    world = random_world(seed)
    ticks = itertools.count()
    endless = point_based(world.pomdp(), None, discount, deadline=Deadline(200, lambda: float(next(ticks))))
    found = truncated(endless, horizon)
    best = optimum(world, horizon, discount)
    assert found.low <= best + 1e-9
    assert best <= found.high + 1e-9
    if found.make_controller is not None:
        attained = expected_return(world.pomdp(), found.make_controller(), horizon, discount)
        assert attained >= found.low - 1e-9


def test_long_episodes_are_not_followed_to_the_end(monkeypatch):
    pomdp = random_world(2).pomdp()
    endless = point_based(pomdp, None, 0.9, seconds=1)
    tight = truncated(endless, 30)
    monkeypatch.setattr(hsvi, "WORK", 0)
    loose = truncated(endless, 30)
    assert loose.low <= tight.low <= tight.high <= loose.high


def test_a_cut_off_costs_what_its_tail_is_worth():
    # Endless bounds nearly meet; those of episodes that are cut off should be as close, not a tail apart.
    pomdp = Tiger().pomdp()
    endless = point_based(pomdp, None, 0.95, precision=1e-3, seconds=20)
    found = truncated(endless, 90)
    best = solve(pomdp, 90, 0.95).value
    assert found.low <= best + 1e-9 <= found.high + 2e-9
    assert found.high - found.low <= 1.1 * (endless.high - endless.low)
    # Without time for that, the bounds hold too.
    early = truncated(endless, 90, Deadline(0.0))
    assert early.low <= found.low
    assert found.high <= early.high
    assert early.make_controller is None


def test_a_forgotten_plan_is_compared_no_more():
    plans = Vectors(np.array([[0.0, 1.0], [1.0, 0.0], [0.6, 0.6]]), np.array([0, 1, 2]))
    plans.keep(np.array([0, 2]))
    np.testing.assert_array_equal(plans.best(np.eye(2))[0], [2, 0])
    plans.add(np.array([0.0, 2.0]), 1)
    np.testing.assert_array_equal(plans.useful, [2, 3])
    np.testing.assert_array_equal(plans.best(np.eye(2))[0], [2, 3])


def test_a_steady_mixture_hedges():
    # Each plan is worth nothing in one of the states; half of each is worth 1/2 in both.
    np.testing.assert_allclose(hsvi.steady_mixture(np.eye(2), 1000), 0.5, atol=0.05)


def test_plans_are_raised_in_all_visited_beliefs():
    pomdp = Tiger().pomdp()
    layer = point_based(pomdp, None, 0.95, seconds=0.0).layers[0]
    for certainty in (0.5, 0.85, 0.97):
        layer.visit(np.array([certainty, 1 - certainty]))
    before = layer.vectors.at(layer.sawtooth.points)
    for _ in range(200):
        layer.raise_plans(Deadline())
    after = layer.vectors.at(layer.sawtooth.points)
    # Listening and opening the likelier door need few beliefs; blind plans lose at each of them.
    assert (after > before + 1).all()
    assert after[0] <= 19.37136837489092 + 1e-9
