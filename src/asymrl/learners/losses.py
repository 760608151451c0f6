"""The losses of actors and critics. Arrays are `[time, episode]`.

Those of Algorithm 1 are sums over time and means over episodes; those of PPO are given for each step.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def critic_loss(
    values: Float[Array, "time episode"], targets: Float[Array, "time episode"], valid: Bool[Array, "time episode"]
) -> Float[Array, ""]:
    """sum_t (V_t - G_t)^2, with no gradient through the targets."""
    errors = jnp.where(valid, values - jax.lax.stop_gradient(targets), 0.0)
    return jnp.mean(jnp.sum(errors**2, axis=0))


def policy_loss(
    log_chosen: Float[Array, "time episode"],
    advantages: Float[Array, "time episode"],
    valid: Bool[Array, "time episode"],
    discount: Float[Array, ""] | float,
) -> Float[Array, ""]:
    """- sum_t gamma^t A_t log pi(a_t; h_t), with no gradient through the advantages."""
    weights = (discount ** jnp.arange(log_chosen.shape[0]))[:, None] * jax.lax.stop_gradient(advantages)
    return -jnp.mean(jnp.sum(jnp.where(valid, weights * log_chosen, 0.0), axis=0))


def negentropy_loss(negentropy: Float[Array, "time episode"], valid: Bool[Array, "time episode"]) -> Float[Array, ""]:
    """sum_t sum_a pi log pi: the negative entropy of the policy, not discounted."""
    return jnp.mean(jnp.sum(jnp.where(valid, negentropy, 0.0), axis=0))


def clipped_policy_loss(
    ratio: Float[Array, "time episode"], advantages: Float[Array, "time episode"], clip: Float[Array, ""] | float
) -> Float[Array, "time episode"]:
    """- min(r A, clip(r, 1 - c, 1 + c) A) at each step, where r = pi(a; h) / pi_old(a; h): PPO's objective."""
    return -jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - clip, 1 + clip) * advantages)


def clipped_value_loss(
    values: Float[Array, "time episode"],
    old_values: Float[Array, "time episode"],
    targets: Float[Array, "time episode"],
    clip: Float[Array, ""] | float,
) -> Float[Array, "time episode"]:
    """max((V - G)^2, (V_old + clip(V - V_old, -c, c) - G)^2) / 2 at each step."""
    near = old_values + jnp.clip(values - old_values, -clip, clip)
    return jnp.maximum((values - targets) ** 2, (near - targets) ** 2) / 2
