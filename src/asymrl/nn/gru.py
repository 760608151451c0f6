"""The gated recurrent unit, with a custom gradient over a whole sequence.

Automatic differentiation would add to the weights' gradient in every step of the backward pass. Here the backward
pass only computes the gradients of the gates; those of the weights follow as one product at the end. The inputs have
been multiplied with their weights beforehand, all at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.kernels.attach import replaceable
from asymrl.nn.layers import product, uniform_within
from asymrl.nn.memory import Memory, kept

FEW = 8  # sequences of at most this many inputs, such as the window of a reactive agent, are unrolled


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
        self,
        projected: Float[Array, "time episode gates"],
        inputs: Int[Array, ""] | None = None,
        known: Float[Array, "time episode size"] | None = None,
    ) -> Float[Array, "time episode size"]:
        return gru_sequence(projected, self.hidden_weight, self.hidden_bias, known, None, inputs)

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


class Gates(NamedTuple):
    """The values inside the unit, kept for the backward pass."""

    reset: Float[Array, "*time episode size"]
    update: Float[Array, "*time episode size"]
    new: Float[Array, "*time episode size"]
    hidden_new: Float[Array, "*time episode size"]  # what the memory adds to `new` before it is gated


def gru_gates(
    projected: Float[Array, "*time episode gates"],
    h: Float[Array, "*time episode size"],
    weight: Float[Array, "size gates"],
    bias: Float[Array, "gates"],
    product: Callable[[Array, Array], Array] = jnp.matmul,
) -> tuple[Float[Array, "*time episode size"], Gates]:
    """One step: the next memory and the gates, from the projected input and the memory before."""
    y = product(h, weight)
    y = y + jnp.broadcast_to(bias, y.shape)
    i_r, i_z, i_n = jnp.split(projected, 3, axis=-1)
    h_r, h_z, h_n = jnp.split(y, 3, axis=-1)
    r, z = jax.nn.sigmoid(i_r + h_r), jax.nn.sigmoid(i_z + h_z)
    n = jnp.tanh(i_n + r * h_n)
    return (1 - z) * n + z * h, Gates(r, z, n, h_n)


class Stream(NamedTuple):
    """How a piece of a stream differs from a whole episode: it starts with a memory, emptied along the way."""

    start: Float[Array, "episode size"]  # the memory before the first input; it gets no gradient
    keep: Float[Array, "time episode"]  # 0 where an episode begins, so that the memory is emptied first, else 1


@jax.custom_vjp
def gru_sequence(
    projected: Float[Array, "time episode gates"],
    weight: Float[Array, "size gates"],
    bias: Float[Array, "gates"],
    known: Float[Array, "time episode size"] | None,
    stream: Stream | None = None,
    inputs: Int[Array, ""] | None = None,
) -> Float[Array, "time episode size"]:
    """The memory after each input, starting from zeros, or as `stream` says.

    Args:
        projected: the inputs' part of the gates.
        weight: of the memory's part of the gates.
        bias: of the same.
        known: the result, if it is known already, or None. All steps of the forward pass are then independent.
        stream: where the memory starts and where it is emptied; None for whole episodes.
        inputs: how many inputs matter; None for all. The memories after the others may be any finite numbers.
    """
    if known is not None:
        return known
    return forward_steps(projected, weight, bias, stream, inputs)[0]


@replaceable
def forward_steps(
    projected: Array, weight: Array, bias: Array, stream: Stream | None, inputs: Array | None
) -> tuple[Array, Gates]:
    """Memories and gates, step by step, for all inputs: the number of steps is static."""
    del inputs
    if stream is not None:
        return _stream_steps(projected, weight, bias, stream)
    if projected.shape[0] <= FEW:
        return _few_steps(projected, weight, bias)

    def step(h: Array, x: Array) -> tuple[Array, tuple[Array, Gates]]:
        h, gates = gru_gates(x, h, weight, bias)
        return h, (h, gates)

    start = jnp.zeros((projected.shape[1], weight.shape[0]), projected.dtype)
    return jax.lax.scan(step, start, projected, unroll=2)[1]


def _stream_steps(projected: Array, weight: Array, bias: Array, stream: Stream) -> tuple[Array, Gates]:
    def step(h: Array, at: tuple[Array, Array]) -> tuple[Array, tuple[Array, Gates]]:
        x, keep = at
        h, gates = gru_gates(x, kept(h, keep), weight, bias)
        return h, (h, gates)

    return jax.lax.scan(step, stream.start, (projected, stream.keep), unroll=2)[1]


def _few_steps(projected: Array, weight: Array, bias: Array) -> tuple[Array, Gates]:
    """The same, unrolled: the first step has no memory to multiply, which saves much of the work in a short window."""
    first, *others = projected
    h, gates = gru_gates(first, jnp.zeros_like(first[..., : weight.shape[0]]), weight, bias, _product_of_zeros)
    steps = [(h, gates)]
    for x in others:
        h, gates = gru_gates(x, h, weight, bias)
        steps.append((h, gates))
    return jax.tree.map(lambda *each: jnp.stack(each), *steps)


def _product_of_zeros(h: Array, weight: Array) -> Array:
    return jnp.zeros((*h.shape[:-1], weight.shape[1]), h.dtype)


def previous_memory(hs: Array, stream: Stream | None) -> Array:
    """The memory before each input."""
    if stream is None:
        return jnp.concatenate([jnp.zeros_like(hs[:1]), hs[:-1]])
    return kept(jnp.concatenate([stream.start[None], hs[:-1]]), stream.keep)


def _forward(
    projected: Array,
    weight: Array,
    bias: Array,
    known: Array | None,
    stream: Stream | None = None,
    inputs: Array | None = None,
) -> tuple[Array, tuple]:
    """Memories, and what the backward pass needs. Where the memories are known, all gates follow at once."""
    if known is None:
        hs, gates = forward_steps(projected, weight, bias, stream, inputs)
    else:
        hs, gates = known, gru_gates(projected, previous_memory(known, stream), weight, bias)[1]
    return hs, (gates, previous_memory(hs, stream), weight, known, stream, inputs)


@replaceable
def backward_steps(
    gradient: Array, gates: Gates, previous: Array, weight: Array, keep: Array | None, inputs: Array | None
) -> Array:
    """The gradient of the projected inputs, step by step from the end."""
    del inputs
    # Without the barrier, the compiler would transpose again in each step.
    transposed = jax.lax.optimization_barrier(weight.T)

    def step(dh: Array, at: tuple[Any, ...]) -> tuple[Array, Array]:
        from_above, r, z, n, h_n, h, keep = at
        dh = dh + from_above
        d_new = dh * (1 - z) * (1 - n * n)
        d_update = dh * (h - n) * z * (1 - z)
        d_reset = d_new * h_n * r * (1 - r)
        through = jnp.concatenate([d_reset, d_update, d_new * r], axis=-1) @ transposed
        flow = dh * z + through
        flow = flow if keep is None else kept(flow, keep)
        return flow, jnp.concatenate([d_reset, d_update, d_new], axis=-1)

    steps = (gradient, *gates, previous, keep)
    # If the few steps are unrolled, the compiler drops what the first would pass back to a step before it.
    unroll = gradient.shape[0] if gradient.shape[0] <= FEW else 2
    return jax.lax.scan(step, jnp.zeros_like(gradient[0]), steps, reverse=True, unroll=unroll)[1]


def _backward(saved: tuple, gradient: Array) -> tuple[Array, Array, Array, Array | None, Stream | None, None]:
    gates, previous, weight, known, stream, inputs = saved
    d_projected = backward_steps(gradient, gates, previous, weight, None if stream is None else stream.keep, inputs)
    d_reset, d_update, d_new = jnp.split(d_projected, 3, axis=-1)
    size, width = weight.shape
    d_gates = jnp.concatenate([d_reset, d_update, d_new * gates.reset], axis=-1).reshape(-1, width)
    empty_start = stream is None and gradient.shape[0] <= FEW
    rows = slice(gradient.shape[1] if empty_start else 0, None)  # the memory before the first input is zero
    d_weight = previous.reshape(-1, size)[rows].T @ d_gates[rows]
    nothing = jax.tree.map(jnp.zeros_like, (known, stream))
    return d_projected, d_weight, d_gates.sum(0), *nothing, None


gru_sequence.defvjp(_forward, _backward)
