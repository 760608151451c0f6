"""Sparse rows of probabilities; and the outcomes of a finite world say the same as its tables."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from asymrl.worlds import Rows
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.pomdp import NOTHING
from asymrl.worlds.registry import make
from tests.worlds.chance import assert_frequencies

DRAWS = 20_000


@st.composite
def tables(draw) -> np.ndarray:
    """A few rows of small whole weights, many of them 0, made into probabilities of at least 1/100."""
    columns = draw(st.integers(1, 10))
    weights = st.lists(st.integers(0, 10), min_size=columns, max_size=columns).filter(any)
    rows = draw(st.lists(weights, min_size=1, max_size=4))
    table = np.array(rows, float)
    return table / table.sum(-1, keepdims=True)


def draws(rows: Rows, row: int, seed: int = 0) -> np.ndarray:
    keys = jax.random.split(jax.random.key(seed), DRAWS)
    drawn = jax.jit(jax.vmap(rows.draw, (0, None)))(keys, jnp.int32(row))
    return np.bincount(np.asarray(drawn), minlength=rows.columns)


@settings(max_examples=6)
@given(table=tables(), seed=st.integers(0, 2**30), data=st.data())
def test_frequencies(table, seed, data):
    row = data.draw(st.integers(0, len(table) - 1))
    assert_frequencies(draws(Rows.from_dense(table), row, seed), table[row])


@given(table=tables())
def test_dense_and_sums(table):
    rows = Rows.from_dense(table)
    np.testing.assert_array_equal(rows.dense(), table.astype(np.float32))
    np.testing.assert_allclose(rows.sums(), 1)
    assert rows.longest == (table > 0).sum(-1).max()
    row, column, probability = rows.entries()
    np.testing.assert_array_equal(probability, table[row, column])
    assert (probability > 0).all()


@given(table=tables(), data=st.data())
def test_entries_in_any_order(table, data):
    row, column = np.nonzero(np.ones_like(table))  # zeros too
    order = np.array(data.draw(st.permutations(range(row.size))))
    shuffled = Rows.from_entries(row[order], column[order], table[row, column][order], *table.shape)
    np.testing.assert_array_equal(shuffled.dense(), table.astype(np.float32))
    assert shuffled.longest == Rows.from_dense(table).longest


@pytest.mark.parametrize("length", [2, 3, 5, 64, 1000])
def test_rows_of_many_entries(length):
    weights = 1.0 + np.arange(length) % 3
    ends = np.zeros_like(weights)
    ends[[0, -1]] = 0.5
    rows = Rows.from_dense(np.stack([ends, weights / weights.sum()]))
    assert rows.longest == length
    assert_frequencies(draws(rows, 0), ends)
    assert_frequencies(draws(rows, 1), weights / weights.sum())


def test_rows_of_equal_entries():
    table = np.zeros((3, 12))
    table[0, [3]] = 1
    table[1, ::2] = 1 / 6
    table[2, 1:] = 1 / 11
    rows = Rows.from_dense(table)
    assert rows.uniform
    for row in range(3):
        assert_frequencies(draws(rows, row), table[row])


def test_what_is_impossible_is_never_drawn():
    # The last entry takes what rounding leaves over, unless it is impossible.
    probability = np.array([0.0, 0.499995, 0.0, 0.499995, 0.0])
    rows = Rows(np.array([0, 5]), np.arange(5), probability, 5)
    for u in (0.0, 0.25, 0.75, 0.99999, 1 - 2**-24):
        assert drawn_at(rows, u) in (1, 3)
    assert drawn_at(rows, 0.0) == 1
    assert drawn_at(rows, 1 - 2**-24) == 3


def drawn_at(rows: Rows, u: float) -> int:
    """The column that a given uniform number leads to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax.random, "uniform", lambda key: jnp.float32(u))
        return int(rows.draw(jax.random.key(0), jnp.int32(0)))


def test_bounds_of_each_entry():
    # Entry i is drawn exactly where the uniform number lies in [cumulative before i, cumulative with i).
    rows = Rows.from_dense(np.array([[0.125, 0.25, 0.0, 0.5, 0.125]]))
    edges = {0.0: 0, 0.1249: 0, 0.125: 1, 0.3749: 1, 0.375: 3, 0.8749: 3, 0.875: 4, 0.9999: 4}
    assert {u: drawn_at(rows, u) for u in edges} == edges


def test_a_single_entry_needs_no_randomness():
    rows = Rows.deterministic(np.array([[2, 0], [1, 1]]), 3)
    program = jax.make_jaxpr(rows.draw)(jax.random.key(0), jnp.int32(0))
    assert "random" not in str(program)
    assert [int(rows.draw(jax.random.key(0), jnp.int32(i))) for i in range(4)] == [2, 0, 1, 1]


def test_many_rows_keep_their_precision():
    # Cumulative probabilities are computed in one go over all rows; a late row must not suffer from the early ones.
    table = np.full((50_000, 3), 1 / 3)
    table[-1] = [1e-4, 1e-4, 1 - 2e-4]
    rows = Rows.from_dense(table)
    np.testing.assert_allclose(rows.cumulative[-3:], [1e-4, 2e-4, 1], rtol=1e-5)


def finite(name: str) -> FiniteWorld:
    world = make(name)
    assert isinstance(world, FiniteWorld)
    return world


WORLDS = ["heaven-hell-2", "shopping-2", "good-bad", "tiger", "tiger:episodic=true"]


@pytest.mark.parametrize("name", WORLDS)
def test_outcomes_add_up_to_the_tables(name: str) -> None:
    world = finite(name)
    pomdp = world.pomdp()
    s, a = pomdp.rows()
    S, A = world.D.shape
    joint = np.zeros((S, A, S, len(world.observation_names)))
    on = ~pomdp.done
    np.add.at(joint, (s[on], a[on], pomdp.next_state[on], pomdp.observation[on]), pomdp.probability[on])
    expected = np.einsum("sat,ato->sato", world.T.astype(float), world.O.astype(float))
    expected[world.D] = 0
    np.testing.assert_allclose(joint, expected, atol=1e-7)
    np.testing.assert_allclose(pomdp.R(), world.R, rtol=1e-6)
    ends = np.zeros((S, A))
    np.add.at(ends, (s[pomdp.done], a[pomdp.done]), pomdp.probability[pomdp.done])
    np.testing.assert_array_equal(ends, world.D)
    assert np.all(pomdp.observation[pomdp.done] == NOTHING)


def test_rewards_keep_their_digits() -> None:
    """0.1 has no exact float32: theory in float64 must not inherit its error of 1e-9."""
    pomdp = eqx.tree_at(lambda w: w.rewards, finite("tiger"), np.full((2, 3), 0.1)).pomdp()
    np.testing.assert_array_equal(pomdp.reward, 0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probability": lambda p: p.probability * 1.1}, r"action 'listen' in state 'tiger-left' sum to 1.1"),
        ({"probability": lambda p: -p.probability}, r"probability -0\.85, expected a positive"),
        ({"next_state": lambda p: p.next_state + 1}, r"next state 2, expected a number from 0 to 1"),
        ({"reward": lambda p: p.reward * np.nan}, r"reward nan, expected a finite"),
        ({"start": lambda p: p.start * 2}, r"start sums to 2"),
        ({"discount": lambda p: 1.5}, r"discount is 1\.5"),
        ({"time_limit": lambda p: 0}, r"time_limit is 0"),
    ],
)
def test_what_is_wrong_is_named(change: dict, message: str) -> None:
    pomdp = finite("tiger").pomdp()
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(pomdp, **{name: value(pomdp) for name, value in change.items()})
