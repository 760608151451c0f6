"""The networks of the DQN family, the gradient of their losses, and a step along it."""

from __future__ import annotations

from typing import Any, TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

from asymrl.learners.episodes import TrainingBatch
from asymrl.learners.numbers import Numbers
from asymrl.learners.optimiser import AdamState, descend
from asymrl.learners.q_losses import Estimates, Variant, estimates, regression
from asymrl.nn.agent import Actor, Critic
from asymrl.nn.history import sequence_together, together_on_gpus

QAdams: TypeAlias = tuple[AdamState, AdamState | None]
"""The optimiser of Q(h, a) and that of the privileged network; None: the first is for both."""


class QLosses(eqx.Module):
    """The losses of the two regressions. NaN: there is no privileged network."""

    history: Float[Array, "*run"]
    privileged: Float[Array, "*run"]


class QNetworks(eqx.Module):
    """Q(h, a), which acts, and the privileged Q(h, s, a) or Q(s, a); None for plain DQN.

    The two are separate, or the privileged one reads the history through the features of the other.
    """

    history: Actor
    privileged: Critic | None

    def values(
        self,
        before: Num[Array, "time episode"],
        observations: Any,
        signal: Any,
        inputs: Int[Array, ""] | None = None,
        *,
        together: bool = False,
    ) -> tuple[Float[Array, "time episode action"], Float[Array, "time episode action"] | None]:
        """The values of all actions at each time of whole episodes, by both networks; see `History.sequence`.

        If `together`, both histories are followed in one pass.
        """
        history, privileged = self.history.history, self.privileged
        if privileged is None or privileged.history is None:
            features = history.sequence(before, observations, inputs)
            of_privileged = features if privileged is not None and privileged.shares else None
        elif together:
            both = history, privileged.history
            features, of_privileged = sequence_together(both, before, observations, inputs)
        else:
            features = history.sequence(before, observations, inputs)
            of_privileged = privileged.history.sequence(before, observations, inputs)
        values = self.history.policy(features)
        if privileged is None:
            return values, None
        return values, privileged.read(of_privileged, signal, before.shape[:2], whole_episodes=True)


def q_gradient(
    networks: QNetworks,
    target: QNetworks,
    data: TrainingBatch,
    variant: Variant,
    discount: Float[Array, ""] | float,
    *,
    bootstrap_truncated: bool,
    halved: bool,
) -> tuple[QLosses, QNetworks]:
    """The losses of both networks, and the gradient of their sum, or if `halved`, of their mean.

    With separate networks, this is the gradient of each network's own loss: neither loss has a gradient in the other
    network.
    """

    def loss(networks: QNetworks, towards: Estimates, together: bool) -> tuple[Float[Array, ""], QLosses]:
        of_history, of_privileged = networks.values(*data.inputs_of_actions(), data.longest(), together=together)
        history = regression(of_history, data.actions, towards.history, data.valid)
        if of_privileged is None or towards.privileged is None:
            return history, QLosses(history, jnp.full_like(history, jnp.nan))
        privileged = regression(of_privileged, data.actions, towards.privileged, data.valid)
        total = history + privileged
        return total / 2 if halved else total, QLosses(history, privileged)

    def gradient(together: bool, both: tuple[QNetworks, QNetworks]) -> tuple[QLosses, QNetworks]:
        networks, target = both
        how = {"bootstrap_truncated": bootstrap_truncated, "together": together}
        towards = q_targets(target, data, variant, discount, **how)
        (_, losses), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(networks, towards, together)
        return losses, gradient

    return together_on_gpus(gradient, (networks, target))


def descend_both(
    networks: QNetworks,
    gradient: QNetworks,
    adams: QAdams,
    rate: Float[Array, ""],
    sound: Bool[Array, ""],
    numbers: Numbers,
) -> tuple[QNetworks, QAdams, tuple[Float[Array, ""], Float[Array, ""]], Bool[Array, ""]]:
    """`descend` for both networks: as one model if they have one optimiser, else each on its own.

    The norms of the gradients are those of Q(h, a) and of the privileged network; with one optimiser, both are that
    of the whole gradient.
    """
    adam, privileged_adam = adams
    if privileged_adam is None:
        networks, adam, norm, sound = descend(networks, gradient, adam, rate, sound, numbers)
        return networks, (adam, None), (norm, norm), sound
    history, adam, norm, sound = descend(networks.history, gradient.history, adam, rate, sound, numbers)
    assert networks.privileged is not None
    privileged, privileged_adam, privileged_norm, sound = descend(
        networks.privileged, gradient.privileged, privileged_adam, rate, sound, numbers
    )
    return QNetworks(history, privileged), (adam, privileged_adam), (norm, privileged_norm), sound


def q_targets(
    target: QNetworks,
    data: TrainingBatch,
    variant: Variant,
    discount: Float[Array, ""] | float,
    *,
    bootstrap_truncated: bool,
    together: bool = False,
) -> Estimates:
    """What both networks are trained towards. Values after the end of an episode are 0.

    With `bootstrap_truncated`, an episode that was cut off bootstraps from its last value; the batch then has one more
    observation than actions.
    """
    last = data.lengths + (data.truncated & bootstrap_truncated)
    goes_on = jnp.arange(1, data.actions.shape[0] + 1)[:, None] < last[None]
    of_history, of_privileged = target.values(
        data.before, data.observations, data.signal, data.longest(), together=together
    )
    return estimates(variant, data.rewards, of_history, of_privileged, goes_on, discount)
