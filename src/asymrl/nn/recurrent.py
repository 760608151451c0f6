"""Memories of one layer: gated recurrent unit, long short-term memory, plain recurrence, and none."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.nn.layers import Linear, product, uniform_within
from asymrl.nn.lstm_recurrence import Cells, lstm_gates, lstm_sequence
from asymrl.nn.memory import Memory
from asymrl.nn.recurrence import Stream, gru_gates, gru_sequence


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
        self.input_weight = uniform_within(keys[0], inputs, 3 * size, bound=bound)
        self.hidden_weight = uniform_within(keys[1], size, 3 * size, bound=bound)
        self.input_bias = uniform_within(keys[2], 3 * size, bound=bound)
        self.hidden_bias = uniform_within(keys[3], 3 * size, bound=bound)
        self.size = size

    def initial(self, episodes: int) -> Float[Array, "episode size"]:
        return jnp.zeros((episodes, self.size))

    def projection(self) -> tuple[Float[Array, "inputs gates"], Float[Array, "gates"]]:
        return self.input_weight, self.input_bias

    def advance(
        self, carry: Float[Array, "episode size"], projected: Float[Array, "episode gates"]
    ) -> tuple[Float[Array, "episode size"], Float[Array, "episode size"]]:
        h, _ = gru_gates(projected, carry, self.hidden_weight, self.hidden_bias, product)
        return h, h

    def follow(
        self, projected: Float[Array, "time episode gates"], inputs: Int[Array, ""] | None = None
    ) -> Float[Array, "time episode size"]:
        return gru_sequence(projected, self.hidden_weight, self.hidden_bias, None, None, inputs)

    def follow_again(
        self,
        projected: Float[Array, "time episode gates"],
        features: Float[Array, "time episode size"],
        inputs: Int[Array, ""] | None = None,
    ) -> Float[Array, "time episode size"]:
        return gru_sequence(projected, self.hidden_weight, self.hidden_bias, features, None, inputs)

    def follow_from(
        self,
        carry: Float[Array, "stream size"],
        first: Bool[Array, "time stream"],
        projected: Float[Array, "time stream gates"],
    ) -> tuple[Float[Array, "stream size"], Float[Array, "time stream size"]]:
        stream = Stream(carry, 1.0 - first.astype(carry.dtype))
        hs = gru_sequence(projected, self.hidden_weight, self.hidden_bias, None, stream)
        return hs[-1], hs

    def follow_with_next(
        self,
        carry: Float[Array, "stream size"],
        first: Bool[Array, "time stream"],
        projected: Float[Array, "time stream gates"],
        following: Float[Array, "time stream gates"],
    ) -> tuple[Float[Array, "stream size"], Float[Array, "time stream size"], Float[Array, "time stream size"]]:
        carry, hs = self.follow_from(carry, first, projected)
        return carry, hs, gru_gates(following, hs, self.hidden_weight, self.hidden_bias)[0]


class _Recurrence(Memory):
    """A recurrent layer with one bias, whose inputs and memory are projected to some gates for each feature."""

    input_weight: Float[Array, "inputs gates"]
    hidden_weight: Float[Array, "size gates"]
    bias: Float[Array, "gates"]
    size: int = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, inputs: int, size: int, gates: int):
        keys = jax.random.split(key, 3)
        bound, width = size**-0.5, gates * size
        self.input_weight = uniform_within(keys[0], inputs, width, bound=bound)
        self.hidden_weight = uniform_within(keys[1], size, width, bound=bound)
        self.bias = uniform_within(keys[2], width, bound=bound)
        self.size = size

    def projection(self) -> tuple[Float[Array, "inputs gates"], Float[Array, "gates"]]:
        return self.input_weight, self.bias


class Rnn(_Recurrence):
    """A plain recurrent layer with ReLU."""

    def __init__(self, key: PRNGKeyArray, inputs: int, size: int):
        super().__init__(key, inputs, size, gates=1)

    def initial(self, episodes: int) -> Float[Array, "episode size"]:
        return jnp.zeros((episodes, self.size))

    def advance(
        self, carry: Float[Array, "episode size"], projected: Float[Array, "episode size"]
    ) -> tuple[Float[Array, "episode size"], Float[Array, "episode size"]]:
        h = jax.nn.relu(projected + carry @ self.hidden_weight)
        return h, h


class Lstm(_Recurrence):
    """A long short-term memory; gates in the order input, forget, cell, output."""

    def __init__(self, key: PRNGKeyArray, inputs: int, size: int):
        super().__init__(key, inputs, size, gates=4)

    def initial(self, episodes: int) -> tuple[Array, Array]:
        return jnp.zeros((episodes, self.size)), jnp.zeros((episodes, self.size))

    def advance(
        self, carry: tuple[Array, Array], projected: Float[Array, "episode gates"]
    ) -> tuple[tuple[Array, Array], Float[Array, "episode size"]]:
        cells, _ = lstm_gates(projected, Cells(*carry), self.hidden_weight)
        return (cells.h, cells.c), cells.h

    def follow_from(
        self,
        carry: tuple[Array, Array],
        first: Bool[Array, "time stream"],
        projected: Float[Array, "time stream gates"],
    ) -> tuple[tuple[Array, Array], Float[Array, "time stream size"]]:
        keep = 1.0 - first.astype(projected.dtype)
        hs, last = lstm_sequence(projected, self.hidden_weight, Cells(*carry), keep)
        return (hs[-1], last), hs


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
        self, projected: Float[Array, "time episode size"], inputs: Int[Array, ""] | None = None
    ) -> Float[Array, "time episode size"]:
        del inputs
        return jax.nn.relu(projected)

    def follow_from(
        self, carry: tuple[()], first: Bool[Array, "time stream"], projected: Float[Array, "time stream size"]
    ) -> tuple[tuple[()], Float[Array, "time stream size"]]:
        del first
        return carry, jax.nn.relu(projected)
