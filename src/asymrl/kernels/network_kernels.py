"""Kernels for NVIDIA GPUs, for what the compiler does slowly when every run has its own weights.

A batch of runs computes thousands of products of a matrix with two vectors, one per episode. Reading the matrices
limits their speed, so a recurrence should read its matrix once and not at every step. These kernels do that: one
program per run keeps the matrix in registers and loops over time.

Everything here has a plain version elsewhere that it must agree with, and that all other devices use.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

MOST_EPISODES = 4  # beyond this many rows the usual products are efficient
WARPS = 8  # with 4 or 16 the recurrences take two to ten times as long


@functools.cache
def has_kernels() -> bool:
    """Whether this JAX can compile the kernels. Since 0.11, JAX announces that a later version will not."""
    return importlib.util.find_spec("jax.experimental.pallas.triton") is not None


def triton_call(
    kernel: Callable[..., None], shapes: Any, *, warps: int, interpret: bool, **how: Any
) -> Callable[..., Any]:
    """A kernel as a function, for GPUs or, interpreted, for any device."""
    # Imported here: other devices do not need it.
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    parameters = triton.CompilerParams(num_warps=warps, num_stages=1)
    return pl.pallas_call(kernel, shapes, compiler_params=parameters, interpret=interpret, **how)


def suits_recurrence(episodes: int, size: int) -> bool:
    """Whether the matrix of a recurrence of this size fits into the registers of one program."""
    # The sizes of arrays in a kernel must be powers of two.
    return has_kernels() and episodes in (1, 2, MOST_EPISODES) and size in (32, 64, 128)


def gru_forward(
    projected: Float[Array, "time episode gates"],
    weight: Float[Array, "size gates"],
    bias: Float[Array, "gates"],
    stream: tuple[Float[Array, "episode size"], Float[Array, "time episode"]] | None = None,
    inputs: Int[Array, ""] | None = None,
    *,
    interpret: bool = False,
) -> Float[Array, "time episode size"]:
    """The memory of a gated recurrent unit after each input; see `recurrence.gru_sequence`.

    `stream`: the memory to start from, and for each time 0 if it is emptied first, else 1. The result is zero after
    the first `inputs` inputs.
    """
    T, E, _ = projected.shape
    H = weight.shape[0]
    # One copy for each entry of the memory: a kernel cannot broadcast a single number over a row.
    stream = None if stream is None else (stream[0], jnp.broadcast_to(stream[1][..., None], (T, E, H)))

    def kernel(inputs: Any, projected: Any, weight: Any, bias: Any, *refs: Any) -> None:
        *start_and_keep, hs = refs
        parts = [slice(i * H, (i + 1) * H) for i in range(3)]
        w_r, w_z, w_n = (weight[:, part][None] for part in parts)
        b_r, b_z, b_n = (bias[part][None] for part in parts)

        def step(t: Array, h: Float[Array, "episode size"]) -> Float[Array, "episode size"]:
            i_r, i_z, i_n = (projected[t, :, part] for part in parts)
            h = h * start_and_keep[1][t, :, :] if start_and_keep else h
            column = h[:, :, None]
            r = jax.nn.sigmoid(i_r + jnp.sum(column * w_r, axis=1) + b_r)
            z = jax.nn.sigmoid(i_z + jnp.sum(column * w_z, axis=1) + b_z)
            n = jnp.tanh(i_n + r * (jnp.sum(column * w_n, axis=1) + b_n))
            h = (1 - z) * n + z * h
            hs[t, :, :] = h
            return h

        def write_zeros(t: Array, zeros: Float[Array, "episode size"]) -> Float[Array, "episode size"]:
            hs[t, :, :] = zeros
            return zeros

        zeros = jnp.zeros((E, H), jnp.float32)
        start = start_and_keep[0][:, :] if start_and_keep else zeros
        jax.lax.fori_loop(0, inputs[0], step, start)
        jax.lax.fori_loop(inputs[0], T, write_zeros, zeros)

    shape = jax.ShapeDtypeStruct((T, E, H), jnp.float32)
    arguments = (input_count(inputs, T), projected, weight, bias, *(stream or ()))
    return triton_call(kernel, shape, warps=WARPS, interpret=interpret)(*arguments)


def input_count(inputs: Int[Array, ""] | None, time: int) -> Int[Array, "1"]:
    """How many inputs a kernel processes, as an array that it can read."""
    return jnp.full(1, time, jnp.int32) if inputs is None else jnp.minimum(inputs, time).astype(jnp.int32)[None]


def gru_backward(
    gradient: Float[Array, "time episode size"],
    reset: Float[Array, "time episode size"],
    update: Float[Array, "time episode size"],
    new: Float[Array, "time episode size"],
    hidden_new: Float[Array, "time episode size"],
    before: Float[Array, "time episode size"],
    weight: Float[Array, "size gates"],
    keep: Float[Array, "time episode"] | None = None,
    inputs: Int[Array, ""] | None = None,
    *,
    interpret: bool = False,
) -> Float[Array, "time episode gates"]:
    """The gradient of the projected inputs, backwards through time; nothing flows back where `keep` is 0.

    It is zero after the first `inputs` inputs.
    """
    T, E, H = gradient.shape
    keeps = () if keep is None else (jnp.broadcast_to(keep[..., None], (T, E, H)),)

    def kernel(
        inputs: Any,
        gradient: Any,
        reset: Any,
        update: Any,
        new: Any,
        hidden_new: Any,
        before: Any,
        weight: Any,
        *refs: Any,
    ) -> None:
        *keeps, out = refs
        parts = [slice(i * H, (i + 1) * H) for i in range(3)]
        w_r, w_z, w_n = (weight[part, :][None] for part in parts)

        def step(back: Array, flow: Float[Array, "episode size"]) -> Float[Array, "episode size"]:
            t = inputs[0] - 1 - back
            r, z, n, h_n, h = (ref[t, :, :] for ref in (reset, update, new, hidden_new, before))
            dh = flow + gradient[t, :, :]
            d_new = dh * (1 - z) * (1 - n * n)
            d_update = dh * (h - n) * z * (1 - z)
            d_reset = d_new * h_n * r * (1 - r)
            for part, value in zip(parts, (d_reset, d_update, d_new), strict=True):
                out[t, :, part] = value
            through = d_reset[:, :, None] * w_r + d_update[:, :, None] * w_z + (d_new * r)[:, :, None] * w_n
            flow = dh * z + jnp.sum(through, axis=1)
            return flow * keeps[0][t, :, :] if keeps else flow

        def write_zeros(t: Array, zeros: Float[Array, "episode size"]) -> Float[Array, "episode size"]:
            for part in parts:
                out[t, :, part] = zeros
            return zeros

        zeros = jnp.zeros((E, H), jnp.float32)
        jax.lax.fori_loop(0, inputs[0], step, zeros)
        jax.lax.fori_loop(inputs[0], T, write_zeros, zeros)

    shape = jax.ShapeDtypeStruct((T, E, 3 * H), jnp.float32)
    # Transposed, so that sums run over rows, which are spread over warps; along columns they take three times as long.
    arguments = (input_count(inputs, T), gradient, reset, update, new, hidden_new, before, weight.T, *keeps)
    return triton_call(kernel, shape, warps=WARPS, interpret=interpret)(*arguments)
