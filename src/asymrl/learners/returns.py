"""Estimates of Q from rewards and values: the targets of the critic, and the basis of the actor's advantages.

All arrays are `[time, episode]`. Rewards and values after the end of an episode are zero, so that every estimate
may look beyond the end without harm.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

ESTIMATORS = ("td0", "td-n", "td-lambda", "mc")

Scalar = Float[Array, ""] | float


def after(values: Float[Array, "time episode"], n: int = 1) -> Float[Array, "time episode"]:
    """The values n steps later; zero beyond the end."""
    n = min(n, values.shape[0])
    return jnp.concatenate([values[n:], jnp.zeros_like(values[:n])])


def td0(rewards: Float[Array, "time episode"], values: Float[Array, "time episode"], discount: Scalar) -> Array:
    """r_t + gamma V_{t+1}. Minus V_t, this is the TD error delta of the paper (section 3)."""
    return rewards + discount * after(values)


def td_n(
    rewards: Float[Array, "time episode"], values: Float[Array, "time episode"], discount: Scalar, n: int
) -> Float[Array, "time episode"]:
    """r_t + gamma r_{t+1} + ... + gamma^n V_{t+n}."""
    total = discount**n * after(values, n)
    for k in range(n):
        total = total + discount**k * (after(rewards, k) if k else rewards)
    return total


def td_lambda(
    rewards: Float[Array, "time episode"],
    values: Float[Array, "time episode"],
    discount: Scalar,
    lambda_: Scalar,
) -> Float[Array, "time episode"]:
    """The mixture of all n-step estimates: Q_t = r_t + gamma ((1 - lambda) V_{t+1} + lambda Q_{t+1})."""
    one_step = rewards + discount * (1 - lambda_) * after(values)
    return _discounted_sum(one_step, discount * lambda_)


def mc(rewards: Float[Array, "time episode"], discount: Scalar) -> Float[Array, "time episode"]:
    """The discounted return that actually followed."""
    return _discounted_sum(rewards, discount)


def gae(
    rewards: Float[Array, "time stream"],
    values: Float[Array, "time stream"],
    next_values: Float[Array, "time stream"],
    ended: Bool[Array, "time stream"],
    discount: Scalar,
    lambda_: Scalar,
) -> Float[Array, "time stream"]:
    """Generalised advantage estimation (Schulman et al. 2016): A_t = delta_t + gamma lambda A_{t+1}.

    `next_values` are those after each action, 0 where the episode is over; nothing passes back across an end.
    In an episode this is `td_lambda` minus the values.
    """
    errors = rewards + discount * next_values - values
    return _discounted_sum(errors, jnp.where(ended, 0.0, discount * lambda_))


def _discounted_sum(
    x: Float[Array, "time episode"], discount: Scalar | Float[Array, "time episode"]
) -> Float[Array, "time episode"]:
    """y_t = x_t + discount y_{t+1}, in a logarithmic number of steps."""

    def combine(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        (w2, y2), (w1, y1) = later, earlier
        return w1 * w2, y1 + w1 * y2

    weights = jnp.broadcast_to(jnp.asarray(discount, x.dtype), x.shape)
    return jax.lax.associative_scan(combine, (weights, x), reverse=True)[1]


def discounted_so_far(
    rewards: Float[Array, "time stream"],
    first: Bool[Array, "time stream"],
    start: Float[Array, "stream"],
    discount: Scalar,
) -> Float[Array, "time stream"]:
    """R_t = r_t + gamma R_{t-1}, which starts anew at the `first` step of an episode; `start` is R_{-1}."""
    weights = jnp.where(first, 0.0, discount)
    rewards = rewards.at[0].add(weights[0] * start)
    return _discounted_sum(rewards[::-1], weights[::-1])[::-1]


def estimate(
    name: str,
    rewards: Float[Array, "time episode"],
    values: Float[Array, "time episode"],
    discount: Scalar,
    *,
    n: int,
    lambda_: Scalar,
) -> Float[Array, "time episode"]:
    """The estimate with this name, one of ESTIMATORS."""
    if name == "td0":
        return td0(rewards, values, discount)
    if name == "td-n":
        return td_n(rewards, values, discount, n)
    if name == "td-lambda":
        return td_lambda(rewards, values, discount, lambda_)
    if name == "mc":
        return mc(rewards, discount)
    raise ValueError(f"unknown estimator {name!r}; choose one of {', '.join(ESTIMATORS)}")


def add_bootstrap(
    rewards: Float[Array, "time episode"],
    final_value: Float[Array, "episode"],
    last: Bool[Array, "time episode"],
    truncated: Bool[Array, "episode"],
    discount: Scalar,
) -> Float[Array, "time episode"]:
    """Adds gamma V(last) to the last reward of episodes that only ran out of time.

    For every estimator this is the same as continuing from there, so the end needs no other special case.
    """
    beyond = jnp.broadcast_to(jnp.where(truncated, discount * final_value, 0.0), rewards.shape)
    return rewards + jnp.where(last, beyond, 0.0)
