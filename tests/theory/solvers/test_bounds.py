"""Quick bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from asymrl.theory.solvers.belief_mdp import belief_graph
from asymrl.theory.solvers.bounds import Bound, blind, fib, qmdp
from asymrl.theory.solvers.deadline import Deadline
from asymrl.theory.solvers.optima import solve
from asymrl.worlds import HeavenHell, Tiger
from asymrl.worlds.pomdp import Pomdp
from tests.theory.exact.worlds import problem
from tests.theory.solvers.oracles import random_world


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), horizon=st.integers(1, 5), shows_first=st.booleans())
def test_bounds_lie_around_the_optimum_in_order(seed, horizon, shows_first):
    pomdp = random_world(seed, shows_first=shows_first).pomdp()
    best = solve(pomdp, horizon, 0.9).value
    lowest, high, highest = (bound(pomdp, horizon, 0.9).at_start(pomdp) for bound in (blind, fib, qmdp))
    assert lowest <= best + 1e-12
    assert best <= high + 1e-12
    assert high <= highest + 1e-12


def test_bounds_hold_in_every_belief_and_at_every_time():
    pomdp = Tiger().pomdp()
    graph = belief_graph(pomdp)
    over, under = fib(pomdp, 6, 0.95), blind(pomdp, 6, 0.95)
    value = np.zeros(len(graph))
    for k in range(1, 7):
        Q = graph.rewards + 0.95 * (graph.transition @ value).reshape(graph.rewards.shape)
        value = Q.max(1)
        assert np.all(under.at(graph.beliefs, k) <= value + 1e-12)
        assert np.all(value <= over.at(graph.beliefs, k) + 1e-12)


def test_tiger_in_closed_form():
    # QMDP: the tiger's place is seen after the first action, and then 10 is to be had at once and for ever.
    pomdp = Tiger(time_limit=None).pomdp()
    assert qmdp(pomdp, None, 0.95).at_start(pomdp) == pytest.approx(-1 + 0.95 * 10 / 0.05, abs=1e-6)
    # Blind: listen for ever.
    assert blind(pomdp, None, 0.95).at_start(pomdp) == pytest.approx(-1 / 0.05, abs=1e-6)


def test_qmdp_walks_straight_into_heaven():
    # Who sees the side needs 2n moves and the action that leaves, and never asks the priest.
    for n in (1, 3):
        pomdp = HeavenHell(n).pomdp()
        assert qmdp(pomdp, 100, 0.99).at_start(pomdp) == pytest.approx(0.99 ** (2 * n), rel=1e-12)


def test_fib_is_qmdp_where_nothing_is_random_given_the_state():
    pomdp = problem("shopping-3")
    np.testing.assert_allclose(fib(pomdp, 10, 0.99).vectors, qmdp(pomdp, 10, 0.99).vectors, rtol=1e-12)


def test_endless_bounds_are_the_limit_of_finite_ones():
    pomdp = random_world(5).pomdp()
    for bound in (qmdp, fib, blind):
        endless, long = bound(pomdp, None, 0.9), bound(pomdp, 400, 0.9)
        np.testing.assert_allclose(endless.vectors[-1], long.vectors[-1], atol=1e-8)


def test_an_endless_undiscounted_bound_is_refused():
    with pytest.raises(ValueError, match="give a horizon or a discount"):
        qmdp(Tiger().pomdp(), None, 1.0)


@pytest.mark.parametrize("discount", [0.9, 0.99999])
def test_endless_bounds_hold_even_without_any_time(discount):
    pomdp = random_world(7).pomdp()
    for bound in (qmdp, fib, blind):
        whole = bound(pomdp, None, discount)
        early = bound(pomdp, None, discount, deadline=Deadline(0.0))
        worse = (early.vectors - whole.vectors) * (1 if whole.upper else -1)
        assert worse.min() >= -1e-9 * np.abs(whole.vectors).max()
        # A fixed point, with linear equations or without.
        np.testing.assert_allclose(_one_step(pomdp, whole, discount), whole.vectors[0], rtol=1e-7, atol=1e-7)


def _one_step(pomdp: Pomdp, bound: Bound, discount: float) -> np.ndarray:
    """R + g sum_o max_a' sum_s' Pr(s', o | s, a) alpha_a'(s') and its relatives, outcome by outcome."""
    S, A, O = pomdp.states, pomdp.actions, pomdp.observations
    alpha, after = bound.vectors[0], np.zeros((S, A, O, A))
    chain = np.zeros((S, A, S))
    for k, (s, a) in enumerate(zip(*pomdp.rows(), strict=True)):
        if not pomdp.done[k]:
            after[s, a, pomdp.observation[k]] += pomdp.probability[k] * alpha[:, pomdp.next_state[k]]
            chain[s, a, pomdp.next_state[k]] += pomdp.probability[k]
    ahead = {
        "FIB": after.max(-1).sum(-1),
        "QMDP": chain @ alpha.max(0),
        "blind": np.einsum("sat,at->sa", chain, alpha),
    }[bound.name]
    return (pomdp.R() + discount * ahead).T
