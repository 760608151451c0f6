"""phi(h): what an agent or a critic remembers of the actions and observations so far.

A memory is used in two ways that agree: one input at a time while acting (`initial`, `step`) and over a whole
episode while learning (`sequence`). Arrays are `[time, episode, ...]`; the axis of runs comes from `vmap`.
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from asymrl.kernels.network_kernels import thin_or_plain_product
from asymrl.models.recurrence import gru_gates, gru_sequence

Carry = PyTree[Any]


class Memory(eqx.Module):
    """A function of a sequence of inputs that knows only the past.

    Every memory first multiplies its inputs with a matrix. That part, `project`, stands apart because the caller
    may have a cheaper way to do it: features that are rows of a table need no product at all.
    """

    size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def projection(self) -> tuple[Float[Array, "inputs width"], Float[Array, "width"]]:
        """The matrix and the bias that inputs meet first."""

    @abc.abstractmethod
    def initial(self, episodes: int) -> Carry:
        """What is remembered before the first input."""

    @abc.abstractmethod
    def advance(
        self, carry: Carry, projected: Float[Array, "episode width"]
    ) -> tuple[Carry, Float[Array, "episode size"]]:
        """Takes in one more projected input."""

    def follow(self, projected: Float[Array, "time episode width"]) -> Float[Array, "time episode size"]:
        """The feature after each projected input, from an empty memory."""
        # Not the bound method itself: JAX would want its hash, and parameters that are being traced have none.
        return jax.lax.scan(lambda carry, x: self.advance(carry, x), self.initial(projected.shape[1]), projected)[1]

    def follow_again(
        self, projected: Float[Array, "time episode width"], features: Float[Array, "time episode size"]
    ) -> Float[Array, "time episode size"]:
        """`follow`, given the values that it is known to have; only gradients remain to be found.

        A memory for which that saves nothing computes them again.
        """
        del features
        return self.follow(projected)

    def project(self, xs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch width"]:
        """Inputs times the matrix, plus the bias."""
        weight, bias = self.projection()
        y = xs @ weight
        return y + jnp.broadcast_to(bias, y.shape)

    def step(self, carry: Carry, x: Float[Array, "episode inputs"]) -> tuple[Carry, Float[Array, "episode size"]]:
        """Takes in one more input."""
        return self.advance(carry, self.project(x))

    def sequence(self, xs: Float[Array, "time episode inputs"]) -> Float[Array, "time episode size"]:
        """The feature after each input, from an empty memory."""
        return self.follow(self.project(xs))


def _uniform(key: PRNGKeyArray, *shape: int, bound: float) -> Array:
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


class Gru(Memory):
    """A gated recurrent unit; gates in the order reset, update, new, each with two biases."""

    input_weight: Float[Array, "inputs gates"]
    hidden_weight: Float[Array, "size gates"]
    input_bias: Float[Array, "gates"]
    hidden_bias: Float[Array, "gates"]
    size: int = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, inputs: int, size: int):
        keys = jax.random.split(key, 4)
        bound = size**-0.5
        self.input_weight = _uniform(keys[0], inputs, 3 * size, bound=bound)
        self.hidden_weight = _uniform(keys[1], size, 3 * size, bound=bound)
        self.input_bias = _uniform(keys[2], 3 * size, bound=bound)
        self.hidden_bias = _uniform(keys[3], 3 * size, bound=bound)
        self.size = size

    def initial(self, episodes: int) -> Float[Array, "episode size"]:
        return jnp.zeros((episodes, self.size))

    def projection(self) -> tuple[Float[Array, "inputs gates"], Float[Array, "gates"]]:
        return self.input_weight, self.input_bias

    def advance(
        self, carry: Float[Array, "episode size"], projected: Float[Array, "episode gates"]
    ) -> tuple[Float[Array, "episode size"], Float[Array, "episode size"]]:
        h, _ = gru_gates(projected, carry, self.hidden_weight, self.hidden_bias, thin_or_plain_product)
        return h, h

    def follow(self, projected: Float[Array, "time episode gates"]) -> Float[Array, "time episode size"]:
        return gru_sequence(projected, self.hidden_weight, self.hidden_bias, None)

    def follow_again(
        self, projected: Float[Array, "time episode gates"], features: Float[Array, "time episode size"]
    ) -> Float[Array, "time episode size"]:
        return gru_sequence(projected, self.hidden_weight, self.hidden_bias, features)


class Rnn(Memory):
    """A plain recurrent layer with ReLU."""

    input_weight: Float[Array, "inputs size"]
    hidden_weight: Float[Array, "size size"]
    bias: Float[Array, "size"]
    size: int = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, inputs: int, size: int):
        keys = jax.random.split(key, 3)
        bound = size**-0.5
        self.input_weight = _uniform(keys[0], inputs, size, bound=bound)
        self.hidden_weight = _uniform(keys[1], size, size, bound=bound)
        self.bias = _uniform(keys[2], size, bound=bound)
        self.size = size

    def initial(self, episodes: int) -> Float[Array, "episode size"]:
        return jnp.zeros((episodes, self.size))

    def projection(self) -> tuple[Float[Array, "inputs size"], Float[Array, "size"]]:
        return self.input_weight, self.bias

    def advance(
        self, carry: Float[Array, "episode size"], projected: Float[Array, "episode size"]
    ) -> tuple[Float[Array, "episode size"], Float[Array, "episode size"]]:
        h = jax.nn.relu(projected + carry @ self.hidden_weight)
        return h, h


class Lstm(Memory):
    """A long short-term memory; gates in the order input, forget, cell, output."""

    input_weight: Float[Array, "inputs gates"]
    hidden_weight: Float[Array, "size gates"]
    bias: Float[Array, "gates"]
    size: int = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, inputs: int, size: int):
        keys = jax.random.split(key, 3)
        bound = size**-0.5
        self.input_weight = _uniform(keys[0], inputs, 4 * size, bound=bound)
        self.hidden_weight = _uniform(keys[1], size, 4 * size, bound=bound)
        self.bias = _uniform(keys[2], 4 * size, bound=bound)
        self.size = size

    def initial(self, episodes: int) -> tuple[Array, Array]:
        return jnp.zeros((episodes, self.size)), jnp.zeros((episodes, self.size))

    def projection(self) -> tuple[Float[Array, "inputs gates"], Float[Array, "gates"]]:
        return self.input_weight, self.bias

    def advance(
        self, carry: tuple[Array, Array], projected: Float[Array, "episode gates"]
    ) -> tuple[tuple[Array, Array], Float[Array, "episode size"]]:
        h, c = carry
        i, f, g, o = jnp.split(projected + h @ self.hidden_weight, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h


class Window(Memory):
    """A memory that begins anew, empty, `length` inputs ago: the reactive methods of the paper.

    Before the start of the episode the inputs are zero vectors, which the memory inside really takes in.
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
        """All memories take in the input, so that no input is taken in twice by any, and the oldest is read."""
        begun = self.inner.initial(projected.shape[0])
        carry = jax.tree.map(lambda new, old: jnp.concatenate([new[None], old]), begun, carry)
        carry, features = jax.vmap(lambda one: self.inner.advance(one, projected))(carry)
        return jax.tree.map(lambda leaf: leaf[:-1], carry), features[-1]

    def _zeros(self, episodes: int) -> Float[Array, "before episode width"]:
        """The inputs before the first: what is left of a zero vector after the projection is the bias."""
        _, bias = self.projection()
        return jnp.broadcast_to(bias, (self.length - 1, episodes, bias.shape[0]))

    def follow(self, projected: Float[Array, "time episode width"]) -> Float[Array, "time episode size"]:
        T, E, width = projected.shape
        padded = jnp.concatenate([self._zeros(E), projected])
        windows = jnp.stack([padded[i : i + T] for i in range(self.length)])
        last = self.inner.follow(windows.reshape(self.length, T * E, width))[-1]
        return last.reshape(T, E, self.size)


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

    def follow(self, projected: Float[Array, "time episode width"]) -> Float[Array, "time episode size"]:
        features = self.layers[0].follow(projected)
        for layer in self.layers[1:]:
            features = layer.sequence(features)
        return features
