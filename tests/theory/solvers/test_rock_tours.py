"""Bounds for RockSample are the optima of RockSample with other sensors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from asymrl.theory.solvers import known_returns, qmdp, solve
from asymrl.theory.solvers.memoryless import uniform_return
from asymrl.theory.solvers.rock_tours import rock_bounds, rock_returns, uniform_rock_return
from asymrl.worlds import RockSample, scores
from asymrl.worlds.builtin.rock_terrain import Terrain, terrain_of
from asymrl.worlds.pomdp import Pomdp

DISCOUNT = 0.95


def problem(terrain: Terrain) -> Pomdp:
    return RockSample(terrain).pomdp()


@settings(max_examples=8)
@given(n=st.integers(2, 4), k=st.integers(1, 3), seed=st.integers(0, 99))
def test_tours_are_the_optima_for_other_sensors(n: int, k: int, seed: int):
    # With a sensor that is always right, or right on the rock only, there are few beliefs, and all are enumerated.
    always_right, right_here = (terrain_of(n, k, seed, half_efficiency=distance) for distance in (1e12, 1e-6))
    best = {terrain: solve(problem(terrain), discount=DISCOUNT) for terrain in (always_right, right_here)}
    assert best[right_here].kind == "exact"
    bounds = rock_bounds(right_here, DISCOUNT)
    assert bounds.low == pytest.approx(best[right_here].value, rel=1e-9)
    assert bounds.high == pytest.approx(best[always_right].value, rel=1e-6)
    pomdp = problem(right_here)
    seen = qmdp(pomdp, None, DISCOUNT).vectors[-1].max(0)
    assert bounds.full_information == pytest.approx(pomdp.start @ seen, rel=1e-7)
    assert bounds.low <= bounds.high <= bounds.full_information


@settings(max_examples=5)
@given(seed=st.integers(0, 99), half_efficiency=st.floats(1, 40))
def test_the_optimum_lies_between_the_bounds(seed: int, half_efficiency: float):
    terrain = terrain_of(3, 2, seed, half_efficiency)
    best, bounds = solve(problem(terrain), discount=DISCOUNT, seconds=2.0), rock_bounds(terrain, DISCOUNT)
    assert bounds.low <= best.high + 1e-9
    assert best.low <= bounds.high + 1e-9


def test_checks_from_afar_raise_the_lower_bound():
    with_checks, without = (rock_bounds(terrain_of(5, 7, half_efficiency=d), DISCOUNT).low for d in (20.0, 1e-6))
    assert without == pytest.approx(22.7248, abs=1e-4)
    assert with_checks == pytest.approx(24.3268, abs=1e-4)


@pytest.mark.parametrize("name", ["4_4", "7_8"])
def test_everything_can_be_collected_without_discount(name: str):
    n, k = map(int, name.split("_"))
    bounds = rock_bounds(terrain_of(n, k), 1.0)
    assert bounds.low == bounds.high == bounds.full_information == 10 + 5 * k
    assert bounds.longest <= 100


@pytest.mark.parametrize("discount", [0.95, 1.0])
def test_random_actions_rock_by_rock(discount: float):
    terrain = terrain_of(4, 4)
    assert uniform_rock_return(terrain, 30, discount) == pytest.approx(
        uniform_return(problem(terrain), 30, discount), rel=1e-9
    )


def test_a_short_episode_has_weaker_bounds():
    terrain = terrain_of(4, 4)
    short = rock_returns(terrain, 5, DISCOUNT)
    assert short["best"].low == 0
    assert short["uninformed"].low == 10 * DISCOUNT**3
    assert rock_returns(terrain, 3, DISCOUNT)["uninformed"].low == 0


@pytest.mark.parametrize(
    "name", ["rock-sample-4-4", "rock-sample-7-8", pytest.param("rock-sample-11-11", marks=pytest.mark.slow)]
)
def test_recorded_returns(name: str):
    known = scores(name)
    assert known is not None
    terrain = terrain_of(*map(int, name.split("-")[2:]))
    for discount, recorded in ((1.0, known.undiscounted), (DISCOUNT, known.discounted)):
        computed = rock_returns(terrain, 100, discount)
        for who in ("random", "uninformed", "full_information"):
            assert recorded[who].low == pytest.approx(computed[who].low, rel=1e-9)
        # That of 4-4 is recorded from heuristic search value iteration, and tighter.
        assert computed["best"].low <= recorded["best"].low + 1e-9
        assert recorded["best"].high <= computed["best"].high + 1e-9


def test_returns_of_other_sizes():
    found = known_returns("rock-sample-6-5:layout_seed=1")
    assert found is not None
    assert found.undiscounted["best"].low == 35
    assert found.discounted["best"].kind == "bounds"
    assert known_returns("rock-sample-6-13") is None
    with pytest.raises(ValueError, match="rock-sample-6-13: bounds for 13 rocks need 3\\^13 values; at most 12 rocks"):
        rock_bounds(terrain_of(6, 13), DISCOUNT)


def test_long_mazes_have_time_for_their_goal():
    found = known_returns("t-maze-120")
    assert found is not None
    assert found.undiscounted["best"].low == 4
