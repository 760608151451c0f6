"""Recurrent proximal policy optimisation (Schulman et al. 2017) for critics of the history, the state, or both.

An update takes some steps in each of N streams, estimates advantages with the critic (GAE), and passes over them a few
times: each gradient step uses some of the streams, whole, from what the networks remembered where the piece begins.
Functions of one run are vectorised over the runs of a program.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.learning.curve import Losses, count_ended, evaluate_if_due, write_point
from asymrl.learning.environment_streams import act_in_environments
from asymrl.learning.episodes import RUN_AXIS, Episodes
from asymrl.learning.losses import clipped_policy_loss, clipped_value_loss
from asymrl.learning.numbers import Numbers
from asymrl.learning.optimiser import AdamState, descend, new_adam, norm_of
from asymrl.learning.returns import gae
from asymrl.learning.rollout import roll_out
from asymrl.learning.schedules import negentropy_weight, scheduled
from asymrl.learning.settings import PPOSettings
from asymrl.learning.signals import CriticSignal, critic_signal
from asymrl.learning.state import RunState, counters, is_active, is_due, keys_of, new_networks
from asymrl.learning.streams import (
    PIECE_AXES,
    Carries,
    Piece,
    Streams,
    act_in_streams,
    begin_streams,
    empty_carries,
    told_along,
    whole_episodes,
)
from asymrl.models.agent import Actor, Critic, follow_together
from asymrl.worlds.world import World

if TYPE_CHECKING:
    from asymrl.learning.collector import Collector

BEGIN, ACT, SIGNAL, SHUFFLE = 10, 11, 12, 13  # tell the random numbers of a run or an update apart


class Networks(eqx.Module):
    """What one loss and one optimiser learn together."""

    actor: Actor
    critic: Critic


class PPOState(RunState):
    """One run of PPO, or a batch of them."""

    adam: AdamState
    streams: Streams | None  # None where whole episodes are collected


class Data(NamedTuple):
    """What the gradient steps of an update learn from; arrays are `[time, stream, ...]`."""

    piece: Piece
    told: Any  # the privileged signal
    values: Float[Array, "time stream"]  # as the critic saw them before the update
    advantages: Float[Array, "time stream"]

    @property
    def targets(self) -> Float[Array, "time stream"]:
        return self.advantages + self.values


def new_run(env: World, settings: PPOSettings, seed: Int[Array, ""] | int) -> PPOState:
    """A run before its first update. Everything random in it comes from the seed."""
    actor_key, critic_key, train_key = jax.random.split(jax.random.key(seed), 3)
    actor, critic = new_networks(env, settings, actor_key, critic_key)
    streams = None
    if not settings.whole_episodes:
        carries = empty_carries(actor, critic, critic_signal(env, settings), settings.streams)
        begin_key = jax.random.fold_in(jax.random.key(seed), BEGIN)
        streams = begin_streams(env, actor.distribution, carries, begin_key, settings.streams)
    return PPOState(
        actor=actor,
        critic=critic,
        adam=new_adam(Networks(actor, critic)),
        streams=streams,
        **counters(settings, train_key),
    )


def update(env: World, settings: PPOSettings, numbers: Numbers, runs: PPOState) -> PPOState:
    """One update of each run that is still active; the others stay exactly as they are."""
    active, keys = is_active(runs, numbers), keys_of(runs)

    def act(actor: Actor, streams: Streams, key: PRNGKeyArray) -> tuple[Streams, Piece]:
        return act_in_streams(env, actor, streams, part(key, ACT), settings.rollout)

    if not settings.whole_episodes:
        collected = eqx.filter_vmap(act, out_axes=(eqx.if_array(0), PIECE_AXES))(runs.actor, runs.streams, keys)
    else:
        collected = roll_out(env, runs.actor, keys, active, episodes=settings.whole_episodes)
    evaluated = evaluate_if_due(env, settings, runs, keys, is_due(runs, numbers))
    return update_from(env, settings, numbers, runs, collected, evaluated)


def collect(
    collector: Collector,
    settings: PPOSettings,
    numbers: Numbers,
    runs: PPOState,
    keys: PRNGKeyArray,
    active: Bool[np.ndarray, "run"],
    steps: int | None = None,
) -> Episodes | tuple[Streams, Piece]:
    """The steps of an update in a world that runs in Python, or only so many of them."""
    del numbers
    if settings.whole_episodes:
        return collector.collect(runs.actor, keys, active, episodes=settings.whole_episodes, steps=steps)
    keys = jax.vmap(lambda key: part(key, ACT))(keys)
    assert runs.streams is not None
    return act_in_environments(collector, runs.actor, runs.streams, keys, active, settings.rollout, steps)


def update_from(
    env: World,
    settings: PPOSettings,
    numbers: Numbers,
    runs: PPOState,
    collected: Episodes | tuple[Streams, Piece],
    evaluated: Float[Array, "run 2"],
) -> PPOState:
    """What an update does with the steps that were taken: learn from them, and write a point of the curve if due."""
    streams, piece = as_pieces(runs.actor, collected, settings) if isinstance(collected, Episodes) else collected
    active, due, keys = is_active(runs, numbers), is_due(runs, numbers), keys_of(runs)

    def one(run: PPOState, streams: Streams | None, piece: Piece, numbers: Numbers, key: PRNGKeyArray) -> Any:
        return learn(env, settings, numbers, run, streams, piece, key)

    axes = (eqx.if_array(0), eqx.if_array(0), PIECE_AXES, 0, 0)
    learned, losses = eqx.filter_vmap(one, in_axes=axes)(runs, streams, piece, numbers, keys)
    learned = jax.tree.map(
        lambda new, old: jnp.where(active.reshape(-1, *[1] * (new.ndim - 1)), new, old) if eqx.is_array(new) else new,
        learned,
        runs,
    )
    return write_point(learned, runs.timesteps, losses, evaluated, due, numbers)


def as_pieces(actors: Actor, episodes: Episodes, settings: PPOSettings) -> tuple[None, Piece]:
    """Whole episodes of all runs as what an update learns from."""
    axes = {"in_axes": (eqx.if_array(0), RUN_AXIS), "out_axes": PIECE_AXES}
    cut = eqx.filter_vmap(lambda actor, episodes: whole_episodes(actor, episodes, settings.time_limit), **axes)
    return None, cut(actors, episodes)


def learn(
    env: World,
    settings: PPOSettings,
    numbers: Numbers,
    run: PPOState,
    streams: Streams | None,
    piece: Piece,
    key: PRNGKeyArray,
) -> tuple[PPOState, Losses]:
    """Counts the episodes that ended, estimates advantages, and passes over the piece in minibatches of streams."""
    networks, count = Networks(run.actor, run.critic), piece.rewards.shape[1]
    signal = critic_signal(env, settings)
    start = empty_carries(run.actor, run.critic, signal, count) if run.streams is None else run.streams.carries
    carries, data = prepare(networks, start, piece, signal, part(key, SIGNAL), settings, numbers)
    rate = numbers.learning_rate
    if settings.anneal:
        rate = scheduled("linear", run.timesteps, start=rate, end=0.0, steps=numbers.steps)
    run = count_ended(run, piece.ended, piece.returns, piece.times + 1, jnp.sum(piece.valid))
    weight = negentropy_weight(run.timesteps, settings, numbers)

    def step(state: tuple[Networks, AdamState, Array], which: Int[Array, "some"]) -> tuple[Any, Losses]:
        networks, adam, sound = eqx.combine(state, static)
        chosen = some_streams(data, which), jax.tree.map(lambda leaf: leaf[which], start)
        (policy, negentropy, value), gradient = gradient_of(networks, *chosen, weight, settings, numbers)
        sound = sound & jnp.isfinite(policy + negentropy + value)
        norms = norm_of(gradient.critic), norm_of(gradient.actor)
        networks, adam, _, sound = descend(networks, gradient, adam, rate, sound, numbers)
        return eqx.filter((networks, adam, sound), eqx.is_array), Losses(value, policy, negentropy, weight, *norms)

    state, static = eqx.partition((networks, run.adam, jnp.bool_(True)), eqx.is_array)
    state, losses = jax.lax.scan(step, state, minibatches(part(key, SHUFFLE), count, settings))
    networks, adam, sound = eqx.combine(state, static)
    if streams is not None:
        streams = streams._replace(carries=streams.carries._replace(critic=carries.critic, signal=carries.signal))
    learned = eqx.tree_at(
        lambda r: (r.actor, r.critic, r.adam, r.streams, r.updates, r.failed),
        run,
        (networks.actor, networks.critic, adam, streams, run.updates + 1, run.failed | ~sound),
        is_leaf=lambda leaf: leaf is None,
    )
    return learned, jax.tree.map(jnp.mean, losses)


def prepare(
    networks: Networks,
    start: Carries,
    piece: Piece,
    signal: CriticSignal,
    key: PRNGKeyArray,
    settings: PPOSettings,
    numbers: Numbers,
) -> tuple[Carries, Data]:
    """What the critic reads and thinks of the piece before the update, and the advantages that follow."""
    critic, batch = networks.critic, piece.rewards.shape
    history = critic.with_history(networks.actor).history
    features, next_features, told, next_told = None, None, None, None
    carries = start
    if critic.phi_s is not None:
        carry, told, next_told = told_along(signal, key, start.signal, piece)
        carries = carries._replace(signal=carry)
    if history is not None:
        projected = history.project(piece.before, piece.observations)
        following = history.project(piece.actions, piece.next_observations)
        carry = start.actor if critic.shares else start.critic
        carry, features, next_features = history.memory.follow_with_next(carry, piece.first, projected, following)
        carries = carries if critic.shares else carries._replace(critic=carry)
    values = critic.read(features, told, batch)
    after = critic.read(next_features, next_told, batch)
    cut = piece.truncated if settings.bootstrap_truncated else jnp.zeros_like(piece.truncated)
    if not signal.random or settings.draws == "shared":
        # In the middle of a piece the next value stands in the next row, read from the same draw.
        after = jnp.where(cut, after, jnp.concatenate([values[1:], after[-1:]]))
    after = jnp.where(piece.terminated | (piece.truncated & ~cut), 0.0, after)
    values = jnp.where(piece.valid, values, 0.0)
    advantages = gae(piece.rewards, values, after, piece.ended, numbers.discount, numbers.gae_lambda)
    return carries, Data(piece, told, values, jnp.where(piece.valid, advantages, 0.0))


def gradient_of(
    networks: Networks,
    data: Data,
    start: Carries,
    weight: Float[Array, ""],
    settings: PPOSettings,
    numbers: Numbers,
) -> tuple[tuple[Array, Array, Array], Networks]:
    """Policy loss, negative entropy and value loss of some streams, and the gradient of their weighted sum."""
    piece, (T, N) = data.piece, data.values.shape
    # Means over all steps; of whole episodes, sums over time and means over episodes, as in A2C.
    share = 1 / (N if settings.whole_episodes else T * N)
    advantages = data.advantages
    if settings.normalise_advantages:
        advantages = normalised(advantages, piece.valid)
    if settings.discount_steps:
        advantages = advantages * numbers.discount**piece.times

    def loss(networks: Networks, together: bool) -> tuple[Array, tuple[Array, Array, Array]]:
        actor, critic = networks.actor, networks.critic
        features, read = features_of(networks, start, piece, together)
        parameters, pi = actor.policy(features), actor.distribution
        ratio = jnp.exp(pi.log_probability(parameters, piece.actions) - piece.log_chosen)
        policy = clipped_policy_loss(ratio, advantages, numbers.clip_ratio)
        values = critic.read(read, data.told, (T, N))
        reach = numbers.clip_ratio if settings.clip_values else jnp.inf
        value = clipped_value_loss(values, data.values, data.targets, reach)
        policy, negentropy, value = (
            share * jnp.sum(jnp.where(piece.valid, each, 0.0)) for each in (policy, pi.negentropy(parameters), value)
        )
        return policy + weight * negentropy + numbers.value_weight * value, (policy, negentropy, value)

    def find(together: bool, arrays: Any) -> tuple[tuple[Array, Array, Array], Any]:
        found = eqx.filter_value_and_grad(loss, has_aux=True)(eqx.combine(arrays, static), together)
        return found[0][1], eqx.filter(found[1], eqx.is_array)

    arrays, static = eqx.partition(networks, eqx.is_array)
    by_platform = {"cuda": functools.partial(find, True), "default": functools.partial(find, False)}
    losses, gradient = jax.lax.platform_dependent(arrays, **by_platform)
    return losses, eqx.combine(gradient, static)


def features_of(
    networks: Networks, start: Carries, piece: Piece, together: bool
) -> tuple[Float[Array, "time stream size"], Float[Array, "time stream size"] | None]:
    """The features of the history for the actor and, if it reads any, for the critic; in one pass if `together`."""
    actor, critic = networks.actor, networks.critic
    inputs = piece.first, piece.before, piece.observations
    if critic.history is not None and together:
        return follow_together((actor.history, critic.history), (start.actor, start.critic), *inputs)
    _, features = actor.history.follow_from(start.actor, *inputs)
    if critic.history is not None:
        return features, critic.history.follow_from(start.critic, *inputs)[1]
    return features, features if critic.shares else None


def normalised(advantages: Float[Array, "time stream"], valid: Bool[Array, "time stream"]) -> Array:
    """Advantages with mean 0 and standard deviation 1."""
    count = jnp.sum(valid)
    mean = jnp.sum(advantages) / count
    spread = jnp.sqrt(jnp.sum(jnp.where(valid, (advantages - mean) ** 2, 0.0)) / count)
    return jnp.where(valid, (advantages - mean) / (spread + 1e-8), 0.0)


def minibatches(key: PRNGKeyArray, streams: int, settings: PPOSettings) -> Int[Array, "step some"]:
    """Which streams each gradient step uses: in each pass all of them once, in an order of its own."""
    keys = jax.random.split(key, settings.epochs)
    orders = jax.vmap(lambda key: jax.random.permutation(key, streams))(keys)
    return orders.reshape(settings.epochs * settings.minibatches, -1)


def some_streams(data: Data, which: Int[Array, "some"]) -> Data:
    return jax.tree.map(lambda leaf: jnp.take(leaf, which, axis=1), data)


def part(key: PRNGKeyArray, purpose: int) -> PRNGKeyArray:
    return jax.random.fold_in(key, purpose)
