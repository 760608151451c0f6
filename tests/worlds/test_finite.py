"""Worlds made from tables: what they accept, what they refuse, and how much memory they need."""

from __future__ import annotations

import tracemalloc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.worlds import FiniteWorld, Shopping, check
from tests.worlds.chance import assert_frequencies

S, A, O = 2, 3, 4


def tables() -> dict[str, Any]:
    return {
        "T": np.full((S, A, S), 1 / S),
        "O": np.full((A, S, O), 1 / O),
        "R": np.zeros((S, A)),
        "start": np.array([0.5, 0.5]),
    }


def test_from_tables():
    random = np.random.default_rng(0)
    given = tables()
    given["T"] = random.dirichlet(np.ones(S), (S, A))
    given["O"] = random.dirichlet(np.ones(O), (A, S))
    given["R"] = random.normal(size=(S, A))
    env = FiniteWorld.from_tables("mine", **given, D=np.array([[False] * A, [True] * A]), discount=0.5, time_limit=7)
    for name in ("O", "R"):
        np.testing.assert_array_equal(getattr(env, name), given[name].astype(np.float32))
    np.testing.assert_array_equal(env.T[0], given["T"][0].astype(np.float32))
    np.testing.assert_array_equal(env.T[1], np.full((A, S), 0.5, np.float32))
    assert (env.name, env.discount, env.time_limit) == ("mine", 0.5, 7)
    assert env.observation_space.n == O + 1
    check(env, episodes=4, steps=4)


def test_first_observations_replace_the_symbol():
    first = np.array([[1.0, 0, 0, 0], [0, 0, 0, 1.0]])
    env = FiniteWorld.from_tables("mine", **tables(), first_O=first)
    assert env.observation_space.n == O
    assert [int(env.first_observation(jax.random.key(0), jnp.int32(s))) for s in range(S)] == [0, 3]


def test_the_end_is_observed_from_the_next_start():
    seen = np.zeros((A, S, O))
    seen[:, 0, :2] = [0.25, 0.75]
    seen[:, 1, 3] = 1
    start = np.array([0.6, 0.4])
    env = FiniteWorld.from_tables("mine", **(tables() | {"O": seen, "start": start}), D=np.ones((S, A), bool))
    keys = jax.random.split(jax.random.key(0), 20_000)
    observe = jax.jit(jax.vmap(env.observe, (0, None, None, None)))
    counts = np.bincount(observe(keys, jnp.int32(1), jnp.int32(0), jnp.int32(1)), minlength=O)
    assert_frequencies(counts, np.array([0.15, 0.45, 0, 0.4]))


def changed(name: str, index, value) -> dict[str, Any]:
    given = tables()
    given[name][index] = value
    return given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (changed("T", (1, 2, 0), 0.48), "transition probabilities for state 1, action 2 sum to 0.98"),
        (changed("O", (2, 1, 0), 0.0), "observation probabilities for action 2, next state 1 sum to 0.75"),
        (changed("start", 0, 0.4), "start probabilities for the first state sum to 0.9"),
        (changed("T", (0, 1), [1.5, -0.5]), "transition probabilities for state 0, action 1 hold a negative number"),
        (changed("O", (0, 1, 2), np.nan), "observation probabilities for action 0, next state 1 sum to nan"),
        (changed("R", (1, 2), np.inf), "reward for action 2 in state 1 is not finite"),
        (tables() | {"T": np.full((S, S), 0.5)}, r"T has shape \(2, 2\), expected \(states, actions, states\)"),
        (tables() | {"T": np.full((S, A, S + 1), 1 / 3)}, r"T has shape \(2, 3, 3\)"),
        (tables() | {"O": np.full((S, A, O), 1 / O)}, r"O has shape \(2, 3, 4\), expected \(3 actions, 2 next states"),
        (tables() | {"O": np.full((A, S), 1 / S)}, r"O has shape \(3, 2\)"),
        (tables() | {"R": np.zeros((A, S))}, r"R and D must have shape \(2, 3\), got \(3, 2\) and \(2, 3\)"),
        (tables() | {"start": np.array([1.0])}, r"start table has size \(1, 1\), expected \(1, 2\)"),
        (tables() | {"D": np.zeros((A, S), bool)}, r"R and D must have shape \(2, 3\), got \(2, 3\) and \(3, 2\)"),
        (tables() | {"first_O": np.full((S, O), 0.2)}, "first observation probabilities for state 0 sum to 0.8"),
        (tables() | {"first_O": np.full((S, 2), 0.5)}, r"first observation table has size \(2, 2\), expected \(2, 4\)"),
        (tables() | {"time_limit": 0}, "time_limit is 0, expected a positive whole number or None"),
        (tables() | {"discount": 1.5}, "discount is 1.5, expected a number between 0 and 1"),
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_malformed_tables(given, message):
    with pytest.raises(ValueError, match=message) as caught:
        FiniteWorld.from_tables("mine", **given)
    assert "mine" in str(caught.value)


def test_memory_of_shopping_6():
    tracemalloc.start()
    env = Shopping(6)
    tables = env.T, env.O, env.R, env.D, env.start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200e6, "building the world and all of its dense tables"
    states, actions, observations = 1296, 6, 72
    largest = max(table.size for table in tables)
    assert largest == states * actions * states
    kept = sum(leaf.nbytes for leaf in jax.tree.leaves(env))
    assert kept < states * actions * observations, "what the world keeps is sparse"
