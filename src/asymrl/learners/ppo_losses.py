"""What PPO learns from: advantages, computed once per update, and the losses of a gradient step.

Arrays are `[time, stream, ...]`, of one run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from asymrl.learners.losses import clipped_policy_loss, clipped_value_loss
from asymrl.learners.numbers import Numbers
from asymrl.learners.returns import gae
from asymrl.learners.signals import CriticSignal
from asymrl.learners.streams import Carries, Piece, follow_signal
from asymrl.nn.agent import Actor, Critic
from asymrl.nn.history import follow_together, together_on_gpus
from asymrl.nn.memory import Carry
from asymrl.settings import PPOSettings


class Networks(eqx.Module):
    """What one loss and one optimiser learn together."""

    actor: Actor
    critic: Critic


class Data(NamedTuple):
    """What the gradient steps of an update learn from."""

    piece: Piece
    signal: Any  # what the critic reads besides the history
    values: Float[Array, "time stream"]  # of the critic before the update
    advantages: Float[Array, "time stream"]

    @property
    def targets(self) -> Float[Array, "time stream"]:
        return self.advantages + self.values


class PPOLosses(NamedTuple):
    """The three parts of the loss, not yet weighted: of each step, or their means."""

    policy: Float[Array, "*time_stream"]
    negentropy: Float[Array, "*time_stream"]
    value: Float[Array, "*time_stream"]


def prepare(
    networks: Networks,
    start: Carries,
    piece: Piece,
    signal: CriticSignal,
    key: PRNGKeyArray,
    settings: PPOSettings,
    numbers: Numbers,
) -> tuple[Carries, Data]:
    """The critic's signal and values along the piece before the update, and the advantages that follow.

    Also returns what the critic carries on to the next piece.
    """
    critic, batch = networks.critic, piece.rewards.shape
    signal_carry, signals, next_signals = start.signal, None, None
    if critic.phi_s is not None:
        signal_carry, signals, next_signals = follow_signal(signal, key, start.signal, piece)
    critic_carry, features, next_features = remembered_along(networks, start, piece)
    values = jnp.where(piece.valid, critic.read(features, signals, batch), 0.0)
    next_values = critic.read(next_features, next_signals, batch)
    ahead = values_ahead(values, next_values, piece, settings.bootstrap_truncated)
    advantages = gae(piece.rewards, values, ahead, piece.ended, numbers.discount, numbers.gae_lambda)
    data = Data(piece, signals, values, jnp.where(piece.valid, advantages, 0.0))
    return start._replace(critic=critic_carry, signal=signal_carry), data


def remembered_along(
    networks: Networks, start: Carries, piece: Piece
) -> tuple[Carry, Float[Array, "time stream size"] | None, Float[Array, "time stream size"] | None]:
    """The next carry of the critic's own memory, and the features that it reads at each step and after each action."""
    history = networks.critic.with_history(networks.actor).history
    if history is None:
        return start.critic, None, None
    is_shared = networks.critic.shares
    projected = history.project(piece.before, piece.observations)
    following = history.project(piece.actions, piece.next_observations)
    carry, features, next_features = history.memory.follow_with_next(
        start.actor if is_shared else start.critic, piece.first, projected, following
    )
    return start.critic if is_shared else carry, features, next_features


def values_ahead(
    values: Float[Array, "time stream"],
    next_values: Float[Array, "time stream"],
    piece: Piece,
    bootstrap_truncated: bool,
) -> Float[Array, "time stream"]:
    """What each step bootstraps from: the value after its action, 0 where the episode is over.

    Inside an episode this is the value in the next row, which read the same sampled state.
    """
    cut = piece.truncated & bootstrap_truncated
    next_values = jnp.where(cut, next_values, jnp.concatenate([values[1:], next_values[-1:]]))
    over = ~piece.valid | piece.terminated | (piece.truncated & ~cut)
    return jnp.where(over, 0.0, next_values)


def gradient_of(
    networks: Networks,
    data: Data,
    start: Carries,
    weight: Float[Array, ""],
    settings: PPOSettings,
    numbers: Numbers,
) -> tuple[PPOLosses, Networks]:
    """The losses of some streams, and the gradient of their weighted sum; `weight` is that of the negative entropy."""
    advantages = weighted_advantages(data, settings, numbers)

    def loss(networks: Networks, together: bool) -> tuple[Float[Array, ""], PPOLosses]:
        losses = mean_losses(losses_of(networks, data, advantages, start, together, settings, numbers), data, settings)
        return losses.policy + weight * losses.negentropy + numbers.value_weight * losses.value, losses

    def gradient(together: bool, networks: Networks) -> tuple[PPOLosses, Networks]:
        (_, losses), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(networks, together)
        return losses, gradient

    return together_on_gpus(gradient, networks)


def losses_of(
    networks: Networks,
    data: Data,
    advantages: Float[Array, "time stream"],
    start: Carries,
    together: bool,
    settings: PPOSettings,
    numbers: Numbers,
) -> PPOLosses:
    """The losses of each step."""
    piece, pi = data.piece, networks.actor.distribution
    of_actor, of_critic = features_of(networks, start, piece, together)
    parameters, values = (
        networks.actor.policy(of_actor),
        networks.critic.read(of_critic, data.signal, data.values.shape),
    )
    ratio = jnp.exp(pi.log_probability(parameters, piece.actions) - piece.log_chosen)
    clip_values = numbers.clip_ratio if settings.clip_values else jnp.inf
    return PPOLosses(
        policy=clipped_policy_loss(ratio, advantages, numbers.clip_ratio),
        negentropy=pi.negentropy(parameters),
        value=clipped_value_loss(values, data.values, data.targets, clip_values),
    )


def mean_losses(losses: PPOLosses, data: Data, settings: PPOSettings) -> PPOLosses:
    """Means over all steps; of whole episodes, sums over time and means over episodes, as in A2C."""
    T, N = data.values.shape
    count = N if settings.whole_episodes else T * N
    return PPOLosses(*(jnp.sum(jnp.where(data.piece.valid, each, 0.0)) / count for each in losses))


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


def weighted_advantages(data: Data, settings: PPOSettings, numbers: Numbers) -> Float[Array, "time stream"]:
    """The advantages as the policy loss uses them: normalised and discounted, if the settings say so."""
    advantages = data.advantages
    if settings.normalise_advantages:
        advantages = normalised(advantages, data.piece.valid)
    if settings.discount_steps:
        advantages = advantages * numbers.discount**data.piece.times
    return advantages


def normalised(advantages: Float[Array, "time stream"], valid: Bool[Array, "time stream"]) -> Array:
    """Advantages with mean 0 and standard deviation 1; 0 where they are not `valid`, as the input must be."""
    count = jnp.sum(valid)
    mean = jnp.sum(advantages) / count
    spread = jnp.sqrt(jnp.sum(jnp.where(valid, (advantages - mean) ** 2, 0.0)) / count)
    return jnp.where(valid, (advantages - mean) / (spread + 1e-8), 0.0)
