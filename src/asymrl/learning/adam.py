"""Adam with exact bias correction."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

BETAS = (0.9, 0.999)

Scalar = Float[Array, ""] | float


def adam(rate: Scalar, eps: Scalar) -> optax.GradientTransformation:
    """optax.adam, with a bias correction that keeps its digits.

    In 32 bits 1 - 0.999^t loses half of them while t is small, and the first steps are off by a hundred-thousandth:
    after three updates that is a different fourth digit of a loss.
    """

    def update(gradient: Any, state: optax.ScaleByAdamState, params: Any = None) -> tuple[Any, optax.ScaleByAdamState]:
        del params
        count = jnp.asarray(state.count) + 1
        mu = optax.tree.update_moment(gradient, state.mu, BETAS[0], 1)
        nu = optax.tree.update_moment_per_elem_norm(gradient, state.nu, BETAS[1], 2)
        first, second = (weight_so_far(beta, count) for beta in BETAS)
        change = jax.tree.map(lambda m, v: (m / first) / (jnp.sqrt(v / second) + eps), mu, nu)
        return change, optax.ScaleByAdamState(count, mu, nu)

    scale = optax.GradientTransformation(optax.scale_by_adam(*BETAS).init, update)  # pyright: ignore[reportArgumentType]
    return optax.chain(scale, optax.scale_by_learning_rate(rate))  # pyright: ignore[reportArgumentType]


def weight_so_far(beta: float, steps: Int[Array, ""]) -> Float[Array, ""]:
    """1 - beta^steps: how much of a running mean has come from real values."""
    return -jnp.expm1(steps.astype(jnp.float32) * math.log(beta))
