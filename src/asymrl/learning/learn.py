"""One gradient step of one run, from the episodes it has just seen: Algorithm 1 of the paper."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from asymrl.envs.world import World
from asymrl.learning.losses import critic_loss, negentropy_loss, policy_loss
from asymrl.learning.returns import add_bootstrap, estimate
from asymrl.learning.rollout import Episodes
from asymrl.learning.run import Optimiser, Run
from asymrl.learning.schedules import scheduled
from asymrl.learning.settings import Numbers, Settings
from asymrl.models.agent import Actor, Critic

BETAS = (0.9, 0.999)

Model = TypeVar("Model", Actor, Critic)


class Losses(NamedTuple):
    """What a gradient step found."""

    critic_loss: Float[Array, ""]
    policy_loss: Float[Array, ""]
    negentropy_loss: Float[Array, ""]
    entropy_weight: Float[Array, ""]
    critic_gradient_norm: Float[Array, ""]
    actor_gradient_norm: Float[Array, ""]


class Lesson(NamedTuple):
    """Episodes, cut to a common length and ready for the networks."""

    before: Int[Array, "time episode"]
    observations: Any
    signal: Any
    actions: Int[Array, "time episode"]
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
    critic: Critic, lesson: Lesson, settings: Settings, numbers: Numbers
) -> tuple[Float[Array, "time episode"], Float[Array, "time episode"]]:
    """V and the estimate of Q, both zero after the end. With V(h), V(s) or V(h, s), Q - V is the paper's delta."""
    values = critic(lesson.before, lesson.observations, lesson.signal)
    rewards, length = lesson.rewards, lesson.actions.shape[0]
    if settings.bootstrap_truncated:
        final = jnp.take_along_axis(values, lesson.lengths[None], axis=0)[0]
        last = jnp.arange(length)[:, None] == lesson.lengths[None] - 1
        rewards = add_bootstrap(rewards, final, last, lesson.truncated, numbers.discount)
    values = jnp.where(lesson.valid, values[:length], 0.0)
    q = estimate(
        settings.estimator, rewards, values, numbers.discount, n=settings.td_n, lambda_=numbers.td_lambda
    )
    return values, q


def learn(
    env: World, settings: Settings, numbers: Numbers, run: Run, episodes: Episodes, length: int
) -> tuple[Run, Losses]:
    """Target, critic step, then actor step with the advantages of the new critic.

    The counters of the run must already include the episodes.
    """
    data = lesson(env, settings, episodes, length)
    run = follow_critic(run, settings, numbers)
    critic, critic_adam, critic_value, critic_norm = critic_step(run, data, settings, numbers)
    run = eqx.tree_at(lambda r: (r.critic, r.critic_adam), run, (critic, critic_adam))
    values, q = values_and_estimates(critic, data, settings, numbers)
    weight = entropy_weight(run.timesteps, settings, numbers)
    actor, actor_adam, policy_value, negentropy, actor_norm = actor_step(run, data, q - values, weight, numbers)
    run = eqx.tree_at(lambda r: (r.actor, r.actor_adam), run, (actor, actor_adam))
    return run, Losses(critic_value, policy_value, negentropy, weight, critic_norm, actor_norm)


def critic_step(
    run: Run, data: Lesson, settings: Settings, numbers: Numbers
) -> tuple[Critic, Optimiser, Float[Array, ""], Float[Array, ""]]:
    """A step towards the estimates of Q that the target critic gives."""
    _, targets = values_and_estimates(run.target, data, settings, numbers)

    def loss(critic: Critic) -> Float[Array, ""]:
        values = critic(data.before, data.observations, data.signal)[: data.actions.shape[0]]
        return critic_loss(values, targets, data.valid)

    value, gradient = eqx.filter_value_and_grad(loss)(run.critic)
    critic, memory, norm = descend(run.critic, gradient, run.critic_adam, numbers.critic_rate, numbers)
    return critic, memory, value, norm


def actor_step(
    run: Run, data: Lesson, advantages: Float[Array, "time episode"], weight: Float[Array, ""], numbers: Numbers
) -> tuple[Actor, Optimiser, Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """A step along the policy gradient, with the negative entropy as a penalty."""
    length = data.actions.shape[0]
    before = data.before[:length]
    observations = jax.tree.map(lambda leaf: leaf[:length], data.observations)

    def loss(actor: Actor) -> tuple[Array, tuple[Array, Array]]:
        # The actor has not changed since it acted, so its features are known and only their gradient is wanted.
        features = actor.history.replay(before, observations, data.features)
        log_policy = jax.nn.log_softmax(actor.head(features))
        policy = policy_loss(log_policy, data.actions, advantages, data.valid, numbers.discount)
        negentropy = negentropy_loss(log_policy, data.valid)
        return policy + weight * negentropy, (policy, negentropy)

    (_, (policy, negentropy)), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(run.actor)
    actor, memory, norm = descend(run.actor, gradient, run.actor_adam, numbers.actor_rate, numbers)
    return actor, memory, policy, negentropy, norm


def entropy_weight(timesteps: Int[Array, ""], settings: Settings, numbers: Numbers) -> Float[Array, ""]:
    """lambda at this time."""
    return scheduled(
        settings.entropy_schedule,
        timesteps,
        start=numbers.entropy_start,
        end=numbers.entropy_end,
        steps=numbers.entropy_steps,
    )


def follow_critic(run: Run, settings: Settings, numbers: Numbers) -> Run:
    """Moves the target critic: a copy when one is due, or a little at each update."""
    if settings.target == "polyak":
        share, next_target = numbers.polyak, run.next_target
    else:
        due = run.timesteps >= run.next_target
        share = due.astype(jnp.float32)
        next_target = jnp.where(due, run.timesteps + numbers.target_period, run.next_target)
    critic, target = eqx.filter(run.critic, eqx.is_array), run.target
    arrays, static = eqx.partition(target, eqx.is_array)
    if settings.target == "polyak":
        arrays = jax.tree.map(lambda new, old: share * new + (1 - share) * old, critic, arrays)
    else:
        arrays = jax.tree.map(lambda new, old: jnp.where(share > 0, new, old), critic, arrays)
    return eqx.tree_at(lambda r: (r.target, r.next_target), run, (eqx.combine(arrays, static), next_target))


def optimiser(rate: Float[Array, ""], numbers: Numbers) -> optax.GradientTransformation:
    """Adam, after clipping the norm of the gradient."""
    clip = optax.clip_by_global_norm(numbers.clip_norm)  # pyright: ignore[reportArgumentType]
    return optax.chain(clip, optax.adam(rate, *BETAS, eps=numbers.adam_eps))  # pyright: ignore[reportArgumentType]


def descend(
    model: Model, gradient: Model, memory: Optimiser, rate: Float[Array, ""], numbers: Numbers
) -> tuple[Model, Optimiser, Float[Array, ""]]:
    """A step of the optimiser; also returns the norm of the gradient, before clipping."""
    arrays, static = eqx.partition(model, eqx.is_array)
    gradient = eqx.filter(gradient, eqx.is_array)
    change, memory = optimiser(rate, numbers).update(gradient, memory, arrays)
    return eqx.combine(optax.apply_updates(arrays, change), static), memory, optax.tree.norm(gradient)
