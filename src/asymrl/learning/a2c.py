"""What one run learns from the episodes it has just seen: the gradients and steps of the paper's Algorithm 1."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

from asymrl.learning.losses import critic_loss, negentropy_loss, policy_loss
from asymrl.learning.numbers import Numbers
from asymrl.learning.returns import add_bootstrap, estimate
from asymrl.learning.rollout import Episodes
from asymrl.learning.schedules import scheduled
from asymrl.learning.settings import Settings
from asymrl.models.agent import Actor, Critic
from asymrl.worlds.world import World


class Lesson(NamedTuple):
    """Episodes, cut to a common length and ready for the networks."""

    before: Num[Array, "time episode *action"]
    observations: Any
    signal: Any
    actions: Num[Array, "time episode *action"]
    rewards: Float[Array, "time episode"]
    features: Float[Array, "time episode size"]
    valid: Bool[Array, "time episode"]
    lengths: Int[Array, "episode"]
    truncated: Bool[Array, "episode"]


def lesson(env: World, settings: Settings, episodes: Episodes, length: int) -> Lesson:
    """The first `length` steps of the episodes, and what the critic is told about their states."""
    # A bootstrap needs the value of where the episode was cut off: one more step of what the critic reads.
    seen = length + 1 if settings.bootstrap_truncated else length
    signal = env.signals()[settings.critic_sees].of
    states = jax.tree.map(lambda leaf: leaf[:seen], episodes.states)
    return Lesson(
        before=episodes.before()[:seen],
        observations=jax.tree.map(lambda leaf: leaf[:seen], episodes.observations),
        signal=jax.vmap(jax.vmap(lambda state: signal(env.latent(state))))(states),
        actions=episodes.actions[:length],
        rewards=episodes.rewards[:length],
        features=episodes.features[:length],
        valid=episodes.valid()[:length],
        lengths=episodes.lengths,
        truncated=episodes.truncated,
    )


def values_and_estimates(
    critic: Critic, data: Lesson, settings: Settings, numbers: Numbers
) -> tuple[Float[Array, "time episode"], Float[Array, "time episode"]]:
    """V and the estimate of Q, both zero after the end. With V(h), V(s) or V(h, s), Q - V is the paper's delta."""
    values = critic(data.before, data.observations, data.signal)
    rewards, length = data.rewards, data.actions.shape[0]
    if settings.bootstrap_truncated:
        final = jnp.take_along_axis(values, data.lengths[None], axis=0)[0]
        last = jnp.arange(length)[:, None] == data.lengths[None] - 1
        rewards = add_bootstrap(rewards, final, last, data.truncated, numbers.discount)
    values = jnp.where(data.valid, values[:length], 0.0)
    q = estimate(settings.estimator, rewards, values, numbers.discount, n=settings.td_n, lambda_=numbers.td_lambda)
    return values, q


def critic_gradient(
    critic: Critic, target: Critic, data: Lesson, settings: Settings, numbers: Numbers
) -> tuple[Float[Array, ""], Critic]:
    """Loss and gradient of the critic, towards the estimates of Q that the target critic gives."""
    _, targets = values_and_estimates(target, data, settings, numbers)

    def loss(critic: Critic) -> Float[Array, ""]:
        values = critic(data.before, data.observations, data.signal)[: data.actions.shape[0]]
        return critic_loss(values, targets, data.valid)

    return eqx.filter_value_and_grad(loss)(critic)


def actor_gradient(
    actor: Actor, critic: Critic, data: Lesson, weight: Float[Array, ""], settings: Settings, numbers: Numbers
) -> tuple[tuple[Float[Array, ""], Float[Array, ""]], Actor]:
    """Policy loss, negative entropy, and the gradient of their weighted sum; the critic gives the advantages."""
    values, q = values_and_estimates(critic, data, settings, numbers)
    length = data.actions.shape[0]
    before = data.before[:length]
    observations = jax.tree.map(lambda leaf: leaf[:length], data.observations)

    def loss(actor: Actor) -> tuple[Array, tuple[Array, Array]]:
        # The actor has not changed since it acted, so its features are known and only their gradient is wanted.
        features = actor.history.replay(before, observations, data.features)
        parameters, pi = actor.policy(features), actor.distribution
        log_chosen = pi.log_probability(parameters, data.actions)
        policy = policy_loss(log_chosen, q - values, data.valid, numbers.discount)
        negentropy = negentropy_loss(pi.negentropy(parameters), data.valid)
        return policy + weight * negentropy, (policy, negentropy)

    (_, losses), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(actor)
    return losses, gradient


def negentropy_weight(timesteps: Int[Array, ""], settings: Settings, numbers: Numbers) -> Float[Array, ""]:
    """The weight lambda of the negative entropy at this time."""
    return scheduled(
        settings.entropy_schedule,
        timesteps,
        start=numbers.entropy_start,
        end=numbers.entropy_end,
        steps=numbers.entropy_steps,
    )
