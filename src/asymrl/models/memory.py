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

from asymrl.models.recurrence import gru_gates, gru_sequence

Carry = PyTree[Any]


class Memory(eqx.Module):
    """A function of a sequence of inputs that knows only the past."""

    size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def initial(self, episodes: int) -> Carry:
        """What is remembered before the first input."""

    @abc.abstractmethod
    def step(self, carry: Carry, x: Float[Array, "episode inputs"]) -> tuple[Carry, Float[Array, "episode size"]]:
        """Takes in one more input."""

    def sequence(self, xs: Float[Array, "time episode inputs"]) -> Float[Array, "time episode size"]:
        """The feature after each input, from an empty memory."""
        return jax.lax.scan(self.step, self.initial(xs.shape[1]), xs)[1]

    def replay(
        self, xs: Float[Array, "time episode inputs"], features: Float[Array, "time episode size"]
    ) -> Float[Array, "time episode size"]:
        """`sequence(xs)`, given the values that it is known to have; only gradients remain to be found.

        A memory for which that saves nothing computes them again.
        """
        del features
        return self.sequence(xs)


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

    def project(self, xs: Float[Array, "... inputs"]) -> Float[Array, "... gates"]:
        """The part of the gates that depends on the input alone."""
        y = xs @ self.input_weight
        return y + jnp.broadcast_to(self.input_bias, y.shape)

    def step(
        self, carry: Float[Array, "episode size"], x: Float[Array, "episode inputs"]
    ) -> tuple[Float[Array, "episode size"], Float[Array, "episode size"]]:
        h, _ = gru_gates(self.project(x), carry, self.hidden_weight, self.hidden_bias)
        return h, h

    def sequence(self, xs: Float[Array, "time episode inputs"]) -> Float[Array, "time episode size"]:
        return gru_sequence(self.project(xs), self.hidden_weight, self.hidden_bias, None)

    def replay(
        self, xs: Float[Array, "time episode inputs"], features: Float[Array, "time episode size"]
    ) -> Float[Array, "time episode size"]:
        return gru_sequence(self.project(xs), self.hidden_weight, self.hidden_bias, features)


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

    def step(
        self, carry: Float[Array, "episode size"], x: Float[Array, "episode inputs"]
    ) -> tuple[Float[Array, "episode size"], Float[Array, "episode size"]]:
        y = x @ self.input_weight + carry @ self.hidden_weight
        h = jax.nn.relu(y + jnp.broadcast_to(self.bias, y.shape))
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

    def step(
        self, carry: tuple[Array, Array], x: Float[Array, "episode inputs"]
    ) -> tuple[tuple[Array, Array], Float[Array, "episode size"]]:
        h, c = carry
        y = x @ self.input_weight + h @ self.hidden_weight
        gates = y + jnp.broadcast_to(self.bias, y.shape)
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h


class Window(Memory):
    """A memory that begins anew, empty, `length` inputs ago: the reactive methods of the paper.

    Before the start of the episode the inputs are zero vectors, which the memory inside really takes in.
    """

    inner: Memory
    inputs: int = eqx.field(static=True)
    length: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __init__(self, inner: Memory, inputs: int, length: int):
        self.inner, self.inputs, self.length, self.size = inner, inputs, length, inner.size

    def initial(self, episodes: int) -> Float[Array, "before episode inputs"]:
        return jnp.zeros((self.length - 1, episodes, self.inputs))

    def step(
        self, carry: Float[Array, "before episode inputs"], x: Float[Array, "episode inputs"]
    ) -> tuple[Float[Array, "before episode inputs"], Float[Array, "episode size"]]:
        window = jnp.concatenate([carry, x[None]])
        return window[1:], self.inner.sequence(window)[-1]

    def sequence(self, xs: Float[Array, "time episode inputs"]) -> Float[Array, "time episode size"]:
        T, E, _ = xs.shape
        padded = jnp.concatenate([self.initial(E), xs])
        windows = jnp.stack([padded[i : i + T] for i in range(self.length)])
        last = self.inner.sequence(windows.reshape(self.length, T * E, self.inputs))[-1]
        return last.reshape(T, E, self.size)


class Stack(Memory):
    """Memories on top of each other."""

    layers: tuple[Memory, ...]
    size: int = eqx.field(static=True)

    def __init__(self, layers: tuple[Memory, ...]):
        self.layers, self.size = layers, layers[-1].size

    def initial(self, episodes: int) -> tuple[Carry, ...]:
        return tuple(layer.initial(episodes) for layer in self.layers)

    def step(
        self, carry: tuple[Carry, ...], x: Float[Array, "episode inputs"]
    ) -> tuple[tuple[Carry, ...], Float[Array, "episode size"]]:
        new = []
        for layer, part in zip(self.layers, carry, strict=True):
            part, x = layer.step(part, x)
            new.append(part)
        return tuple(new), x

    def sequence(self, xs: Float[Array, "time episode inputs"]) -> Float[Array, "time episode size"]:
        for layer in self.layers:
            xs = layer.sequence(xs)
        return xs
