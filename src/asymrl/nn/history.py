"""phi(h) of a network: features of actions and observations, and the memory that takes them in."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num, PRNGKeyArray

from asymrl.nn.architecture import Architecture, is_users
from asymrl.nn.distributions import NO_ACTION
from asymrl.nn.features import Parts, action_features, kind_of, observation_features
from asymrl.nn.gru import Gru
from asymrl.nn.layers import Features
from asymrl.nn.lstm import Lstm
from asymrl.nn.memory import Carry, Feedforward, Memory, Window
from asymrl.nn.user_modules import UserFeatures, UserMemory, user_features
from asymrl.worlds.spaces import Record, Space


class History(eqx.Module):
    """phi(h): features of actions and observations, taken in by a memory."""

    phi_a: Features
    phi_o: Features
    memory: Memory

    def __init__(
        self,
        key: PRNGKeyArray,
        actions: Space,
        observations: Space,
        architecture: Architecture,
        kind: str | None = None,
    ):
        """`kind`: of the memory, if it is not `architecture.memory`."""
        a_key, o_key, m_key = jax.random.split(key, 3)
        self.phi_a = action_features(a_key, actions, kind_of(observations))
        own = user_features(o_key, observations, architecture, "observation_features")
        normalise = architecture.normalise_observations
        self.phi_o = observation_features(o_key, observations, normalise=normalise) if own is None else own
        inputs = self.phi_a.size + self.phi_o.size
        self.memory = _memory(m_key, kind or architecture.memory, inputs, architecture)

    @property
    def seen_parts(self) -> tuple[str, ...] | None:
        """The parts of an observation that are read, where it has parts."""
        if isinstance(self.phi_o, UserFeatures) and isinstance(self.phi_o.space, Record):
            return tuple(name for name, _ in self.phi_o.space.items())
        return self.phi_o.names if isinstance(self.phi_o, Parts) else None

    def project(self, before: Num[Array, "..."], observations: Any) -> Float[Array, "*batch width"]:
        """The memory's input: the projected features of the previous action and of the observation after it.

        The features of NO_ACTION are zeros.
        """
        weight, bias = self.memory.projection()
        of_action, of_observation = jnp.split(weight, [self.phi_a.size])
        action_term = self.phi_a.project(_some_action(before), of_action)
        observation_term = self.phi_o.project(observations, of_observation)
        return _memory_input(before, action_term, observation_term, bias)

    def step(
        self, carry: Carry, before: Num[Array, "episode *action"], observation: Any
    ) -> tuple[Carry, Float[Array, "episode size"]]:
        return self.memory.advance(carry, self.project(before, observation))

    def prepared(self) -> Prepared:
        """The same history for acting, with everything computed that does not depend on the episode."""
        weight, bias = self.memory.projection()
        taken = self.phi_a.prepared(weight[: self.phi_a.size])
        return Prepared(taken, self.phi_o.prepared(weight[self.phi_a.size :]), bias, self.memory)

    def sequence(
        self, before: Num[Array, "time episode *action"], observations: Any, inputs: Int[Array, ""] | None = None
    ) -> Float[Array, "time episode size"]:
        """The features at each time of whole episodes; arbitrary after the first `inputs` times, if given."""
        return self.memory.follow(self.project(before, observations), inputs)

    def follow_from(
        self,
        carry: Carry,
        first: Bool[Array, "time stream"],
        before: Num[Array, "time stream *action"],
        observations: Any,
    ) -> tuple[Carry, Float[Array, "time stream size"]]:
        """The next carry, and the features at each time of a piece of streams; see `Memory.follow_from`."""
        return self.memory.follow_from(carry, first, self.project(before, observations))

    def replay(
        self,
        before: Num[Array, "time episode *action"],
        observations: Any,
        features: Float[Array, "time episode size"],
        inputs: Int[Array, ""] | None = None,
    ) -> Float[Array, "time episode size"]:
        """`sequence`, whose values are known already; only gradients remain to be computed."""
        return self.memory.follow(self.project(before, observations), inputs, features)


def follow_together(
    histories: tuple[History, History],
    carries: tuple[Carry, Carry],
    first: Bool[Array, "time stream"],
    before: Num[Array, "time stream *action"],
    observations: Any,
) -> tuple[Float[Array, "time stream size"], Float[Array, "time stream size"]]:
    """`History.follow_from` of two histories, in one pass if their memories have the same form."""

    def follow(memory: Memory, projected: Array, carry: Carry) -> Array:
        return memory.follow_from(carry, first, projected)[1]

    return _in_one_pass(follow, histories, before, observations, carries)


def sequence_together(
    histories: tuple[History, History],
    before: Num[Array, "time episode *action"],
    observations: Any,
    inputs: Int[Array, ""] | None = None,
) -> tuple[Float[Array, "time episode size"], Float[Array, "time episode size"]]:
    """`History.sequence` of two histories, in one pass if their memories have the same form."""

    def follow(memory: Memory, projected: Array) -> Array:
        return memory.follow(projected, inputs)

    return _in_one_pass(follow, histories, before, observations)


def together_on_gpus(function: Callable[[bool, Any], Any], argument: Any) -> Any:
    """The arrays of `function(together, argument)`; `together`: whether to follow histories in one pass.

    On a CPU that takes longer. Call this outside a gradient: inside, the backward pass would keep what both branches
    need.
    """
    arrays, static = eqx.partition(argument, eqx.is_array)

    def branch(together: bool) -> Callable[[Any], Any]:
        return lambda arrays: eqx.filter(function(together, eqx.combine(arrays, static)), eqx.is_array)

    return jax.lax.platform_dependent(arrays, cuda=branch(True), default=branch(False))


def _in_one_pass(
    follow: Callable[..., Array],
    histories: tuple[History, History],
    before: Num[Array, "time stream *action"],
    observations: Any,
    *others: tuple[Any, Any],
) -> tuple[Array, Array]:
    """`follow(memory, projected inputs, *others)` for two histories, in one pass if their memories have the same form.

    A step of a recurrence is so little work for an accelerator that two take as long as one.
    """
    memories = tuple(history.memory for history in histories)
    projected = tuple(history.project(before, observations) for history in histories)
    one, other = (jax.tree.flatten(memory) for memory in memories)
    if one[1] != other[1] or [leaf.shape for leaf in one[0]] != [leaf.shape for leaf in other[0]]:
        first_features, second_features = itertools.starmap(follow, zip(memories, projected, *others, strict=True))
        return first_features, second_features
    both = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *pair) for pair in (memories, projected, *others)]
    features = jax.vmap(follow)(*both)
    return features[0], features[1]


class Prepared(eqx.Module):
    """A history to act with: features that are projected already, and the memory that takes them in."""

    phi_a: Features
    phi_o: Features
    bias: Float[Array, "width"]
    memory: Memory

    def step(
        self, carry: Carry, before: Num[Array, "episode *action"], observation: Any
    ) -> tuple[Carry, Float[Array, "episode size"]]:
        return self.memory.advance(carry, self._memory_input(before, observation))

    def step_from(
        self, carry: Carry, first: Bool[Array, "stream"], before: Num[Array, "stream *action"], observation: Any
    ) -> tuple[Carry, Float[Array, "stream size"]]:
        """A step of streams; an episode begins where `first` says so."""
        return self.memory.advance_from(carry, first, self._memory_input(before, observation))

    def _memory_input(
        self, previous_actions: Num[Array, "episode *action"], observation: Any
    ) -> Float[Array, "episode width"]:
        return _memory_input(
            previous_actions, self.phi_a(_some_action(previous_actions)), self.phi_o(observation), self.bias
        )


def _is_index(actions: Num[Array, "..."]) -> bool:
    """Whether actions are indices, or vectors of them."""
    return jnp.issubdtype(actions.dtype, jnp.integer)


def _some_action(actions: Num[Array, "..."]) -> Num[Array, "..."]:
    """A valid action to look up where there is none; the result is not used. For choices and numbers together, see
    `MixedFeatures`.
    """
    return jnp.maximum(actions, 0) if _is_index(actions) else actions


def _memory_input(
    previous_actions: Num[Array, "..."],
    action_term: Float[Array, "*batch width"],
    observation_term: Float[Array, "*batch width"],
    bias: Float[Array, "width"],
) -> Float[Array, "*batch width"]:
    if _is_index(previous_actions):
        # In a vector of indices, either all entries are NO_ACTION or none is.
        there = previous_actions[..., None] if previous_actions.ndim < action_term.ndim else previous_actions[..., :1]
        action_term = jnp.where(jnp.broadcast_to(there != NO_ACTION, action_term.shape), action_term, 0.0)
    return action_term + observation_term + jnp.broadcast_to(bias, observation_term.shape)


def _memory(key: PRNGKeyArray, kind: str, inputs: int, architecture: Architecture) -> Memory:
    size, window = architecture.memory_size, architecture.window
    if is_users(kind):
        memory = UserMemory(key, inputs, size, architecture.made_by("memory", kind), kind)
    else:
        (own_key,) = jax.random.split(key, 1)
        memory = {"gru": Gru, "lstm": Lstm, "none": Feedforward}[kind](own_key, inputs, size)
    return memory if window is None or kind == "none" else Window(memory, window)
