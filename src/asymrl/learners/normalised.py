"""Running statistics of a run: of what its networks read, and of the returns that its rewards are scaled by.

The rule, for all learners: an update acts and learns with the statistics of the updates before it, and adds its own
steps at its end, so that PPO's ratios are 1 before its first gradient step. Before the first update nothing is known,
and numbers are only clipped. Rewards are scaled when an update learns from them, by statistics that include their own
returns: otherwise a first reward of a thousand would spoil Adam's mean of squares for a long time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.learners.bucket import in_bucket
from asymrl.learners.curve import Losses
from asymrl.learners.episodes import Episodes, Segments, WholeEpisodes, training_batch
from asymrl.learners.key_purposes import SIGNALS, STREAM_SIGNALS
from asymrl.learners.learner import Learner
from asymrl.learners.numbers import Numbers
from asymrl.learners.returns import discounted_so_far
from asymrl.learners.signals import critic_signal
from asymrl.learners.state import RunState, where_on
from asymrl.learners.streams import Segment, follow_signal
from asymrl.nn.agent import Actor, Critic
from asymrl.nn.layers import Features
from asymrl.nn.normalised import LARGEST, Moments, merged, moments_of, no_moments, normalised_by, normalised_parts
from asymrl.settings import Settings
from asymrl.worlds.world import World

Network = TypeVar("Network", bound=Actor | Critic)


class Statistics(eqx.Module):
    """What is known about the steps of a run. None: nothing of that kind is normalised."""

    observations: Moments | None
    signal: Moments | None  # what the critic reads besides the history
    returns: Moments | None  # discounted, so far in the episode, at each step; vectors of one number
    ongoing: Float[Array, "*run stream"] | None  # the returns of streams at the end of the last update


@dataclass(frozen=True)
class Normalised:
    """A learner whose networks read normalised inputs and, if the settings say so, learn from scaled rewards."""

    plain: Learner

    @property
    def world(self) -> World:
        return self.plain.world

    @property
    def settings(self) -> Any:
        return self.plain.settings

    @property
    def rollout(self) -> WholeEpisodes | Segments:
        return self.plain.rollout

    def init(self, seed: Int[Array, ""] | int) -> Any:
        run = self.plain.init(seed)
        streams = self.rollout.streams if isinstance(self.rollout, Segments) else 0
        statistics = new_statistics(self.settings, run.actor, run.critic, streams)
        return eqx.tree_at(lambda r: r.statistics, run, statistics, is_leaf=lambda leaf: leaf is None)

    def exploration(self, run: Any, numbers: Numbers) -> Float[Array, ""] | None:
        return self.plain.exploration(run, numbers)

    def ready(self, run: Any) -> Bool[Array, ""]:
        return self.plain.ready(run)

    def networks(self, run: Any) -> list[Any]:
        return self.plain.networks(run)

    def update(
        self, key: PRNGKeyArray, run: Any, numbers: Numbers, steps: Int[Array, ""], batch: Any, on: Bool[Array, ""]
    ) -> tuple[Any, Losses]:
        """The update of the plain learner, with scaled rewards; then the networks have the statistics of the batch."""
        on_batch = on & self.ready(run)
        scaled_statistics, scaled = scaled_rewards(run.statistics, batch, numbers.discount)
        learned, losses = self.plain.update(key, run, numbers, steps, scaled, on)
        statistics = self.with_readings(scaled_statistics, key, learned, batch, on_batch)
        statistics = where_on(on_batch, statistics, run.statistics)
        networks = [with_input_statistics(network, statistics) for network in self.networks(learned)]
        parts = lambda r: (r.statistics, *self.networks(r))  # noqa: E731
        return eqx.tree_at(parts, learned, (statistics, *networks)), losses

    def with_readings(
        self, statistics: Statistics, key: PRNGKeyArray, run: RunState, batch: Episodes | Segment, on: Bool[Array, ""]
    ) -> Statistics:
        """The statistics, including what the networks read in the batch."""
        if isinstance(batch, Segment):
            start, piece = batch
            signal, signal_key = critic_signal(self.world, self.settings), jax.random.fold_in(key, STREAM_SIGNALS)
            values = None
            if run.critic.phi_s is not None:
                _, values, _ = follow_signal(signal, signal_key, start.signal, piece)
            return with_readings(statistics, run.actor, run.critic, piece.observations, values, piece.valid)

        def read(length: int, statistics: Statistics, actor: Any, critic: Any, episodes: Episodes, key: Any) -> Any:
            data = training_batch(self.world, self.settings, episodes, length, key)
            _, observations, signal = data.inputs_of_actions()
            return with_readings(statistics, actor, critic, observations, signal, data.valid)

        longest = jnp.where(on, jnp.max(batch.lengths), 0)
        read_by = statistics, run.actor, run.critic
        return in_bucket(read, self.settings.horizon, longest, *read_by, batch, jax.random.fold_in(key, SIGNALS))


def new_statistics(settings: Settings, actor: Actor, critic: Critic | None, streams: int = 0) -> Statistics:
    """The statistics of a run before its first step. `streams`: how many it has."""
    scaled = settings.architecture.normalise_rewards
    return Statistics(
        observations=_room(actor.history.phi_o),
        signal=None if critic is None or critic.phi_s is None else _room(critic.phi_s),
        returns=no_moments(1) if scaled else None,
        ongoing=jnp.zeros(streams) if scaled and streams else None,
    )


def _room(features: Features) -> Moments | None:
    parts = normalised_parts(features)
    return no_moments(sum(part.size for part in parts)) if parts else None


def scaled_rewards(
    statistics: Statistics, batch: Episodes | Segment, discount: Float[Array, ""]
) -> tuple[Statistics, Episodes | Segment]:
    """The batch with rewards divided by the spread of discounted returns, and the statistics with these returns."""
    if statistics.returns is None:
        return statistics, batch
    if isinstance(batch, Episodes):
        rewards, valid, first = batch.rewards, batch.valid(), jnp.zeros(batch.rewards.shape, bool)
    else:
        rewards, valid, first = batch.piece.rewards, batch.piece.valid, batch.piece.first
    start = jnp.zeros(rewards.shape[1]) if statistics.ongoing is None else statistics.ongoing
    so_far = discounted_so_far(rewards, first, start, discount)
    returns = merged(statistics.returns, moments_of(so_far[..., None], valid))
    ongoing = None if statistics.ongoing is None else so_far[-1]
    scaled = jnp.clip(rewards * returns.scale[0], -LARGEST, LARGEST)
    statistics = Statistics(statistics.observations, statistics.signal, returns, ongoing)
    if isinstance(batch, Episodes):
        return statistics, batch._replace(rewards=scaled)
    return statistics, batch._replace(piece=batch.piece._replace(rewards=scaled))


def with_readings(
    statistics: Statistics,
    actor: Actor,
    critic: Critic | None,
    observations: Any,
    signal: Any,
    valid: Bool[Array, "_ _"],
) -> Statistics:
    """The statistics of one run, including what its networks read at some steps, `[time, stream, ...]`."""
    observation_moments = _added(statistics.observations, actor.history.phi_o, observations, valid)
    signal_moments = statistics.signal
    if critic is not None and critic.phi_s is not None:
        signal_moments = _added(signal_moments, critic.phi_s, signal, valid)
    return Statistics(observation_moments, signal_moments, statistics.returns, statistics.ongoing)


def _added(moments: Moments | None, features: Features, values: Any, valid: Bool[Array, "_ _"]) -> Moments | None:
    if moments is None:
        return None
    return merged(moments, moments_of(jnp.concatenate(features.measured(values), axis=-1), valid))


def with_input_statistics(network: Network, statistics: Statistics) -> Network:
    """An actor or a critic that normalises with these statistics; of one run, or of several."""
    if statistics.observations is not None and network.history is not None:
        phi_o = normalised_by(network.history.phi_o, statistics.observations)
        network = eqx.tree_at(lambda n: n.history.phi_o, network, phi_o)
    if not isinstance(network, Critic):
        return network
    if statistics.signal is not None and network.phi_s is not None:
        network = eqx.tree_at(lambda n: n.phi_s, network, normalised_by(network.phi_s, statistics.signal))
    if statistics.returns is not None:
        network = eqx.tree_at(lambda n: n.unit, network, 1 / statistics.returns.scale[..., 0])
    return network
