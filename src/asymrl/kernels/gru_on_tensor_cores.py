"""`network_kernels.gru_forward` and `gru_backward` where products are in tf32: one program per run, on tensor cores."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from asymrl.kernels.network_kernels import input_count, triton_call
from asymrl.kernels.tensor_cores import as_columns, column, product

WARPS = 8

Vector = Float[Array, "size"]


def gru_forward(
    projected: Float[Array, "time episode gates"],
    weight: Float[Array, "size gates"],
    bias: Float[Array, "gates"],
    stream: tuple[Float[Array, "episode size"], Float[Array, "time episode"]] | None = None,
    inputs: Int[Array, ""] | None = None,
    *,
    interpret: bool = False,
) -> Float[Array, "time episode size"]:
    """The memory of a gated recurrent unit after each input; see `network_kernels.gru_forward`."""
    T, E, _ = projected.shape
    H = weight.shape[0]
    parts, episodes = [slice(i * H, (i + 1) * H) for i in range(3)], range(E)

    def kernel(inputs: Any, projected: Any, weight: Any, bias: Any, *refs: Any) -> None:
        *start_and_keep, hs = refs
        matrices, biases = [weight[part, :] for part in parts], [bias[part] for part in parts]

        def read(t: Array) -> list[list[Vector]]:
            return [[projected[t, e, part] for part in parts] for e in episodes]

        def step(t: Array, loop: tuple[list[Vector], list[list[Vector]]]) -> tuple[list[Vector], list[list[Vector]]]:
            memories, projections = loop
            following = read(jnp.minimum(t + 1, T - 1))  # ahead of use: reading takes as long as a product
            if start_and_keep:
                memories = [h * start_and_keep[1][t, e] for e, h in enumerate(memories)]
            table = as_columns(memories, matrices[0].dtype)
            tables = [product(matrix, table) for matrix in matrices]
            for e in episodes:
                h_r, h_z, h_n = (column(table, e) + b for table, b in zip(tables, biases, strict=True))
                i_r, i_z, i_n = projections[e]
                r, z = jax.nn.sigmoid(i_r + h_r), jax.nn.sigmoid(i_z + h_z)
                n = jnp.tanh(i_n + r * h_n)
                memories[e] = (1 - z) * n + z * memories[e]
                hs[t, e, :] = memories[e]
            return memories, following

        def write_zeros(t: Array, zeros: list[Vector]) -> list[Vector]:
            for e, zero in enumerate(zeros):
                hs[t, e, :] = zero
            return zeros

        zeros = [jnp.zeros(H, jnp.float32) for _ in episodes]
        start = [start_and_keep[0][e, :] for e in episodes] if start_and_keep else list(zeros)
        jax.lax.fori_loop(0, inputs[0], step, (start, read(jnp.int32(0))))
        jax.lax.fori_loop(inputs[0], T, write_zeros, zeros)

    shape = jax.ShapeDtypeStruct((T, E, H), jnp.float32)
    # Memories are at most 1, so float16 is as exact as tf32.
    matrix = weight.T.astype(jnp.float16)
    arguments = (input_count(inputs, T), projected, matrix, bias, *(stream or ()))
    return triton_call(kernel, shape, warps=WARPS, interpret=interpret)(*arguments)


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
    """The gradient of the projected inputs; see `network_kernels.gru_backward`."""
    T, E, H = gradient.shape
    parts, episodes = [slice(i * H, (i + 1) * H) for i in range(3)], range(E)
    of_steps, keeps = (gradient, reset, update, new, hidden_new, before), () if keep is None else (keep,)

    def kernel(inputs: Any, weight: Any, *refs: Any) -> None:
        of_steps, (*keeps, out) = refs[:6], refs[6:]
        matrices = [weight[:, part] for part in parts]

        def read(t: Array) -> list[list[Vector]]:
            return [[ref[t, e, :] for ref in of_steps] for e in episodes]

        def step(back: Array, loop: tuple[list[Vector], list[list[Vector]]]) -> tuple[list[Vector], list[list[Vector]]]:
            flows, at = loop
            t = inputs[0] - 1 - back
            earlier = read(jnp.maximum(t - 1, 0))
            through, direct = [], []
            for e in episodes:
                from_above, r, z, n, h_n, h = at[e]
                dh = flows[e] + from_above
                d_new = dh * (1 - z) * (1 - n * n)
                d_update = dh * (h - n) * z * (1 - z)
                d_reset = d_new * h_n * r * (1 - r)
                for part, value in zip(parts, (d_reset, d_update, d_new), strict=True):
                    out[t, e, part] = value
                through.append((d_reset, d_update, d_new * r))
                direct.append(dh * z)
            tables = [as_columns(gate, jnp.float32) for gate in zip(*through, strict=True)]
            of_reset, of_update, of_new = (product(*pair) for pair in zip(matrices, tables, strict=True))
            total = of_reset + of_update + of_new
            flows = [part + column(total, e) for e, part in enumerate(direct)]
            return [flow * keeps[0][t, e] for e, flow in enumerate(flows)] if keeps else flows, earlier

        def write_zeros(t: Array, zero: Vector) -> Vector:
            for e in episodes:
                for part in parts:
                    out[t, e, part] = zero
            return zero

        zero = jnp.zeros(H, jnp.float32)
        jax.lax.fori_loop(0, inputs[0], step, ([zero] * E, read(jnp.maximum(inputs[0] - 1, 0))))
        jax.lax.fori_loop(inputs[0], T, write_zeros, zero)

    shape = jax.ShapeDtypeStruct((T, E, 3 * H), jnp.float32)
    arguments = (input_count(inputs, T), weight, *of_steps, *keeps)
    return triton_call(kernel, shape, warps=WARPS, interpret=interpret)(*arguments)
