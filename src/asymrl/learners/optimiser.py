"""Adam with exact bias correction, after clipping by the norm of the whole gradient."""

from __future__ import annotations

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asymrl.learners.numbers import Numbers

BETA1 = 0.9  # of the mean of gradients; that of their squares is a setting
SMALL = 10_000  # entries; arrays with fewer are summed together

Model = TypeVar("Model", bound=eqx.Module)


class AdamState(eqx.Module):
    """What Adam remembers of the gradients so far: running means of them and of their squares."""

    count: Int[Array, "*run"]
    mu: Any
    nu: Any


def new_adam(model: eqx.Module) -> AdamState:
    """The state before the first step."""
    arrays = eqx.filter(model, eqx.is_array)
    return AdamState(jnp.int32(0), jax.tree.map(jnp.zeros_like, arrays), jax.tree.map(jnp.zeros_like, arrays))


def descend(
    model: Model,
    gradient: Any,
    state: AdamState,
    rate: Float[Array, ""],
    sound: Bool[Array, ""],
    numbers: Numbers,
) -> tuple[Model, AdamState, Float[Array, ""], Bool[Array, ""]]:
    """A step of Adam, unless something is not `sound`; then everything stays as it is.

    Also returns the norm of the gradient before clipping, and whether everything was sound, including this norm.
    """
    norm = norm_of(gradient)
    sound = sound & jnp.isfinite(norm)
    gradient = clipped(gradient, norm, numbers.clip_norm)
    count, new = state.count + sound, numbers.adam_new_square
    mu = jax.tree.map(lambda g, m: jnp.where(sound, BETA1 * m + (1 - BETA1) * g, m), gradient, state.mu)
    nu = jax.tree.map(lambda g, v: jnp.where(sound, (1 - new) * v + new * g**2, v), gradient, state.nu)
    # On a CPU the compiler would compute both means again for the parameters, from copies of all that it overwrites.
    mu, nu = jax.lax.platform_dependent(
        mu, nu, cpu=lambda *moments: jax.lax.optimization_barrier(moments), default=lambda *moments: moments
    )
    first, second = (weight_so_far(share, jnp.maximum(count, 1)) for share in (1 - BETA1, new))

    def moved(p: Array, m: Array, v: Array) -> Array:
        return jnp.where(sound, p - rate * ((m / first) / (jnp.sqrt(v / second) + numbers.adam_eps)), p)

    arrays, static = eqx.partition(model, eqx.is_array)
    return eqx.combine(jax.tree.map(moved, arrays, mu, nu), static), AdamState(count, mu, nu), norm, sound


def weight_so_far(new: Float[Array, ""] | float, steps: Int[Array, ""]) -> Float[Array, ""]:
    """1 - (1 - new)^steps: the weight of actual values in a running mean to which each adds with the share `new`.

    Computed directly in 32 bits, this loses half of its digits in the first steps, and after three updates a loss
    differs in its fourth digit.
    """
    return -jnp.expm1(steps.astype(jnp.float32) * jnp.log1p(-jnp.asarray(new, jnp.float32)))


def norm_of(gradient: Any) -> Float[Array, ""]:
    """The norm of all entries together."""
    leaves = jax.tree.leaves(gradient)
    # On a GPU every sum is a kernel, or two; small arrays share one.
    small = [leaf.ravel() for leaf in leaves if leaf.size < SMALL]
    large = [leaf.ravel() for leaf in leaves if leaf.size >= SMALL]
    parts = [*large, *([jnp.concatenate(small)] if small else [])]
    # On a CPU a dot product takes a fifth of the time of a sum of squares.
    squares = (
        jax.lax.platform_dependent(x, cpu=lambda x: jnp.vdot(x, x), default=lambda x: jnp.sum(x**2)) for x in parts
    )
    return jnp.sqrt(sum(squares, jnp.float32(0)))


def clipped(gradient: Any, norm: Float[Array, ""], most: Float[Array, ""]) -> Any:
    """The gradient, shortened to the norm `most` if it is longer."""
    return jax.tree.map(lambda leaf: jnp.where(norm < most, leaf, leaf / norm * most), gradient)
