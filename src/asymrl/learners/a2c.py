"""Advantage actor-critic, the paper's Algorithm 1, for critics of the history, the state, or both.

An update collects E whole episodes, moves the target critic if that is due, then the critic towards its targets, then
the actor along the advantages of the new critic. Functions of one run are vectorised over the runs of a program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.learners.curve import Losses, count, evaluate_if_due, write_point
from asymrl.learners.episodes import Episodes, TrainingBatch, training_batch
from asymrl.learners.lengths import over_runs
from asymrl.learners.losses import critic_loss, negentropy_loss, policy_loss
from asymrl.learners.numbers import Numbers
from asymrl.learners.optimiser import AdamState, descend, new_adam
from asymrl.learners.returns import add_bootstrap, estimate
from asymrl.learners.rollout import roll_out
from asymrl.learners.running_statistics import (
    Statistics,
    new_statistics,
    scaled_episodes,
    with_episodes,
    with_input_statistics,
)
from asymrl.learners.schedules import negentropy_weight
from asymrl.learners.signals import signal_keys
from asymrl.learners.state import RunState, counters, is_active, is_due, keys_of, new_networks
from asymrl.learners.targets import update_target
from asymrl.nn.agent import Actor, Critic
from asymrl.settings import A2CSettings
from asymrl.worlds.world import World

if TYPE_CHECKING:
    from asymrl.learners.collector import Collector


class A2CState(RunState):
    """One run of A2C, or a batch of them."""

    target: Critic
    actor_adam: AdamState
    critic_adam: AdamState
    next_target: Int[Array, "*run"]
    statistics: Statistics | None


def new_run(env: World, settings: A2CSettings, seed: Int[Array, ""] | int) -> A2CState:
    """A run before its first update. Everything random in it comes from the seed."""
    actor_key, critic_key, train_key = jax.random.split(jax.random.key(seed), 3)
    actor, critic = new_networks(env, settings, actor_key, critic_key)
    return A2CState(
        actor=actor,
        critic=critic,
        target=jax.tree.map(lambda x: x, critic),
        actor_adam=new_adam(actor),
        critic_adam=new_adam(critic),
        next_target=jnp.int32(0),
        statistics=new_statistics(settings, actor, critic),
        **counters(settings, train_key),
    )


def update(env: World, settings: A2CSettings, numbers: Numbers, runs: A2CState) -> A2CState:
    """One update of each run that is still active; the others stay exactly as they are."""
    active, keys = is_active(runs, numbers), keys_of(runs)
    episodes = roll_out(env, runs.actor, keys, active, episodes=settings.episodes)
    evaluated = evaluate_if_due(env, settings, runs, keys, is_due(runs, numbers))
    return update_from(env, settings, numbers, runs, episodes, evaluated)


def collect(
    collector: Collector,
    settings: A2CSettings,
    numbers: Numbers,
    runs: A2CState,
    keys: PRNGKeyArray,
    active: Bool[np.ndarray, "run"],
    steps: int | None = None,
) -> Episodes:
    """The episodes of an update in a world that runs in Python, or only their first `steps` steps."""
    del numbers
    return collector.collect(runs.actor, keys, active, episodes=settings.episodes, steps=steps)


def update_from(
    env: World,
    settings: A2CSettings,
    numbers: Numbers,
    runs: A2CState,
    episodes: Episodes,
    evaluated: Float[Array, "run 2"],
) -> A2CState:
    """What an update does with its episodes: learn from them, and write a point of the curve if one is due."""
    active, due = is_active(runs, numbers), is_due(runs, numbers)
    learned, losses = learn(env, settings, numbers, runs, episodes, active)
    if learned.statistics is not None:
        learned = with_statistics(env, settings, learned, episodes, active, signal_keys(keys_of(runs)))
    return write_point(learned, runs.timesteps, losses, evaluated, due, numbers)


def learn(
    env: World,
    settings: A2CSettings,
    numbers: Numbers,
    runs: A2CState,
    episodes: Episodes,
    active: Bool[Array, "run"],
) -> tuple[A2CState, Losses]:
    """Counts the episodes, moves the target, then the critic, then, with the new critic's advantages, the actor."""
    runs = follow_critic(count(runs, episodes, active), settings, numbers, active)
    weights = jax.vmap(lambda t, n: negentropy_weight(t, settings, n))(runs.timesteps, numbers)
    keys = signal_keys(keys_of(runs))
    if runs.statistics is not None:
        statistics, episodes = scaled_episodes(runs.statistics, episodes, active, numbers.discount)
        runs = eqx.tree_at(lambda r: r.statistics, runs, statistics)

    def mean_over(one: Any, models: tuple[Any, ...], *others: Any) -> Any:
        return over_runs(one, settings.horizon, episodes, active, models, (*others, keys))

    def towards_target(length: int, critic: Any, target: Any, episodes: Episodes, numbers: Numbers, key: Any) -> Any:
        data = training_batch(env, settings, episodes, length, key)
        return critic_gradient(critic, target, data, settings, numbers)

    critic_losses, gradient = mean_over(towards_target, (runs.critic, runs.target), numbers)
    sound = active & jnp.isfinite(critic_losses)
    critic, critic_adam, critic_norm, sound = eqx.filter_vmap(descend)(
        runs.critic, gradient, runs.critic_adam, numbers.critic_rate, sound, numbers
    )

    def along_policy(
        length: int, actor: Any, critic: Any, episodes: Episodes, numbers: Numbers, weight: Any, key: Any
    ) -> Any:
        data = training_batch(env, settings, episodes, length, key)
        return actor_gradient(actor, critic, data, weight, settings, numbers)

    (policy_losses, negentropy), gradient = mean_over(along_policy, (runs.actor, critic), numbers, weights)
    sound = sound & jnp.isfinite(policy_losses + negentropy)
    actor_rates = jnp.where(runs.timesteps > numbers.critic_first, numbers.actor_rate, 0.0)
    actor, actor_adam, actor_norm, sound = eqx.filter_vmap(descend)(
        runs.actor, gradient, runs.actor_adam, actor_rates, sound, numbers
    )
    runs = eqx.tree_at(
        lambda r: (r.actor, r.critic, r.actor_adam, r.critic_adam, r.updates, r.failed),
        runs,
        (actor, critic, actor_adam, critic_adam, runs.updates + active, runs.failed | (active & ~sound)),
    )
    return runs, Losses(critic_losses, policy_losses, negentropy, weights, critic_norm, actor_norm)


def with_statistics(
    env: World,
    settings: A2CSettings,
    runs: A2CState,
    episodes: Episodes,
    active: Bool[Array, "run"],
    keys: PRNGKeyArray,
) -> A2CState:
    """The runs, whose networks normalise with statistics that include these episodes."""
    assert runs.statistics is not None
    read = runs.actor, runs.critic
    statistics = with_episodes(env, settings, runs.statistics, *read, episodes, active, keys)
    networks = [with_input_statistics(network, statistics) for network in (runs.actor, runs.critic, runs.target)]
    return eqx.tree_at(lambda r: (r.statistics, r.actor, r.critic, r.target), runs, (statistics, *networks))


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


def follow_critic(runs: A2CState, settings: A2CSettings, numbers: Numbers, active: Bool[Array, "run"]) -> A2CState:
    """Moves the target critics: a copy when one is due, or a little at each update."""
    moved = update_target(runs.critic, runs.target, settings, numbers, runs.timesteps, runs.next_target, active)
    return eqx.tree_at(lambda r: (r.target, r.next_target), runs, moved)
