"""The losses of the DQN family: two regressions, and what each variant regresses on.

Arrays are `[time, episode]`, values of actions `[time, episode, action]`. Errors are averaged over the steps of each
episode, then over episodes, so that an episode counts the same whatever its length. Q is the network that learns, Q'
its target, which passes no gradient. Both losses choose the next action by the target of the history network,
a* = argmax_a Q'(h, a), never by the privileged one.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Scalar = Float[Array, ""] | float


class Variant(NamedTuple):
    """What distinguishes the variants of the family, besides what their privileged network reads."""

    short: bool = False
    """Whether the privileged network bootstraps from Q'(h, a) instead of from its own target."""
    reduced: bool = False
    """Whether Q(h, a) regresses on the privileged target of every action, which has less variance than a return."""


def variant_of(method: str) -> Variant:
    """The variant of a method of the family, such as adqn-short-vr."""
    parts = method.split("-")
    return Variant(short="short" in parts, reduced="vr" in parts)


class Estimates(NamedTuple):
    """What the two networks are trained towards. None: there is no such network."""

    history: Float[Array, "time episode"] | Float[Array, "time episode action"]
    privileged: Float[Array, "time episode"] | None


def estimates(
    variant: Variant,
    rewards: Float[Array, "time episode"],
    of_history: Float[Array, "times episode action"],
    of_privileged: Float[Array, "times episode action"] | None,
    goes_on: Bool[Array, "time episode"],
    discount: Scalar,
) -> Estimates:
    """The targets of both regressions, from the values of the target networks.

    Args:
        variant: one of the family.
        rewards: of each step.
        of_history: Q'(h_t, a).
        of_privileged: Q'(h_t, s_t, a) or Q'(s_t, a); None for plain DQN.
        goes_on: whether the step is followed by another whose value counts. If values have one more time than rewards,
            this may hold for the last step of an episode that was cut off.
        discount: gamma.
    """
    time = rewards.shape[0]
    greedy = jnp.argmax(of_history, axis=-1)
    from_history = rewards + discount * _next_value(of_history, greedy, goes_on)
    if of_privileged is None:
        return Estimates(from_history, None)
    from_privileged = rewards + discount * _next_value(of_privileged, greedy, goes_on)
    return Estimates(
        history=of_privileged[:time] if variant.reduced else from_privileged,
        privileged=from_history if variant.short else from_privileged,
    )


def _next_value(
    values: Float[Array, "times episode action"],
    actions: Int[Array, "times episode"],
    goes_on: Bool[Array, "time episode"],
) -> Float[Array, "time episode"]:
    """The value of the chosen action one step later; zero after the end."""
    next_values = value_of(values, actions)[1:]
    missing = goes_on.shape[0] - next_values.shape[0]
    next_values = jnp.concatenate([next_values, jnp.zeros((missing, *next_values.shape[1:]))])
    return jnp.where(goes_on, next_values, 0.0)


def value_of(
    values: Float[Array, "time episode action"], actions: Int[Array, "time episode"]
) -> Float[Array, "time episode"]:
    """The values of these actions."""
    return jnp.take_along_axis(values, actions[..., None], axis=-1)[..., 0]


def regression(
    values: Float[Array, "time episode action"],
    actions: Int[Array, "time episode"],
    targets: Float[Array, "time episode"] | Float[Array, "time episode action"],
    valid: Bool[Array, "time episode"],
) -> Float[Array, ""]:
    """The mean squared error: of the actions that were taken, or if there are targets for all actions, of all."""
    targets = jax.lax.stop_gradient(targets)
    if targets.ndim == values.ndim:
        squares = jnp.mean((values - targets) ** 2, axis=-1)
    else:
        action_mask = jax.nn.one_hot(actions, values.shape[-1], dtype=bool)
        squares = (jnp.sum(jnp.where(action_mask, values, 0.0), axis=-1) - targets) ** 2
    steps = jnp.maximum(jnp.sum(valid, axis=0), 1)
    return jnp.mean(jnp.sum(jnp.where(valid, squares, 0.0), axis=0) / steps)
