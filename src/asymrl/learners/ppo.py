"""Recurrent proximal policy optimisation (Schulman et al. 2017) for critics of the history, the state, or both.

An update takes some steps in each of N streams, estimates advantages with the critic (GAE), and passes over them a few
times: each gradient step uses some of the streams, whole, from what the networks remembered before the piece.
Functions of one run are vectorised over the runs of a program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.learners.curve import Losses, count_ended, evaluate_if_due, write_point
from asymrl.learners.environment_streams import act_in_environments
from asymrl.learners.episodes import RUN_AXIS, Episodes
from asymrl.learners.key_purposes import MINIBATCHES, STREAM_SIGNALS, STREAM_STARTS, STREAM_STEPS
from asymrl.learners.numbers import Numbers
from asymrl.learners.optimiser import AdamState, descend, new_adam, norm_of
from asymrl.learners.ppo_losses import Networks, gradient_of, prepare
from asymrl.learners.rollout import roll_out
from asymrl.learners.running_statistics import (
    Statistics,
    new_statistics,
    scaled_rewards,
    where_active,
    with_input_statistics,
    with_readings,
)
from asymrl.learners.schedules import negentropy_weight, scheduled
from asymrl.learners.signals import critic_signal
from asymrl.learners.state import RunState, counters, is_active, is_due, keys_of, new_networks
from asymrl.learners.streams import (
    PIECE_AXES,
    Piece,
    Streams,
    act_in_streams,
    begin_streams,
    empty_carries,
    whole_episodes,
)
from asymrl.nn.agent import Actor
from asymrl.settings import PPOSettings
from asymrl.worlds.world import World

if TYPE_CHECKING:
    from asymrl.learners.collector import Collector


class PPOState(RunState):
    """One run of PPO, or a batch of them."""

    adam: AdamState
    streams: Streams | None  # None where whole episodes are collected
    statistics: Statistics | None


def new_run(env: World, settings: PPOSettings, seed: Int[Array, ""] | int) -> PPOState:
    """A run before its first update. Everything random in it comes from the seed."""
    actor_key, critic_key, train_key = jax.random.split(jax.random.key(seed), 3)
    actor, critic = new_networks(env, settings, actor_key, critic_key)
    streams = None
    if not settings.whole_episodes:
        carries = empty_carries(actor, critic, critic_signal(env, settings), settings.streams)
        begin_key = jax.random.fold_in(jax.random.key(seed), STREAM_STARTS)
        streams = begin_streams(env, actor.distribution, carries, begin_key, settings.streams)
    return PPOState(
        actor=actor,
        critic=critic,
        adam=new_adam(Networks(actor, critic)),
        streams=streams,
        statistics=new_statistics(settings, actor, critic, 0 if settings.whole_episodes else settings.streams),
        **counters(settings, train_key),
    )


def update(env: World, settings: PPOSettings, numbers: Numbers, runs: PPOState) -> PPOState:
    """One update of each run that is still active; the others stay exactly as they are."""
    active, keys = is_active(runs, numbers), keys_of(runs)

    def act(actor: Actor, streams: Streams, key: PRNGKeyArray) -> tuple[Streams, Piece]:
        return act_in_streams(env, actor, streams, jax.random.fold_in(key, STREAM_STEPS), settings.rollout)

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
    """The steps of an update in a world that runs in Python, or only the first `steps` of them."""
    del numbers
    if settings.whole_episodes:
        return collector.collect(runs.actor, keys, active, episodes=settings.whole_episodes, steps=steps)
    keys = jax.vmap(lambda key: jax.random.fold_in(key, STREAM_STEPS))(keys)
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
    learned = where_active(active, learned, runs)
    return write_point(learned, runs.timesteps, losses, evaluated, due, numbers)


def as_pieces(actors: Actor, episodes: Episodes, settings: PPOSettings) -> tuple[None, Piece]:
    """Whole episodes of all runs as the pieces that an update learns from."""
    axes = {"in_axes": (eqx.if_array(0), RUN_AXIS), "out_axes": PIECE_AXES}
    cut = eqx.filter_vmap(lambda actor, episodes: whole_episodes(actor, episodes, settings.horizon), **axes)
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
    """Estimates advantages, counts the episodes that ended, and passes over the piece in minibatches of streams."""
    networks, count, signal = Networks(run.actor, run.critic), piece.rewards.shape[1], critic_signal(env, settings)
    start = empty_carries(run.actor, run.critic, signal, count) if run.streams is None else run.streams.carries
    statistics = run.statistics
    if statistics is not None:
        statistics, rewards = scaled_rewards(statistics, piece.rewards, piece.first, piece.valid, numbers.discount)
        piece = piece._replace(rewards=rewards)
    carries, data = prepare(networks, start, piece, signal, jax.random.fold_in(key, STREAM_SIGNALS), settings, numbers)
    rate = learning_rate(run.timesteps, settings, numbers)
    run = count_ended(run, piece.ended, piece.returns, piece.times + 1, jnp.sum(piece.valid))
    weight = negentropy_weight(run.timesteps, settings, numbers)

    def step(state: tuple[Networks, AdamState, Array], which: Int[Array, "some"]) -> tuple[Any, Losses]:
        networks, adam, sound = eqx.combine(state, static)
        minibatch = some_streams(data, which, axis=1), some_streams(start, which, axis=0)
        (policy, negentropy, value), gradient = gradient_of(networks, *minibatch, weight, settings, numbers)
        sound = sound & jnp.isfinite(policy + negentropy + value)
        norms = norm_of(gradient.critic), norm_of(gradient.actor)
        networks, adam, _, sound = descend(networks, gradient, adam, rate, sound, numbers)
        return eqx.filter((networks, adam, sound), eqx.is_array), Losses(value, policy, negentropy, weight, *norms)

    state, static = eqx.partition((networks, run.adam, jnp.bool_(True)), eqx.is_array)
    state, losses = jax.lax.scan(step, state, minibatches(jax.random.fold_in(key, MINIBATCHES), count, settings))
    networks, adam, sound = eqx.combine(state, static)
    if statistics is not None:
        read = piece.observations, data.signal, piece.valid
        statistics = with_readings(statistics, networks.actor, networks.critic, *read)
        networks = Networks(
            with_input_statistics(networks.actor, statistics), with_input_statistics(networks.critic, statistics)
        )
    if streams is not None:
        streams = streams._replace(carries=carries._replace(actor=streams.carries.actor))
    learned = eqx.tree_at(
        lambda r: (r.actor, r.critic, r.adam, r.streams, r.statistics, r.updates, r.failed),
        run,
        (networks.actor, networks.critic, adam, streams, statistics, run.updates + 1, run.failed | ~sound),
        is_leaf=lambda leaf: leaf is None,
    )
    return learned, jax.tree.map(jnp.mean, losses)


def learning_rate(timesteps: Int[Array, ""], settings: PPOSettings, numbers: Numbers) -> Float[Array, ""]:
    """The rate of all gradient steps of an update that begins after `timesteps` steps."""
    if not settings.anneal:
        return numbers.learning_rate
    return scheduled("linear", timesteps, start=numbers.learning_rate, end=0.0, steps=numbers.steps)


def minibatches(key: PRNGKeyArray, streams: int, settings: PPOSettings) -> Int[Array, "step some"]:
    """Which streams each gradient step uses: each pass uses all of them once, in a new random order."""
    keys = jax.random.split(key, settings.epochs)
    orders = jax.vmap(lambda key: jax.random.permutation(key, streams))(keys)
    return orders.reshape(settings.epochs * settings.minibatches, -1)


def some_streams(tree: Any, which: Int[Array, "some"], axis: int) -> Any:
    """These streams of all arrays, which have the streams along this axis."""
    return jax.tree.map(lambda leaf: jnp.take(leaf, which, axis=axis), tree)
