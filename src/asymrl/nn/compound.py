"""Memories made of others: one that reaches back only a few inputs, and several on top of each other."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asymrl.nn.memory import Carry, Memory, inputs_of_episode, one_step


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
        self, projected: Float[Array, "time episode width"], inputs: Int[Array, ""] | None = None
    ) -> Float[Array, "time episode size"]:
        del inputs
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
        return one_step(self, carry, first, projected)


class Stack(Memory):
    """Memories on top of each other."""

    layers: tuple[Memory, ...]
    size: int = eqx.field(static=True)

    def __init__(self, layers: tuple[Memory, ...]):
        self.layers, self.size = layers, layers[-1].size

    def projection(self) -> tuple[Float[Array, "inputs width"], Float[Array, "width"]]:
        return self.layers[0].projection()

    def initial(self, episodes: int) -> tuple[Carry, ...]:
        return tuple(layer.initial(episodes) for layer in self.layers)

    def advance(
        self, carry: tuple[Carry, ...], projected: Float[Array, "episode width"]
    ) -> tuple[tuple[Carry, ...], Float[Array, "episode size"]]:
        first, features = self.layers[0].advance(carry[0], projected)
        new = [first]
        for layer, part in zip(self.layers[1:], carry[1:], strict=True):
            part, features = layer.step(part, features)
            new.append(part)
        return tuple(new), features

    def follow(
        self, projected: Float[Array, "time episode width"], inputs: Int[Array, ""] | None = None
    ) -> Float[Array, "time episode size"]:
        del inputs
        features = self.layers[0].follow(projected)
        for layer in self.layers[1:]:
            features = layer.sequence(features)
        return features

    def begin_streams(self, streams: int) -> tuple[Carry, ...]:
        return tuple(layer.begin_streams(streams) for layer in self.layers)

    def follow_from(
        self,
        carry: tuple[Carry, ...],
        first: Bool[Array, "time stream"],
        projected: Float[Array, "time stream width"],
    ) -> tuple[tuple[Carry, ...], Float[Array, "time stream size"]]:
        part, features = self.layers[0].follow_from(carry[0], first, projected)
        new = [part]
        for layer, part in zip(self.layers[1:], carry[1:], strict=True):
            part, features = layer.follow_from(part, first, layer.project(features))
            new.append(part)
        return tuple(new), features

    def advance_from(
        self, carry: tuple[Carry, ...], first: Bool[Array, "stream"], projected: Float[Array, "stream width"]
    ) -> tuple[tuple[Carry, ...], Float[Array, "stream size"]]:
        return one_step(self, carry, first, projected)
