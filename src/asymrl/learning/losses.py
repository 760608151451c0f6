"""The losses of Algorithm 1. Arrays are `[time, episode]`; sums over time, means over episodes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def critic_loss(
    values: Float[Array, "time episode"], targets: Float[Array, "time episode"], valid: Bool[Array, "time episode"]
) -> Float[Array, ""]:
    """sum_t (V_t - G_t)^2, with no gradient through the targets."""
    errors = jnp.where(valid, values - jax.lax.stop_gradient(targets), 0.0)
    return jnp.mean(jnp.sum(errors**2, axis=0))


def policy_loss(
    log_policy: Float[Array, "time episode actions"],
    actions: Int[Array, "time episode"],
    advantages: Float[Array, "time episode"],
    valid: Bool[Array, "time episode"],
    discount: Float[Array, ""] | float,
) -> Float[Array, ""]:
    """- sum_t gamma^t A_t log pi(a_t; h_t), with no gradient through the advantages."""
    chosen = jax.nn.one_hot(actions, log_policy.shape[-1], dtype=bool)
    log_chosen = jnp.sum(jnp.where(chosen, log_policy, 0.0), axis=-1)
    weights = (discount ** jnp.arange(actions.shape[0]))[:, None] * jax.lax.stop_gradient(advantages)
    return -jnp.mean(jnp.sum(jnp.where(valid, weights * log_chosen, 0.0), axis=0))


def negentropy_loss(
    log_policy: Float[Array, "time episode actions"], valid: Bool[Array, "time episode"]
) -> Float[Array, ""]:
    """sum_t sum_a pi log pi: the negative entropy of the policy, not discounted."""
    negentropy = jnp.sum(jnp.exp(log_policy) * log_policy, axis=-1)
    return jnp.mean(jnp.sum(jnp.where(valid, negentropy, 0.0), axis=0))
