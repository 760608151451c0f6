"""Actor and critic. A critic is described by what it reads: the history, a privileged signal, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from asymrl.envs.spaces import Discrete, Space
from asymrl.models.attention import Attention
from asymrl.models.features import Features, action_features, kind_of, observation_features, state_features
from asymrl.models.layers import Mlp
from asymrl.models.memory import Carry, Gru, Lstm, Memory, Rnn, Stack, Window

NO_ACTION = -1  # stands before the first action of an episode; its features are zeros
MEMORIES = ("gru", "lstm", "rnn", "attention")
HEADS = {"categorical": (512, 256), "feature-vector": (512, 256), "gridverse": (512,)}


@dataclass(frozen=True)
class Architecture:
    """The shape of the networks. Two runs with equal architectures share a compiled program."""

    memory: str = "gru"
    """What remembers the history: gru, lstm, rnn or attention, or a stack of them such as rnn:attention."""
    memory_size: int = 128
    """Number of features of the history."""
    window: int | None = None
    """Remember only this many last action-observation pairs; none means the whole episode."""
    attention_heads: int = 2
    """Heads of an attention memory."""
    hidden: tuple[int, ...] | None = None
    """Hidden layers of policy and value; none means the paper's for this kind of world."""

    def __post_init__(self) -> None:
        for layer in self.memory.split(":"):
            if layer not in MEMORIES:
                raise ValueError(f"memory {self.memory!r}: {layer!r} is not one of {', '.join(MEMORIES)}")
        if self.window is not None and self.window < 1:
            raise ValueError(f"window {self.window}: remember at least 1 pair, or none for the whole episode")
        if self.memory_size < 1:
            raise ValueError(f"memory_size {self.memory_size}: at least 1 feature is needed")


class History(eqx.Module):
    """phi(h): features of actions and observations, taken in by a memory."""

    phi_a: Features
    phi_o: Features
    memory: Memory

    def __init__(self, key: PRNGKeyArray, actions: Discrete, observations: Space, shape: Architecture, horizon: int):
        a_key, o_key, m_key = jax.random.split(key, 3)
        self.phi_a = action_features(a_key, actions, kind_of(observations))
        self.phi_o = observation_features(o_key, observations)
        self.memory = _memory(m_key, self.phi_a.size + self.phi_o.size, shape, horizon)

    def inputs(self, before: Int[Array, "*batch"], observations: Any) -> Float[Array, "*batch inputs"]:
        """Features of the action before (NO_ACTION at the start) and of what was seen then."""
        taken = self.phi_a(jnp.maximum(before, 0))
        some = jnp.broadcast_to((before != NO_ACTION)[..., None], taken.shape)
        return jnp.concatenate([jnp.where(some, taken, 0.0), self.phi_o(observations)], axis=-1)

    def step(
        self, carry: Carry, before: Int[Array, "episode"], observation: Any
    ) -> tuple[Carry, Float[Array, "episode size"]]:
        return self.memory.step(carry, self.inputs(before, observation))

    def sequence(self, before: Int[Array, "time episode"], observations: Any) -> Float[Array, "time episode size"]:
        return self.memory.sequence(self.inputs(before, observations))

    def replay(
        self, before: Int[Array, "time episode"], observations: Any, features: Float[Array, "time episode size"]
    ) -> Float[Array, "time episode size"]:
        return self.memory.replay(self.inputs(before, observations), features)


class Actor(eqx.Module):
    """pi(a; h). Gives the logits of the policy."""

    history: History
    head: Mlp

    def __init__(self, key: PRNGKeyArray, actions: Discrete, observations: Space, shape: Architecture, horizon: int):
        history_key, head_key = jax.random.split(key)
        self.history = History(history_key, actions, observations, shape, horizon)
        self.head = Mlp(head_key, self.history.memory.size, _hidden(shape, observations), actions.n)

    def step(
        self, carry: Carry, before: Int[Array, "episode"], observation: Any
    ) -> tuple[Carry, Float[Array, "episode size"], Float[Array, "episode actions"]]:
        """What is remembered now, the features of the history, and the logits."""
        carry, features = self.history.step(carry, before, observation)
        return carry, features, self.head(features)


class Critic(eqx.Module):
    """V(h), V(s) or V(h, s), by which of its two inputs are there."""

    history: History | None
    phi_s: Features | None
    head: Mlp

    def __init__(
        self,
        key: PRNGKeyArray,
        actions: Discrete,
        observations: Space,
        signal: Space,
        reads: str,
        shape: Architecture,
        horizon: int,
    ):
        """`reads` is "h", "s" or "hs"; `signal` is the space of the privileged signal s."""
        history_key, state_key, head_key = jax.random.split(key, 3)
        self.history = History(history_key, actions, observations, shape, horizon) if "h" in reads else None
        self.phi_s = state_features(state_key, signal) if "s" in reads else None
        size = self.history.memory.size if self.history else 0
        size += self.phi_s.size if self.phi_s else 0
        self.head = Mlp(head_key, size, _hidden(shape, observations), 1)

    def __call__(
        self, before: Int[Array, "time episode"], observations: Any, signal: Any
    ) -> Float[Array, "time episode"]:
        """The value at each time of whole episodes."""
        read = []
        if self.history is not None:
            read.append(self.history.sequence(before, observations))
        if self.phi_s is not None:
            read.append(self.phi_s(signal))
        return self.head(jnp.concatenate(read, axis=-1))[..., 0]


def _hidden(shape: Architecture, observations: Space) -> tuple[int, ...]:
    return HEADS[kind_of(observations)] if shape.hidden is None else shape.hidden


def _memory(key: PRNGKeyArray, inputs: int, shape: Architecture, horizon: int) -> Memory:
    names = shape.memory.split(":")
    layers, width = [], inputs
    for k, name in zip(jax.random.split(key, len(names)), names, strict=True):
        if name == "attention":
            layers.append(Attention(k, width, shape.memory_size, heads=shape.attention_heads, horizon=horizon))
        else:
            layers.append({"gru": Gru, "lstm": Lstm, "rnn": Rnn}[name](k, width, shape.memory_size))
        width = shape.memory_size
    memory = layers[0] if len(layers) == 1 else Stack(tuple(layers))
    return memory if shape.window is None else Window(memory, inputs, shape.window)
