"""Products of matrices, as exact as float32 and as fast as a GPU allows.

With weights of its own for each run, a layer is a batch of middle-sized products. The library's kernels for float32
reach a third of what the processor can do then. Tensor cores are far faster, but cut numbers to 10 bits; three
such products, of the leading and the following bits, are as good as one in float32.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from asymrl.models.kernels import triton_call

ROWS, COLUMNS, DEPTH = 64, 64, 32  # of the result that one program computes, and what it takes in at once
WARPS, STAGES = 4, 3
MANY_ROWS = 128  # with fewer, there is little to gain
WIDE = 32  # inputs and outputs


@jax.custom_vjp
def times(x: Float[Array, "*batch inputs"], weight: Float[Array, "inputs outputs"]) -> Float[Array, "*batch outputs"]:
    """`x @ weight`."""
    return multiply(_flat(x), weight).reshape(*x.shape[:-1], weight.shape[1])


def _forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return times(x, weight), (x, weight)


def _backward(saved: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, weight = saved
    of_x = multiply(_flat(gradient), weight, transpose_b=True).reshape(x.shape)
    return of_x, multiply(_flat(x), _flat(gradient), transpose_a=True)


times.defvjp(_forward, _backward)


def _flat(x: Array) -> Float[Array, "rows size"]:
    return x.reshape(-1, x.shape[-1])


def multiply(
    a: Float[Array, "_ _"], b: Float[Array, "_ _"], *, transpose_a: bool = False, transpose_b: bool = False
) -> Float[Array, "rows columns"]:
    """A product of two matrices, either of them transposed if told so, by the kernel where that is faster.

    Not for use where a gradient is wanted.
    """

    def plain(a: Array, b: Array) -> Array:
        return (a.T if transpose_a else a) @ (b.T if transpose_b else b)

    def by_kernel(a: Array, b: Array) -> Array:
        return tiled(a, b, transpose_a=transpose_a, transpose_b=transpose_b)

    M, N, K = _sizes(a, b, transpose_a, transpose_b)
    if M < MANY_ROWS or min(N, K) < WIDE or a.dtype != jnp.float32 or b.dtype != jnp.float32:
        return plain(a, b)
    return jax.lax.platform_dependent(a, b, cuda=by_kernel, default=plain)


def _sizes(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> tuple[int, int, int]:
    """Rows, columns and what is summed over."""
    K, M = a.shape if transpose_a else a.shape[::-1]
    return M, b.shape[0] if transpose_b else b.shape[1], K


def tiled(
    a: Float[Array, "_ _"],
    b: Float[Array, "_ _"],
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    interpret: bool = False,
) -> Float[Array, "rows columns"]:
    """The kernel of `multiply`: each program computes a tile of the result."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    M, N, K = _sizes(a, b, transpose_a, transpose_b)
    precision = jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3

    def dot(x: Array, y: Array) -> Array:
        if interpret:
            return (x.T if transpose_a else x) @ (y.T if transpose_b else y)
        return triton.dot(x, y, trans_a=transpose_a, trans_b=transpose_b, precision=precision)

    def block(matrix: Any, first: tuple[Any, int, int], second: tuple[Any, int, int], transposed: bool) -> Array:
        """A part of a matrix, with zeros beyond its end. Each axis has a start, a length and an end."""
        (i, rows, last_row), (j, columns, last_column) = (second, first) if transposed else (first, second)
        inside = (i + jnp.arange(rows) < last_row)[:, None] & (j + jnp.arange(columns) < last_column)[None]
        return triton.load(matrix.at[pl.ds(i, rows), pl.ds(j, columns)], mask=inside, other=0.0)

    def kernel(a: Any, b: Any, out: Any) -> None:
        i, j = pl.program_id(0) * ROWS, pl.program_id(1) * COLUMNS

        def step(k: Array, sums: Array) -> Array:
            x = block(a, (i, ROWS, M), (k * DEPTH, DEPTH, K), transpose_a)
            y = block(b, (k * DEPTH, DEPTH, K), (j, COLUMNS, N), transpose_b)
            return sums + dot(x, y)

        sums = jax.lax.fori_loop(0, pl.cdiv(K, DEPTH), step, jnp.zeros((ROWS, COLUMNS), jnp.float32))
        inside = (i + jnp.arange(ROWS) < M)[:, None] & (j + jnp.arange(COLUMNS) < N)[None]
        triton.store(out.at[pl.ds(i, ROWS), pl.ds(j, COLUMNS)], sums, mask=inside)

    return triton_call(
        kernel,
        jax.ShapeDtypeStruct((M, N), jnp.float32),
        warps=WARPS,
        stages=STAGES,
        interpret=interpret,
        grid=(pl.cdiv(M, ROWS), pl.cdiv(N, COLUMNS)),
    )(a, b)
