"""Policies without memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from asymrl.theory.exact.policies import reactive
from asymrl.theory.solvers.memoryless import ReactiveChain, best_memoryless, uniform_return
from asymrl.theory.solvers.optima import solve
from asymrl.theory.solvers.uninformed import best_open_loop
from asymrl.worlds import GoodBad, HeavenHell, Tiger
from tests.theory.exact.worlds import problem
from tests.theory.solvers.oracles import expected_return, random_world, tables


def random_table(seed: int, rows: int, actions: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(actions), rows)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), shows_first=st.booleans())
def test_values_and_gradients_of_random_tables(seed, shows_first):
    pomdp = random_world(seed, shows_first=shows_first).pomdp()
    chain, pi = ReactiveChain(pomdp, 4, 0.9), random_table(seed, pomdp.observations + 1, pomdp.actions)
    value, gradient, _ = chain.evaluate(pi)
    assert value == pytest.approx(expected_return(pomdp, reactive(pi), 4, 0.9), abs=1e-12)
    for o, a in np.ndindex(*pi.shape):
        step = np.zeros_like(pi)
        step[o, a] = 1e-5
        slope = (chain.value(pi + step) - chain.value(pi - step)) / 2e-5
        assert gradient[o, a] == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize(
    ("name", "undiscounted", "discounted"),
    [
        ("heaven-hell-3", 0.0, 0.0),
        ("shopping-5", -142.49465855992528, -93.57815528338509),
        ("shopping-6", -154.0273163427869, -100.03966941930283),
    ],
)
def test_random_policies(name, undiscounted, discounted):
    pomdp = problem(name)
    assert uniform_return(pomdp, 100, 1.0) == pytest.approx(undiscounted, rel=1e-12, abs=1e-15)
    assert uniform_return(pomdp, 100, 0.99) == pytest.approx(discounted, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    ("n", "discount", "best"), [(3, 1.0, 0.28467), (3, 0.99, 0.18329), (4, 1.0, 0.21090), (4, 0.99, 0.12472)]
)
def test_memoryless_heaven_hell(n, discount, best):
    pomdp = HeavenHell(n).pomdp()
    found = best_memoryless(pomdp, 100, discount, starts=1)
    assert found.value == pytest.approx(best, abs=1e-5)
    assert expected_return(pomdp, reactive(found.pi), 100, discount) == pytest.approx(found.value, rel=1e-9)


def test_memoryless_good_bad_needs_no_memory():
    assert best_memoryless(GoodBad().pomdp(), 100, 0.99, starts=1).value == pytest.approx(
        (1 - 0.99**100) / 0.01, rel=1e-6
    )


def test_memoryless_is_never_better_than_the_best():
    pomdp = Tiger().pomdp()
    assert best_memoryless(pomdp, 100, 0.95, starts=1).value <= solve(pomdp).value


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6))
def test_open_loop_against_all_lists(seed):
    world = random_world(seed)
    pomdp, (T, _) = world.pomdp(), tables(world)

    def value(actions: tuple[int, ...]) -> float:
        total, mass = 0.0, world.start
        for t, a in enumerate(actions):
            total += 0.9**t * float(mass @ world.rewards[:, a])
            mass = mass @ T[:, a]
        return total

    found = best_open_loop(pomdp, 4, 0.9)
    best = max(map(value, itertools.product(range(2), repeat=4)))
    assert found.kind == "exact"
    assert found.value == pytest.approx(best, abs=1e-12)
    assert value(tuple(found.actions.tolist())) == pytest.approx(best, abs=1e-12)


def test_without_looking_heaven_is_a_coin_flip():
    assert best_open_loop(HeavenHell(3).pomdp(), 100, 1.0).value == pytest.approx(0.0, abs=1e-15)


def test_shopping_without_looking_tries_every_cell():
    # The item is in the k-th cell tried with probability 1/16 each: 10 - 6k, k from 0.
    found = best_open_loop(problem("shopping-4"), 100, 1.0)
    assert found.kind == "found"
    assert found.value == pytest.approx(10 - 6 * 7.5)
