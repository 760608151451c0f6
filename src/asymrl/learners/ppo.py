"""Recurrent proximal policy optimisation (Schulman et al. 2017) for critics of the history, the state, or both.

An update takes some steps in each of N streams, estimates advantages with the critic (GAE), and passes over them a few
times: each gradient step uses some of the streams, whole, from what the networks remembered before the piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.learners.curve import Losses
from asymrl.learners.episodes import Episodes, Segments, WholeEpisodes
from asymrl.learners.key_purposes import MINIBATCHES, STREAM_SIGNALS, STREAM_STARTS
from asymrl.learners.numbers import Numbers
from asymrl.learners.optimiser import AdamState, descend, new_adam, norm_of
from asymrl.learners.ppo_losses import Networks, gradient_of, prepare
from asymrl.learners.schedules import negentropy_weight, scheduled
from asymrl.learners.signals import critic_signal
from asymrl.learners.state import RunState, counters, new_networks, where_on
from asymrl.learners.streams import Segment, Streams, begin_streams, empty_carries, whole_episodes
from asymrl.nn.agent import Actor, Critic
from asymrl.settings import PPOSettings
from asymrl.worlds.world import World


class PPOState(RunState):
    """One run of PPO, or a batch of them."""

    adam: AdamState
    streams: Streams | None  # None where whole episodes are collected


@dataclass(frozen=True)
class PPO:
    """The learner; see `Learner` for its methods."""

    world: World
    settings: PPOSettings

    @property
    def rollout(self) -> WholeEpisodes | Segments:
        if self.settings.whole_episodes:
            return WholeEpisodes(self.settings.whole_episodes)
        return Segments(self.settings.streams, self.settings.rollout)

    def init(self, seed: Int[Array, ""] | int) -> PPOState:
        settings = self.settings
        actor_key, critic_key, train_key = jax.random.split(jax.random.key(seed), 3)
        actor, critic = new_networks(self.world, settings, actor_key, critic_key)
        streams = None
        if not settings.whole_episodes:
            carries = empty_carries(actor, critic, critic_signal(self.world, settings), settings.streams)
            begin_key = jax.random.fold_in(jax.random.key(seed), STREAM_STARTS)
            streams = begin_streams(self.world, actor.distribution, carries, begin_key, settings.streams)
        return PPOState(
            actor=actor,
            critic=critic,
            adam=new_adam(Networks(actor, critic)),
            streams=streams,
            **counters(settings, train_key),
        )

    def exploration(self, run: PPOState, numbers: Numbers) -> None:
        return None  # the policy samples its actions

    def ready(self, run: PPOState) -> Bool[Array, ""]:
        return jnp.bool_(True)

    def networks(self, run: PPOState) -> list[Actor | Critic]:
        return [run.actor, run.critic]

    def update(
        self,
        key: PRNGKeyArray,
        run: PPOState,
        numbers: Numbers,
        steps: Int[Array, ""],
        batch: Segment | Episodes,
        on: Bool[Array, ""],
    ) -> tuple[PPOState, Losses]:
        """Estimates advantages, then passes over the steps in minibatches of streams."""
        settings, signal = self.settings, critic_signal(self.world, self.settings)
        if isinstance(batch, Episodes):
            start = empty_carries(run.actor, run.critic, signal, batch.lengths.shape[0])
            batch = Segment(start, whole_episodes(run.actor, batch, settings.horizon))
        start, piece = batch
        carries, data = prepare(
            Networks(run.actor, run.critic), *batch, signal, jax.random.fold_in(key, STREAM_SIGNALS), settings, numbers
        )
        rate, weight = learning_rate(steps, settings, numbers), negentropy_weight(run.timesteps, settings, numbers)

        def step(state: tuple[Networks, AdamState, Array], which: Int[Array, "some"]) -> tuple[Any, Losses]:
            networks, adam, finite = eqx.combine(state, static)
            minibatch = some_streams(data, which, axis=1), some_streams(start, which, axis=0)
            (policy, negentropy, value), gradient = gradient_of(networks, *minibatch, weight, settings, numbers)
            finite = finite & jnp.isfinite(policy + negentropy + value)
            norms = norm_of(gradient.critic), norm_of(gradient.actor)
            networks, adam, _, finite = descend(networks, gradient, adam, rate, finite, numbers)
            return eqx.filter((networks, adam, finite), eqx.is_array), Losses(value, policy, negentropy, weight, *norms)

        state, static = eqx.partition((Networks(run.actor, run.critic), run.adam, jnp.bool_(True)), eqx.is_array)
        order = minibatches(jax.random.fold_in(key, MINIBATCHES), piece.rewards.shape[1], settings)
        state, losses = jax.lax.scan(step, state, order)
        networks, adam, finite = eqx.combine(state, static)
        streams = run.streams
        if streams is not None:
            streams = streams._replace(carries=carries._replace(actor=streams.carries.actor))
        learned = eqx.tree_at(
            lambda r: (r.actor, r.critic, r.adam, r.streams, r.updates, r.failed),
            run,
            (networks.actor, networks.critic, adam, streams, run.updates + 1, run.failed | ~finite),
            is_leaf=lambda leaf: leaf is None,
        )
        return where_on(on, learned, run), jax.tree.map(jnp.mean, losses)


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
