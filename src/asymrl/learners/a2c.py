"""Advantage actor-critic, the paper's Algorithm 1, for critics of the history, the state, or both.

An update collects E whole episodes, moves the target critic if that is due, then the critic towards its targets, then
the actor along the advantages of the new critic.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.learners.bucket import in_bucket
from asymrl.learners.curve import Losses
from asymrl.learners.episodes import Episodes, TrainingBatch, WholeEpisodes, training_batch
from asymrl.learners.key_purposes import SIGNALS
from asymrl.learners.losses import critic_loss, negentropy_loss, policy_loss
from asymrl.learners.numbers import Numbers
from asymrl.learners.optimiser import AdamState, descend, new_adam
from asymrl.learners.returns import add_bootstrap, estimate
from asymrl.learners.schedules import negentropy_weight
from asymrl.learners.state import RunState, counters, new_networks
from asymrl.learners.targets import update_target
from asymrl.nn.agent import Actor, Critic
from asymrl.settings import A2CSettings
from asymrl.worlds.world import World


class A2CState(RunState):
    """One run of A2C, or a batch of them."""

    target: Critic
    actor_adam: AdamState
    critic_adam: AdamState
    next_target: Int[Array, "*run"]


@dataclass(frozen=True)
class A2C:
    """The learner; see `Learner` for its methods."""

    world: World
    settings: A2CSettings

    @property
    def rollout(self) -> WholeEpisodes:
        return WholeEpisodes(self.settings.episodes)

    def init(self, seed: Int[Array, ""] | int) -> A2CState:
        actor_key, critic_key, train_key = jax.random.split(jax.random.key(seed), 3)
        actor, critic = new_networks(self.world, self.settings, actor_key, critic_key)
        return A2CState(
            actor=actor,
            critic=critic,
            target=jax.tree.map(lambda x: x, critic),
            actor_adam=new_adam(actor),
            critic_adam=new_adam(critic),
            next_target=jnp.int32(0),
            **counters(self.settings, train_key),
        )

    def exploration(self, run: A2CState, numbers: Numbers) -> None:
        return None  # the policy samples its actions

    def ready(self, run: A2CState) -> Bool[Array, ""]:
        return jnp.bool_(True)

    def networks(self, run: A2CState) -> list[Actor | Critic]:
        return [run.actor, run.critic, run.target]

    def update(
        self,
        key: PRNGKeyArray,
        run: A2CState,
        numbers: Numbers,
        steps: Int[Array, ""],
        batch: Episodes,
        on: Bool[Array, ""],
    ) -> tuple[A2CState, Losses]:
        """The target if that is due, then the critic, then, with the new critic's advantages, the actor."""
        target, next_target = update_target(
            run.critic, run.target, self.settings, numbers, run.timesteps, run.next_target, on
        )
        weight = negentropy_weight(run.timesteps, self.settings, numbers)
        longest, signal_key = jnp.where(on, jnp.max(batch.lengths), 0), jax.random.fold_in(key, SIGNALS)
        passes = self.settings.horizon, longest

        value_loss, gradient = in_bucket(self.critic_pass, *passes, run.critic, target, batch, numbers, signal_key)
        critic, critic_adam, critic_norm, finite = descend(
            run.critic, gradient, run.critic_adam, numbers.critic_rate, on & jnp.isfinite(value_loss), numbers
        )
        (policy, negentropy), gradient = in_bucket(
            self.actor_pass, *passes, run.actor, critic, batch, numbers, weight, signal_key
        )
        rate = jnp.where(run.timesteps > numbers.critic_first, numbers.actor_rate, 0.0)
        actor, actor_adam, actor_norm, finite = descend(
            run.actor, gradient, run.actor_adam, rate, finite & jnp.isfinite(policy + negentropy), numbers
        )
        learned = eqx.tree_at(
            lambda r: (
                *(r.actor, r.critic, r.target, r.actor_adam, r.critic_adam),
                *(r.next_target, r.updates, r.failed),
            ),
            run,
            (
                *(actor, critic, target, actor_adam, critic_adam),
                *(next_target, run.updates + on, run.failed | (on & ~finite)),
            ),
        )
        return learned, Losses(value_loss, policy, negentropy, weight, critic_norm, actor_norm)

    def critic_pass(
        self, length: int, critic: Critic, target: Critic, episodes: Episodes, numbers: Numbers, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Critic]:
        """`critic_gradient` of episodes of at most this length."""
        data = training_batch(self.world, self.settings, episodes, length, key)
        return critic_gradient(critic, target, data, self.settings, numbers)

    def actor_pass(
        self,
        length: int,
        actor: Actor,
        critic: Critic,
        episodes: Episodes,
        numbers: Numbers,
        weight: Float[Array, ""],
        key: PRNGKeyArray,
    ) -> tuple[tuple[Float[Array, ""], Float[Array, ""]], Actor]:
        """`actor_gradient` of episodes of at most this length."""
        data = training_batch(self.world, self.settings, episodes, length, key)
        return actor_gradient(actor, critic, data, weight, self.settings, numbers)


def critic_gradient(
    critic: Critic, target: Critic, data: TrainingBatch, settings: A2CSettings, numbers: Numbers
) -> tuple[Float[Array, ""], Critic]:
    """Loss and gradient of the critic, towards the estimates of Q that the target critic gives."""
    _, targets = values_and_estimates(target, data, settings, numbers)

    def loss(critic: Critic) -> Float[Array, ""]:
        values = critic(data.before, data.observations, data.signal, data.longest())[: data.actions.shape[0]]
        return critic_loss(values, targets, data.valid)

    return eqx.filter_value_and_grad(loss)(critic)


def actor_gradient(
    actor: Actor, critic: Critic, data: TrainingBatch, weight: Float[Array, ""], settings: A2CSettings, numbers: Numbers
) -> tuple[tuple[Float[Array, ""], Float[Array, ""]], Actor]:
    """`policy_gradient` with the advantages that the critic gives."""
    values, q = values_and_estimates(critic, data, settings, numbers)
    return policy_gradient(actor, data, q - values, weight, numbers)


def policy_gradient(
    actor: Actor,
    data: TrainingBatch,
    advantages: Float[Array, "time episode"],
    weight: Float[Array, ""],
    numbers: Numbers,
) -> tuple[tuple[Float[Array, ""], Float[Array, ""]], Actor]:
    """Policy loss, negative entropy, and the gradient of the former plus `weight` times the latter."""
    previous_actions, observations, _ = data.inputs_of_actions()

    def loss(actor: Actor) -> tuple[Array, tuple[Array, Array]]:
        # The actor has not changed since it acted, so its features are known and only their gradient is needed.
        features = actor.history.replay(previous_actions, observations, data.features, data.longest())
        parameters, pi = actor.policy(features), actor.distribution
        log_chosen = pi.log_probability(parameters, data.actions)
        policy = policy_loss(log_chosen, advantages, data.valid, numbers.discount)
        negentropy = negentropy_loss(pi.negentropy(parameters), data.valid)
        return policy + weight * negentropy, (policy, negentropy)

    (_, losses), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(actor)
    return losses, gradient


def values_and_estimates(
    critic: Critic, data: TrainingBatch, settings: A2CSettings, numbers: Numbers
) -> tuple[Float[Array, "time episode"], Float[Array, "time episode"]]:
    """V and the estimate of Q, both zero after the end. With V(h), V(s) or V(h, s), Q - V is the paper's delta."""
    values = critic(data.before, data.observations, data.signal, data.longest())
    rewards, length = data.rewards, data.actions.shape[0]
    if settings.bootstrap_truncated:
        final = jnp.take_along_axis(values, data.lengths[None], axis=0)[0]
        last = jnp.arange(length)[:, None] == data.lengths[None] - 1
        rewards = add_bootstrap(rewards, final, last, data.truncated, numbers.discount)
    values = jnp.where(data.valid, values[:length], 0.0)
    q = estimate(settings.estimator, rewards, values, numbers.discount, n=settings.td_n, lambda_=numbers.td_lambda)
    return values, q
