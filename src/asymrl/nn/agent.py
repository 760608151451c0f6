"""Actor and critic. A critic is described by what it reads: the history, a privileged signal, or both."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num, PRNGKeyArray

from asymrl.nn.architecture import Architecture
from asymrl.nn.distributions import LOG_SPREAD, Distribution, distribution_over
from asymrl.nn.features import kind_of, state_features
from asymrl.nn.grid_state import GridState, aligned
from asymrl.nn.history import History, Prepared
from asymrl.nn.layers import Features, Mlp, product, project_episodes
from asymrl.nn.memory import Carry
from asymrl.nn.user_modules import user_features
from asymrl.worlds.spaces import Space

HEADS = {"categorical": (512, 256), "feature-vector": (512, 256), "gridverse": (512,)}


class Actor(eqx.Module):
    """pi(a; h). Gives the parameters of the distribution of actions: logits, or means and logarithmic spreads.

    With the distribution `Greedy` they are action values Q(h, a).
    """

    history: History
    head: Mlp
    log_spread: Float[Array, "size"] | None
    distribution: Distribution = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        actions: Space,
        observations: Space,
        architecture: Architecture,
        distribution: Distribution | None = None,
    ):
        """`distribution`: what the outputs mean; by default that of the action space."""
        history_key, head_key = jax.random.split(key)
        self.distribution = distribution_over(actions) if distribution is None else distribution
        self.history = History(history_key, actions, observations, architecture, architecture.of_actor)
        outputs = self.distribution.outputs
        self.head = Mlp(head_key, self.history.memory.size, _hidden(architecture, observations), outputs)
        spreads = self.distribution.spreads
        self.log_spread = jnp.full(spreads, LOG_SPREAD) if spreads else None

    def policy(self, features: Float[Array, "*batch size"]) -> Float[Array, "*batch parameters"]:
        """The parameters, from the features of the history."""
        return _with_spread(self.head(features), self.log_spread)

    def prepared(self) -> ReadyActor:
        """The same policy, made ready to act; it can't learn."""
        return ReadyActor(self.history.prepared(), self.head, self.log_spread, self.distribution)

    def step(
        self, carry: Carry, before: Num[Array, "episode *action"], observation: Any
    ) -> tuple[Carry, Float[Array, "episode size"], Float[Array, "episode parameters"]]:
        """The next carry, the features of the history, and the parameters."""
        return self.prepared().step(carry, before, observation)


class ReadyActor(eqx.Module):
    """pi(a; h) for acting step by step."""

    history: Prepared
    head: Mlp
    log_spread: Float[Array, "size"] | None
    distribution: Distribution = eqx.field(static=True)

    def step(
        self,
        carry: Carry,
        before: Num[Array, "episode *action"],
        observation: Any,
    ) -> tuple[Carry, Float[Array, "episode size"], Float[Array, "episode parameters"]]:
        """The next carry, the features of the history, and the parameters."""
        carry, features = self.history.step(carry, before, observation)
        return carry, features, _with_spread(self.head(features), self.log_spread)

    def step_from(
        self, carry: Carry, first: Bool[Array, "stream"], before: Num[Array, "stream *action"], observation: Any
    ) -> tuple[Carry, Float[Array, "stream parameters"]]:
        """A step of streams: the next carry, and the parameters. An episode begins where `first` says so."""
        carry, features = self.history.step_from(carry, first, before, observation)
        return carry, _with_spread(self.head(features), self.log_spread)


def _with_spread(outputs: Float[Array, "*batch outputs"], log_spread: Float[Array, "spreads"] | None) -> Array:
    if log_spread is None:
        return outputs
    spreads = jnp.broadcast_to(log_spread, (*outputs.shape[:-1], *log_spread.shape))
    return jnp.concatenate([outputs, spreads], axis=-1)


class Critic(eqx.Module):
    """V(h), V(s) or V(h, s), depending on which inputs it has; or with `outputs`, a Q of that many actions.

    With a shared memory the history is the actor's; `with_history` inserts it.
    """

    history: History | None
    phi_s: Features | None
    head: Mlp
    unit: Float[Array, "*run"] | None
    """The unit of its values, if rewards are normalised; see `in_rewards`."""
    shares: bool = eqx.field(static=True)
    outputs: int | None = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        actions: Space,
        observations: Space,
        signal: Space,
        reads: str,
        architecture: Architecture,
        outputs: int | None = None,
    ):
        """`reads` is "h", "s" or "hs"; `signal` is the space of the privileged signal s."""
        history_key, state_key, head_key = jax.random.split(key, 3)
        self.shares, self.outputs = architecture.shared_memory and "h" in reads, outputs
        self.history = None
        if "h" in reads and not self.shares:
            self.history = History(history_key, actions, observations, architecture, architecture.of_critic)
        self.phi_s = _signal_features(state_key, signal, architecture) if "s" in reads else None
        self.unit = jnp.ones(()) if architecture.normalise_rewards else None
        of_history = architecture.memory_size if "h" in reads else 0
        size = of_history + (self.phi_s.size if self.phi_s else 0)
        self.head = Mlp(head_key, size, _hidden(architecture, observations), outputs or 1)
        if isinstance(self.phi_s, GridState):
            self.head = aligned(self.head, of_history)

    def __call__(
        self,
        before: Num[Array, "time episode *action"],
        observations: Any,
        signal: Any,
        inputs: Int[Array, ""] | None = None,
    ) -> Float[Array, "time episode *outputs"]:
        """The value, or the values of all actions, at each time of whole episodes; see `History.sequence`."""
        if self.shares and self.history is None:
            raise ValueError("this critic reads the actor's memory; call critic.with_history(actor) first")
        features = None if self.history is None else self.history.sequence(before, observations, inputs)
        return self.read(features, signal, before.shape[:2], whole_episodes=True)

    def in_rewards(self, values: Float[Array, "..."]) -> Float[Array, "..."]:
        """Its values in the units of the world's rewards."""
        return values if self.unit is None else values * self.unit

    def with_history(self, actor: Actor) -> Critic:
        """The critic with the history that it reads: its own, or the actor's if that is shared."""
        if not self.shares:
            return self
        return eqx.tree_at(lambda critic: critic.history, self, actor.history, is_leaf=lambda leaf: leaf is None)

    def read(
        self,
        features: Float[Array, "*batch size"] | None,
        signal: Any,
        batch: tuple[int, ...],
        *,
        whole_episodes: bool = False,
    ) -> Float[Array, "..."]:
        """The value or values, given the features of the history and the signal, as far as it reads them.

        `whole_episodes`: the batch is `[time, episode]`, and each episode starts at its first time.
        """
        first, *rest = self.head.layers
        hidden = jnp.broadcast_to(first.bias, (*batch, first.bias.shape[0]))
        if self.phi_s is not None:
            project = project_episodes if whole_episodes else type(self.phi_s).project_beside
            hidden = hidden + project(self.phi_s, features, signal, first.weight)
        elif features is not None:
            hidden = hidden + product(features, first.weight)
        for layer in rest:
            hidden = layer(jax.nn.relu(hidden))
        return hidden[..., 0] if self.outputs is None else hidden


def _signal_features(key: PRNGKeyArray, signal: Space, architecture: Architecture) -> Features:
    own = user_features(key, signal, architecture, "state_features")
    return state_features(key, signal, normalise=architecture.normalise_observations) if own is None else own


def _hidden(architecture: Architecture, observations: Space) -> tuple[int, ...]:
    return HEADS[kind_of(observations)] if architecture.hidden is None else architecture.hidden
