"""Optimal returns and the plans that get them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings, strategies as st

from asymrl.theory.exact.analysis import analyse
from asymrl.theory.solvers.bounds import blind
from asymrl.theory.solvers.optima import solve
from asymrl.theory.solvers.references import known_returns, reference_returns
from asymrl.theory.solvers.search import search, searched_plan
from asymrl.worlds import FiniteWorld, GoodBad, HeavenHell, Tiger, make, scores
from asymrl.worlds.builtin.heaven_hell import EAST, NORTH, SOUTH, WEST
from asymrl.worlds.reference_scores import Score
from tests.theory.exact.worlds import problem
from tests.theory.solvers.oracles import expected_return, optimum, random_world


@pytest.mark.parametrize(
    ("name", "discount", "best"),
    [
        ("heaven-hell-3", 1.0, 1.0),
        ("heaven-hell-3", 0.99, 0.99**14),
        ("heaven-hell-4", 1.0, 1.0),
        ("heaven-hell-4", 0.99, 0.99**18),
        # Query, walk d cells, buy: -2 - sum of d discounted steps + 10 later, averaged over the item.
        ("shopping-5", 1.0, 4.0),
        ("shopping-5", 0.99, 3.6300400955235848),
        ("shopping-6", 1.0, 3.0),
        ("shopping-6", 0.99, 2.5933306524107405),
        ("good-bad", 0.99, (1 - 0.99**100) / 0.01),
    ],
)
def test_known_optima(name, discount, best):
    pomdp = problem(name)
    found = solve(pomdp, discount=discount)
    assert found.kind == "exact"
    assert found.value == pytest.approx(best, rel=1e-12)
    for timed in (True, False):
        assert expected_return(pomdp, found.policy(timed), 100, discount) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_heaven_hell_in_closed_form(n):
    assert solve(HeavenHell(n).pomdp()).value == pytest.approx(0.99 ** (4 * n + 2), rel=1e-12)


@pytest.mark.parametrize("n", [3, 4])
def test_values_of_the_fork_in_closed_form(n):
    pomdp = HeavenHell(n).pomdp()
    analysis = analyse(pomdp, solve(pomdp).policy(timed=False))
    to_fork = tuple((NORTH, cell) for cell in range(1, n + 1))
    # Back to the priest and here again, then n cells and the action that leaves.
    assert analysis.V(to_fork) == pytest.approx(0.99 ** (5 * n + 2), rel=1e-12)
    corner, priest, west = 3 * n + 1, 4 * n + 1, 0
    to_priest = ((SOUTH, corner), *((EAST, cell) for cell in range(corner + 1, priest + 1)))
    back = (*((WEST, cell) for cell in range(priest - 1, corner - 1, -1)), (NORTH, 0))
    assert analysis.V((*to_priest, *back, *to_fork), n + west) == pytest.approx(0.99**n, rel=1e-12)


def test_an_episode_too_short_for_the_priest_is_worth_nothing():
    assert solve(HeavenHell(3).pomdp(), horizon=14).value == 0.0
    assert solve(HeavenHell(3).pomdp(), horizon=15).value == pytest.approx(0.99**14, rel=1e-12)


def test_the_plan_does_not_dawdle_where_time_costs_nothing():
    pomdp = HeavenHell(3).pomdp()
    plan = solve(pomdp, discount=1.0).policy()
    assert expected_return(pomdp, plan, 15, 1.0) == pytest.approx(1.0)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), shows_first=st.booleans(), discount=st.sampled_from([0.5, 0.9, 1.0]))
def test_random_problems_against_trying_everything(seed, shows_first, discount):
    world = random_world(seed, shows_first=shows_first)
    pomdp = world.pomdp()
    found = solve(pomdp, horizon=4, discount=discount)
    assert found.kind == "exact"
    assert found.value == pytest.approx(optimum(world, 4, discount), abs=1e-11)
    assert expected_return(pomdp, found.policy(), 4, discount) == pytest.approx(found.value, abs=1e-12)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), shows_first=st.booleans())
def test_searching_agrees_with_enumerating(seed, shows_first):
    pomdp = random_world(seed, shows_first=shows_first).pomdp()
    found = search(pomdp, 5, 0.9)
    assert found.exact
    assert found.lower == pytest.approx(solve(pomdp, horizon=5, discount=0.9).value, abs=1e-12)


def test_a_search_that_is_cut_short_gives_bounds_and_a_plan_that_keeps_them():
    pomdp = problem("shopping-5")
    found = search(pomdp, 100, 0.99, limit=100)
    assert not found.exact
    assert found.lower < solve(pomdp).value <= found.upper
    plan = searched_plan(found, blind(pomdp, 100, 0.99).vectors).controller()
    assert expected_return(pomdp, plan, 100, 0.99) == pytest.approx(found.lower, rel=1e-12)


def test_what_is_not_proven_is_bounded():
    pomdp = problem("shopping-3")
    found = solve(pomdp, horizon=20, limit=50, seconds=1.0)
    best = solve(pomdp, horizon=20).value
    assert found.kind == "bounds"
    assert found.low <= best + 1e-9
    assert best <= found.high + 1e-9


def test_endless_problems_with_many_beliefs_are_bounded():
    # It ends as soon as the bounds have met, long before that on an idle machine.
    found = solve(problem("shopping-4"), horizon=math.inf, seconds=60.0)
    assert found.kind == "bounds"
    # Asking first takes at most 8 actions; beyond a hundred nothing is left to gain.
    best = solve(problem("shopping-4")).value
    assert found.low == pytest.approx(best, abs=5e-3)
    assert found.high == pytest.approx(best, abs=5e-3)


def test_endless_tiger():
    pomdp = Tiger(discount=0.95, time_limit=None).pomdp()
    found = solve(pomdp)
    assert found.kind == "exact"
    assert found.value == pytest.approx(19.3714, abs=5e-5)  # the literature's number
    assert expected_return(pomdp, found.policy(), 600, 0.95) == pytest.approx(found.value, rel=1e-9)
    assert solve(Tiger().pomdp(), horizon=math.inf).value == pytest.approx(found.value, rel=1e-12)


def test_endless_good_bad():
    assert solve(GoodBad(time_limit=None).pomdp()).value == pytest.approx(100, rel=1e-9)


def test_tiger_with_one_to_three_actions():
    # One action: listen. Two: listening twice is still best. Three: listen twice, open if both noises agree.
    pomdp = Tiger().pomdp()
    agree, right = 0.85**2 + 0.15**2, 0.85**2
    opened = 10 * right - 100 * (agree - right)
    third = -1 - 0.95 + 0.95**2 * (opened - (1 - agree))
    assert [solve(pomdp, horizon=h).value for h in (1, 2, 3)] == pytest.approx([-1, -1.95, third], rel=1e-12)


def computed_and_stored(name: str) -> list[tuple[dict[str, Score], dict[str, Score]]]:
    """The reference returns of a world, undiscounted and discounted: as computed now, and as recorded."""
    world, stored = make(name), scores(name)
    assert isinstance(world, FiniteWorld)
    assert stored is not None
    computed = reference_returns(world, starts=1)
    return [(computed.undiscounted, stored.undiscounted), (computed.discounted, stored.discounted)]


@pytest.mark.parametrize("name", ["heaven-hell-3", "heaven-hell-4", "good-bad", "tiger"])
def test_computed_references_agree_with_the_stored_ones(name):
    for have, want in computed_and_stored(name):
        for who in have.keys() & want.keys():
            assert have[who].low == pytest.approx(want[who].low, abs=1e-5), who


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shopping-5", "shopping-6"])
def test_computed_references_of_shopping(name):
    for have, want in computed_and_stored(name):
        for who in ("random", "best"):
            assert have[who].low == pytest.approx(want[who].low, rel=1e-9), who
        # The best list of actions walks through every cell once: a beam finds one that is nearly as good.
        assert have["uninformed"].kind == "found"
        assert 0 <= want["uninformed"].low - have["uninformed"].low <= 0.01 * abs(want["uninformed"].low)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"discount": 1.5}, "discount is 1.5"),
        ({"horizon": -1}, "horizon is -1"),
        ({"horizon": math.inf, "discount": 1.0}, "endless undiscounted"),
    ],
)
def test_returns_that_do_not_exist(options, message):
    with pytest.raises(ValueError, match=message):
        solve(Tiger().pomdp(), **options)


def test_returns_of_worlds_without_a_record_are_computed_where_that_is_cheap():
    found = known_returns("heaven-hell-6")
    assert found is not None
    assert found.undiscounted["best"].low == pytest.approx(1)
    assert found.discounted["best"].low == pytest.approx(0.99**26)  # south, to the priest and back, to heaven's exit
    assert known_returns("tiger") is scores("tiger")
    assert known_returns("shopping-9") is None
    assert known_returns("nonsense") is None
