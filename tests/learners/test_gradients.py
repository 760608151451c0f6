"""The gradients of the whole losses against numerical ones, in double precision, for every memory."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.a2c import actor_gradient, critic_gradient
from asymrl.learners.episodes import Episodes, training_batch
from asymrl.learners.numbers import numbers_of
from asymrl.learners.state import training_world
from tests.learners.small import member, start, tiny

T = 5


def some_episodes(rng: np.random.Generator) -> Episodes:
    """Two episodes of Heaven-Hell-1 with random contents, the second shorter."""
    return Episodes(
        observations=jnp.asarray(rng.integers(8, size=(T + 1, 2)), jnp.int32),
        states=jnp.asarray(rng.integers(12, size=(T + 1, 2)), jnp.int32),
        actions=jnp.asarray(rng.integers(4, size=(T, 2)), jnp.int32),
        rewards=jnp.asarray(rng.normal(size=(T, 2)) * (np.arange(T)[:, None] < [5, 3])),
        features=jnp.zeros((T, 2, 4)),
        lengths=jnp.asarray([5, 3], jnp.int32),
        truncated=jnp.asarray([True, False]),
    )


def shaken(model: Any, rng: np.random.Generator) -> Any:
    """In double precision, and away from the kinks of ReLUs, where biases of zero would leave it."""

    def shake(leaf: Any) -> Any:
        if not eqx.is_inexact_array(leaf):
            return leaf
        return jnp.asarray(np.asarray(leaf, np.float64) + 0.1 * rng.normal(size=leaf.shape))

    return jax.tree.map(shake, model)


def along(model: Any, direction: Any, step: float) -> Any:
    arrays, static = eqx.partition(model, eqx.is_array)
    moved = jax.tree.map(lambda x, d: jnp.asarray(np.asarray(x) + step * np.asarray(d)), arrays, direction)
    return eqx.combine(moved, static)


def assert_gradient(loss: Any, gradient: Any, model: Any, rng: np.random.Generator) -> None:
    """The slope of the loss in a random direction is the gradient's component in it."""
    arrays = eqx.filter(model, eqx.is_array)
    direction = jax.tree.map(lambda x: rng.normal(size=x.shape), arrays)
    slope = (loss(along(model, direction, 1e-6)) - loss(along(model, direction, -1e-6))) / 2e-6
    component = sum(np.sum(g * d) for g, d in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
    np.testing.assert_allclose(component, slope, rtol=1e-5)


@pytest.mark.parametrize(
    "memory",
    ["gru", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lstm",))],
)
def test_gradients_of_losses(memory: str):
    settings = tiny(world="heaven-hell-1", memory=memory, memory_size=4, time_limit=T, bootstrap_truncated=True)
    env, rng = training_world(settings), np.random.default_rng(0)
    run = member(start(env, settings, [0]), 0)
    with jax.enable_x64(True):
        actor, critic, target = (shaken(model, rng) for model in (run.actor, run.critic, run.target))
        numbers, weight, episodes = numbers_of(settings), jnp.asarray(0.3), some_episodes(rng)

        @eqx.filter_jit
        def for_critic(critic: Any) -> Any:
            return critic_gradient(critic, target, training_batch(env, settings, episodes, T), settings, numbers)

        @eqx.filter_jit
        def for_actor(actor: Any) -> Any:
            data = training_batch(env, settings, episodes, T)
            known = data._replace(features=actor.history.sequence(data.before[:T], data.observations[:T]))
            (policy, negentropy), gradient = actor_gradient(actor, critic, known, weight, settings, numbers)
            return policy + weight * negentropy, gradient

        assert_gradient(lambda critic: for_critic(critic)[0], for_critic(critic)[1], critic, rng)
        assert_gradient(lambda actor: for_actor(actor)[0], for_actor(actor)[1], actor, rng)
