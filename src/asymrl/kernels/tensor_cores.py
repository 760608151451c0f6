"""Products of a matrix with a few vectors on tensor cores, inside a kernel.

Tensor cores multiply a matrix with eight columns or more, so the vectors of all episodes become the first columns of a
table and cost as much as one. The matrix stays in the memory that the threads of a program share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

COLUMNS = 8
ROOMY = ("9.0", "10.0", "10.3")  # compute capabilities with 227 kB of shared memory for a program


def in_tf32() -> bool:
    """Whether products may use only ten bits of each factor."""
    return jax.config.jax_default_matmul_precision == "tensorfloat32"  # pyright: ignore[reportAttributeAccessIssue]


def use_tensor_cores() -> bool:
    """Whether products may be in tf32 and the GPU has room for matrices; without a GPU, one with room is assumed."""
    return in_tf32() and (jax.default_backend() != "gpu" or _capability(jax.devices()[0]) in ROOMY)


def _capability(device: Any) -> str:
    """The compute capability of a GPU, such as 9.0."""
    return str(getattr(device, "compute_capability", ""))


def product(matrix: Float[Array, "outputs inputs"], table: Float[Array, "inputs columns"]) -> Array:
    """`matrix @ table` with sums in float32. Both are float16, or float32 for tf32."""
    # By default a kernel reads float32 as tf32; the interpreter keeps float32.
    return jax.lax.dot(matrix, table, precision=jax.lax.Precision.DEFAULT, preferred_element_type=jnp.float32)


def as_columns(vectors: Sequence[Float[Array, "inputs"]], dtype: jnp.dtype) -> Float[Array, "inputs columns"]:
    """A table whose first columns are the vectors. The others are zero."""
    shape = (vectors[0].shape[0], COLUMNS)
    index, table = jax.lax.broadcasted_iota(jnp.int32, shape, 1), jnp.zeros(shape, jnp.float32)
    for i, vector in enumerate(vectors):
        table = jnp.where(index == i, vector[:, None], table)
    return table.astype(dtype)


def column(table: Float[Array, "outputs columns"], i: int) -> Float[Array, "outputs"]:
    """A column of a table. A kernel cannot index its own arrays, so all columns are summed, the others as zeros."""
    index = jax.lax.broadcasted_iota(jnp.int32, table.shape, 1)
    return jnp.sum(jnp.where(index == i, table, 0.0), axis=1)
