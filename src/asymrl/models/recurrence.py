"""The gated recurrent unit over a whole sequence, with a gradient of its own.

Automatic differentiation would add to the weights' gradient in every step of the backward pass. Here the backward
pass only finds the gradients of the gates; those of the weights follow as one product at the end. The inputs have
been multiplied with their weights beforehand, all at once.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Gates(NamedTuple):
    """What happened inside the unit, kept for the backward pass."""

    reset: Float[Array, "*time episode size"]
    update: Float[Array, "*time episode size"]
    new: Float[Array, "*time episode size"]
    hidden_new: Float[Array, "*time episode size"]  # what the memory adds to `new` before it is gated


def gru_gates(
    projected: Float[Array, "*time episode gates"],
    h: Float[Array, "*time episode size"],
    weight: Float[Array, "size gates"],
    bias: Float[Array, "gates"],
) -> tuple[Float[Array, "*time episode size"], Gates]:
    """One step: the next memory and the gates, from the projected input and the memory before."""
    y = h @ weight
    y = y + jnp.broadcast_to(bias, y.shape)
    i_r, i_z, i_n = jnp.split(projected, 3, axis=-1)
    h_r, h_z, h_n = jnp.split(y, 3, axis=-1)
    r, z = jax.nn.sigmoid(i_r + h_r), jax.nn.sigmoid(i_z + h_z)
    n = jnp.tanh(i_n + r * h_n)
    return (1 - z) * n + z * h, Gates(r, z, n, h_n)


@jax.custom_vjp
def gru_sequence(
    projected: Float[Array, "time episode gates"],
    weight: Float[Array, "size gates"],
    bias: Float[Array, "gates"],
    known: Float[Array, "time episode size"] | None,
) -> Float[Array, "time episode size"]:
    """The memory after each input, starting from zeros.

    Args:
        projected: the inputs' part of the gates.
        weight: of the memory's part of the gates.
        bias: of the same.
        known: the result, if it is known already, or None. All steps of the forward pass are then independent.
    """
    return _forward(projected, weight, bias, known)[0]


def _forward(projected: Array, weight: Array, bias: Array, known: Array | None) -> tuple[Array, tuple]:
    start = jnp.zeros((*projected.shape[1:-1], weight.shape[0]), projected.dtype)
    if known is None:

        def step(h: Array, x: Array) -> tuple[Array, tuple[Array, Gates]]:
            h, gates = gru_gates(x, h, weight, bias)
            return h, (h, gates)

        _, (hs, gates) = jax.lax.scan(step, start, projected, unroll=2)
        before = jnp.concatenate([start[None], hs[:-1]])
    else:
        hs = known
        before = jnp.concatenate([start[None], hs[:-1]])
        _, gates = gru_gates(projected, before, weight, bias)
    return hs, (gates, before, weight, known)


def _backward(saved: tuple, gradient: Array) -> tuple[Array, Array, Array, Array | None]:
    gates, before, weight, known = saved

    def step(dh: Array, at: tuple[Array, Gates, Array]) -> tuple[Array, tuple[Array, Array]]:
        from_above, (r, z, n, h_n), h = at
        dh = dh + from_above
        d_new = dh * (1 - z) * (1 - n * n)
        d_update = dh * (h - n) * z * (1 - z)
        d_reset = d_new * h_n * r * (1 - r)
        from_gates = jnp.concatenate([d_reset, d_update, d_new * r], axis=-1)
        before = dh * z + from_gates @ weight.T
        return before, (jnp.concatenate([d_reset, d_update, d_new], axis=-1), from_gates)

    start = jnp.zeros_like(gradient[0])
    _, (d_projected, d_gates) = jax.lax.scan(step, start, (gradient, gates, before), reverse=True, unroll=2)
    size, width = weight.shape
    d_weight = before.reshape(-1, size).T @ d_gates.reshape(-1, width)
    d_bias = d_gates.reshape(-1, width).sum(0)
    return d_projected, d_weight, d_bias, None if known is None else jnp.zeros_like(known)


gru_sequence.defvjp(_forward, _backward)
