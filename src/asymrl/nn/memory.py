"""phi(h): what an agent or a critic remembers of the actions and observations so far.

A memory is used in three equivalent ways: one input at a time while acting (`initial`, `advance`), over a whole
episode while learning (`follow`), and over segments of streams in which one episode follows another (`follow_from`).
This file has the protocol and the two memories that are made without recurrence: none, and a window over another one.
Arrays are `[time, episode, ...]`; the axis of runs comes from `vmap`.
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from asymrl.nn.layers import Linear

Carry = PyTree[Any]


class Memory(eqx.Module):
    """A causal function of a sequence of inputs.

    Every memory first multiplies its inputs with a matrix. The caller does that, who may have a cheaper way: features
    that are rows of a table need no product at all.
    """

    size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def projection(self) -> tuple[Float[Array, "inputs width"], Float[Array, "width"]]:
        """The matrix and the bias that are applied to inputs first."""

    @abc.abstractmethod
    def initial(self, episodes: int) -> Carry:
        """What is remembered before the first input."""

    @abc.abstractmethod
    def advance(
        self, carry: Carry, projected: Float[Array, "episode width"]
    ) -> tuple[Carry, Float[Array, "episode size"]]:
        """Takes in one more projected input."""

    def follow(
        self,
        projected: Float[Array, "time episode width"],
        inputs: Int[Array, ""] | None = None,
        known: Float[Array, "time episode size"] | None = None,
    ) -> Float[Array, "time episode size"]:
        """The feature after each projected input, from an empty memory.

        Args:
            projected: the inputs.
            inputs: how many of them matter, if not all; the features of the others may be any finite numbers.
            known: the result, where it is known and only gradients remain to be computed. A memory for which that
                saves nothing computes it again.
        """
        del inputs, known
        # Not the bound method itself: JAX would hash it, and traced parameters have no hash.
        return jax.lax.scan(lambda carry, x: self.advance(carry, x), self.initial(projected.shape[1]), projected)[1]

    def begin_streams(self, streams: int) -> Carry:
        """What `follow_from` carries before the very first input; it may differ from what `advance` carries.

        The axis of streams comes first.
        """
        return self.initial(streams)

    def follow_from(
        self, carry: Carry, first: Bool[Array, "time stream"], projected: Float[Array, "time stream width"]
    ) -> tuple[Carry, Float[Array, "time stream size"]]:
        """The next carry, and the feature after each projected input of a piece of streams.

        `first` marks the inputs with which an episode begins: the memory is emptied before it takes them in. No
        gradient reaches `carry`.
        """
        carry = jax.lax.stop_gradient(carry)
        return jax.lax.scan(lambda carry, at: self.advance_from(carry, *at), carry, (first, projected), unroll=2)

    def advance_from(
        self, carry: Carry, first: Bool[Array, "stream"], projected: Float[Array, "stream width"]
    ) -> tuple[Carry, Float[Array, "stream size"]]:
        """`follow_from` for a single input of each stream."""

        def renewed(empty: Array, old: Array) -> Array:
            return jnp.where(first.reshape(-1, *[1] * (old.ndim - 1)), empty, old)

        return self.advance(jax.tree.map(renewed, self.initial(first.shape[0]), carry), projected)

    def follow_with_next(
        self,
        carry: Carry,
        first: Bool[Array, "time stream"],
        projected: Float[Array, "time stream width"],
        following: Float[Array, "time stream width"],
    ) -> tuple[Carry, Float[Array, "time stream size"], Float[Array, "time stream size"]]:
        """`follow_from`, and the feature after each of the `following` inputs, had it come right after that step.

        For the value where an episode was cut off. Not for use where a gradient is needed.
        """

        def step(carry: Carry, at: tuple[Array, Array, Array]) -> tuple[Carry, tuple[Array, Array]]:
            first, x, after = at
            carry, features = self.advance_from(carry, first, x)
            return carry, (features, self.advance_from(carry, jnp.zeros_like(first), after)[1])

        carry, (features, after) = jax.lax.scan(step, carry, (first, projected, following))
        return carry, features, after


class Feedforward(Memory):
    """No memory at all: a linear layer with a ReLU over the last input alone."""

    input_weight: Float[Array, "inputs size"]
    bias: Float[Array, "size"]
    size: int = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, inputs: int, size: int):
        layer = Linear(key, inputs, size, gain=2.0**0.5)
        self.input_weight, self.bias, self.size = layer.weight, layer.bias, size

    def initial(self, episodes: int) -> tuple[()]:
        del episodes
        return ()

    def projection(self) -> tuple[Float[Array, "inputs size"], Float[Array, "size"]]:
        return self.input_weight, self.bias

    def advance(
        self, carry: tuple[()], projected: Float[Array, "episode size"]
    ) -> tuple[tuple[()], Float[Array, "episode size"]]:
        return carry, jax.nn.relu(projected)

    def follow(
        self,
        projected: Float[Array, "time episode size"],
        inputs: Int[Array, ""] | None = None,
        known: Float[Array, "time episode size"] | None = None,
    ) -> Float[Array, "time episode size"]:
        del inputs, known
        return jax.nn.relu(projected)

    def follow_from(
        self, carry: tuple[()], first: Bool[Array, "time stream"], projected: Float[Array, "time stream size"]
    ) -> tuple[tuple[()], Float[Array, "time stream size"]]:
        del first
        return carry, jax.nn.relu(projected)


class Window(Memory):
    """A memory of the last `length` inputs alone, as in the paper's reactive methods.

    Before the start of the episode the inputs are zero vectors, which the inner memory does take in.
    """

    inner: Memory
    length: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __init__(self, inner: Memory, length: int):
        self.inner, self.length, self.size = inner, length, inner.size

    def projection(self) -> tuple[Float[Array, "inputs width"], Float[Array, "width"]]:
        return self.inner.projection()

    def initial(self, episodes: int) -> Carry:
        """The memories that began 1, 2, ... inputs ago, up to `length - 1`, having taken in nothing but zeros."""
        nothing = self._zeros(episodes)

        def longer(carry: Carry, x: Array) -> tuple[Carry, Carry]:
            carry, _ = self.inner.advance(carry, x)
            return carry, carry

        return jax.lax.scan(longer, self.inner.initial(episodes), nothing, unroll=True)[1]

    def advance(
        self, carry: Carry, projected: Float[Array, "episode width"]
    ) -> tuple[Carry, Float[Array, "episode size"]]:
        """All memories take in the input, so that none takes it in again later, and the oldest is read."""
        begun = self.inner.initial(projected.shape[0])
        carry = jax.tree.map(lambda new, old: jnp.concatenate([new[None], old]), begun, carry)
        carry, features = jax.vmap(lambda one: self.inner.advance(one, projected))(carry)
        return jax.tree.map(lambda leaf: leaf[:-1], carry), features[-1]

    def _zeros(self, episodes: int) -> Float[Array, "before episode width"]:
        """The projected inputs before the first: the projection of a zero vector is the bias."""
        _, bias = self.projection()
        return jnp.broadcast_to(bias, (self.length - 1, episodes, bias.shape[0]))

    def follow(
        self,
        projected: Float[Array, "time episode width"],
        inputs: Int[Array, ""] | None = None,
        known: Float[Array, "time episode size"] | None = None,
    ) -> Float[Array, "time episode size"]:
        del inputs, known
        T, E, _ = projected.shape
        padded = jnp.concatenate([self._zeros(E), projected])
        windows = jnp.stack([padded[i : i + T] for i in range(self.length)])
        return self._last_of(windows)

    def _last_of(self, windows: Float[Array, "length time episode width"]) -> Float[Array, "time episode size"]:
        _, T, E, width = windows.shape
        return self.inner.follow(windows.reshape(self.length, T * E, width))[-1].reshape(T, E, self.size)

    def begin_streams(self, streams: int) -> tuple[Int[Array, "stream"], Float[Array, "stream past width"]]:
        """How many inputs the current episode has had, and the last ones, `length - 1` at most."""
        return jnp.zeros(streams, jnp.int32), self._zeros(streams).swapaxes(0, 1)

    def follow_from(
        self, carry: Carry, first: Bool[Array, "time stream"], projected: Float[Array, "time stream width"]
    ) -> tuple[Carry, Float[Array, "time stream size"]]:
        age, past = jax.lax.stop_gradient(carry)
        T = projected.shape[0]
        ages = inputs_of_episode(age, first)
        padded = jnp.concatenate([past.swapaxes(0, 1), projected])
        windows = jnp.stack([padded[i : i + T] for i in range(self.length)])
        # Entry i of a window is `length - 1 - i` before its last; it belongs to the episode if that is old enough.
        missing = jnp.arange(self.length)[:, None, None] < self.length - ages[None]
        _, bias = self.projection()
        shape = windows.shape
        windows = jnp.where(jnp.broadcast_to(missing[..., None], shape), jnp.broadcast_to(bias, shape), windows)
        return (ages[-1], padded[T:].swapaxes(0, 1)), self._last_of(windows)

    def advance_from(
        self, carry: Carry, first: Bool[Array, "stream"], projected: Float[Array, "stream width"]
    ) -> tuple[Carry, Float[Array, "stream size"]]:
        carry, features = self.follow_from(carry, first[None], projected[None])
        return carry, features[0]


def inputs_of_episode(age: Int[Array, "stream"], first: Bool[Array, "time stream"]) -> Int[Array, "time stream"]:
    """How many inputs the current episode has had at each time, this one included; `age` before the first."""

    def older(age: Array, first: Array) -> tuple[Array, Array]:
        age = jnp.where(first, 1, age + 1)
        return age, age

    return jax.lax.scan(older, age, first)[1]


def kept(h: Float[Array, "*batch size"], keep: Float[Array, "*batch"]) -> Float[Array, "*batch size"]:
    """The memories, emptied where `keep` is 0."""
    return h * jnp.broadcast_to(keep[..., None], h.shape)
