"""Running statistics of a run: of what its networks read, and of the returns that its rewards are scaled by.

The rule, for all learners: an update acts and learns with the statistics of the updates before it, and adds its own
steps at its end, so that PPO's ratios are 1 before its first gradient step. Before the first update nothing is known,
and numbers are only clipped. Rewards are scaled when an update learns from them, by statistics that include their own
returns: otherwise a first reward of a thousand would spoil Adam's mean of squares for a long time.
"""

from __future__ import annotations

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from asymrl.learners.episodes import RUN_AXIS, Episodes, training_batch
from asymrl.learners.lengths import over_runs
from asymrl.learners.returns import discounted_so_far
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


def new_statistics(settings: Settings, actor: Actor, critic: Critic | None, streams: int = 0) -> Statistics | None:
    """The statistics of a run before its first step; None if nothing is normalised. `streams`: how many it has."""
    if not (settings.normalise_observations or settings.architecture.normalise_rewards):
        return None
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
    statistics: Statistics,
    rewards: Float[Array, "time stream"],
    first: Bool[Array, "time stream"],
    valid: Bool[Array, "time stream"],
    discount: Float[Array, ""],
) -> tuple[Statistics, Float[Array, "time stream"]]:
    """The rewards of one run, divided by the spread of discounted returns, and the statistics with these returns."""
    if statistics.returns is None:
        return statistics, rewards
    start = jnp.zeros(rewards.shape[1]) if statistics.ongoing is None else statistics.ongoing
    so_far = discounted_so_far(rewards, first, start, discount)
    returns = merged(statistics.returns, moments_of(so_far[..., None], valid))
    ongoing = None if statistics.ongoing is None else so_far[-1]
    scaled = jnp.clip(rewards * returns.scale[0], -LARGEST, LARGEST)
    return Statistics(statistics.observations, statistics.signal, returns, ongoing), scaled


def scaled_episodes(
    statistics: Statistics, episodes: Episodes, active: Bool[Array, "run"], discounts: Float[Array, "run"]
) -> tuple[Statistics, Episodes]:
    """`scaled_rewards` for whole episodes of all runs; the statistics of those that are not active do not change."""
    if statistics.returns is None:
        return statistics, episodes

    def one(statistics: Statistics, episodes: Episodes, discount: Float[Array, ""]) -> tuple[Statistics, Array]:
        never = jnp.zeros(episodes.rewards.shape, bool)
        return scaled_rewards(statistics, episodes.rewards, never, episodes.valid(), discount)

    new, rewards = jax.vmap(one, (0, RUN_AXIS, 0), (0, 1))(statistics, episodes, discounts)
    return where_active(active, new, statistics), episodes._replace(rewards=rewards)


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


def with_episodes(
    env: World,
    settings: Settings,
    statistics: Statistics,
    actors: Actor,
    critics: Critic | None,
    episodes: Episodes,
    active: Bool[Array, "run"],
    keys: Any,
) -> Statistics:
    """`with_readings` for whole episodes of all runs; those that are not active stay as they are."""

    def one(length: int, statistics: Statistics, actor: Any, critic: Any, episodes: Episodes, key: Any) -> Statistics:
        data = training_batch(env, settings, episodes, length, key)
        _, observations, signal = data.inputs_of_actions()
        return with_readings(statistics, actor, critic, observations, signal, data.valid)

    models = (statistics, actors, critics)
    new = over_runs(one, settings.horizon, episodes, active, models, (keys,))
    return where_active(active, new, statistics)


def where_active(active: Bool[Array, "run"], new: Any, old: Any) -> Any:
    """The arrays of the active runs from `new`, of the others from `old`."""
    return jax.tree.map(
        lambda new, old: jnp.where(active.reshape(-1, *[1] * (new.ndim - 1)), new, old) if eqx.is_array(new) else new,
        new,
        old,
    )


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
