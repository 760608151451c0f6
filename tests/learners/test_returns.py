"""The estimates of Q: identities between them, values by hand, and the reference."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from asymrl.learners import returns
from asymrl.learners.returns import ESTIMATORS, add_bootstrap, estimate
from tests.oracles.update import Rules, estimates

T, E = 7, 2
numbers = arrays(np.float32, (T, E), elements=st.floats(-10, 10, width=32))
shares = st.floats(0, 1, width=32)
ends = st.tuples(st.integers(1, T), st.integers(1, T))


td0, td_lambda, mc = (jax.jit(f) for f in (returns.td0, returns.td_lambda, returns.mc))
td_n = jax.jit(returns.td_n, static_argnums=3)


@functools.partial(jax.jit, static_argnums=0)
def estimate_and_bootstrap(name: str, r: Any, v: Any, final: Any, last: Any, truncated: Any, discount: Any, keep: Any):
    return estimate(name, add_bootstrap(r, final, last, truncated, discount), v, discount, n=3, lambda_=keep)


def close(one: Any, other: Any) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


@given(numbers, numbers, shares)
def test_special_cases(rewards: np.ndarray, values: np.ndarray, discount: float):
    r, v = jnp.asarray(rewards), jnp.asarray(values)
    close(td_lambda(r, v, discount, 0.0), td0(r, v, discount))
    close(td_lambda(r, v, discount, 1.0), mc(r, discount))
    close(td_n(r, v, discount, 1), td0(r, v, discount))
    for n in (T, T + 1, 3 * T):
        close(td_n(r, v, discount, n), mc(r, discount))
    close(td0(r, v, 0.0), r)


@given(numbers, numbers, shares, shares)
def test_recursions(rewards: np.ndarray, values: np.ndarray, discount: float, keep: float):
    r, v = jnp.asarray(rewards), jnp.asarray(values)
    g, q = np.asarray(mc(r, discount)), np.asarray(td_lambda(r, v, discount, keep))
    close(g[:-1], rewards[:-1] + discount * g[1:])
    close(q[:-1], rewards[:-1] + discount * ((1 - keep) * values[1:] + keep * q[1:]))
    close(g[-1], rewards[-1])
    close(q[-1], rewards[-1])


@given(numbers, shares, shares)
def test_exact_values_make_every_estimate_exact(rewards: np.ndarray, discount: float, keep: float):
    """Where V is already the return that follows, there is nothing left to learn."""
    r = jnp.asarray(rewards)
    v = mc(r, discount)
    for q in (td0(r, v, discount), td_n(r, v, discount, 3), td_lambda(r, v, discount, keep)):
        close(q, v)


@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize("name", ESTIMATORS)
@given(numbers, numbers, ends, shares, shares)
def test_the_reference_agrees(
    name: str,
    bootstrap: bool,
    rewards: np.ndarray,
    values: np.ndarray,
    lengths: tuple[int, int],
    discount: float,
    keep: float,
):
    """For episodes of any length; the value at the end of an episode counts where the end is only a cut."""
    valid = np.arange(T)[:, None] < np.array(lengths)
    last = jnp.asarray(np.arange(T)[:, None] == np.array(lengths) - 1)
    final = jnp.asarray([3.0, -2.0])
    r, v = jnp.asarray(np.where(valid, rewards, 0.0)), jnp.asarray(np.where(valid, values, 0.0))
    truncated = jnp.asarray([bootstrap, False])
    got = np.asarray(estimate_and_bootstrap(name, r, v, final, last, truncated, discount, keep))
    rules = Rules(estimator=name, discount=discount, td_lambda=keep, td_n=3)
    for e, length in enumerate(lengths):
        end = 3.0 if bootstrap and e == 0 else 0.0
        close(got[:length, e], estimates(rewards[:length, e].astype(float), values[:length, e], end, rules))


# Three rewards, three values, gamma = 1/2; the world is worth 8 where the episode was cut off.
REWARDS, VALUES = jnp.asarray([[1.0], [2.0], [4.0]]), jnp.asarray([[3.0], [5.0], [7.0]])
BY_HAND = {
    # r_t + V_{t+1} / 2
    "td0": ([3.5, 5.5, 4.0], [3.5, 5.5, 8.0]),
    # r_t + r_{t+1} / 2 + V_{t+2} / 4, the last two without a value
    "td-n": ([3.75, 4.0, 4.0], [3.75, 6.0, 8.0]),
    # r_t + r_{t+1} / 2 + r_{t+2} / 4
    "mc": ([3.0, 4.0, 4.0], [4.0, 6.0, 8.0]),
    # half of each of the next value and the next estimate: 4, then 2 + (7 + 4) / 4, then 1 + (5 + 4.75) / 4
    "td-lambda": ([3.4375, 4.75, 4.0], [3.6875, 5.75, 8.0]),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_by_hand(name: str):
    ended, cut_off = BY_HAND[name]
    got = estimate(name, REWARDS, VALUES, 0.5, n=2, lambda_=0.5)
    np.testing.assert_allclose(got[:, 0], ended)
    last = jnp.asarray([[False], [False], [True]])
    rewards = add_bootstrap(REWARDS, jnp.asarray([8.0]), last, jnp.asarray([True]), 0.5)
    np.testing.assert_allclose(estimate(name, rewards, VALUES, 0.5, n=2, lambda_=0.5)[:, 0], cut_off)


def test_an_unknown_estimator_names_those_that_there_are():
    with pytest.raises(ValueError, match="unknown estimator 'gae'; choose one of td0, td-n, td-lambda, mc"):
        estimate("gae", REWARDS, VALUES, 0.5, n=2, lambda_=0.5)
