"""Products by tiles are products, and have the gradients of products. Interpreted, so that any machine can try."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from asymrl.models.products import multiply, tiled, times


def draw(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


@pytest.mark.parametrize("sizes", [(64, 64, 32), (200, 70, 36), (10, 128, 100)])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
def test_tiles_make_up_the_product(sizes: tuple[int, int, int], transposed: tuple[bool, bool]):
    """Also where they do not fit, and for several runs at once."""
    M, N, K = sizes
    a, b = draw(0, 2, M, K), draw(1, 2, K, N)
    expected = np.einsum("rmk,rkn->rmn", np.asarray(a, np.float64), np.asarray(b, np.float64))
    a, b = (jnp.swapaxes(x, 1, 2) if swap else x for x, swap in zip((a, b), transposed, strict=True))
    how = {"transpose_a": transposed[0], "transpose_b": transposed[1]}
    found = jax.vmap(lambda a, b: tiled(a, b, **how, interpret=True))(a, b)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(jax.vmap(lambda a, b: multiply(a, b, **how))(a, b), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [(), (3,), (5, 2)])
def test_any_batch_of_vectors_can_be_multiplied(batch: tuple[int, ...]):
    with jax.enable_x64(True):
        x, weight = draw(0, *batch, 4).astype(jnp.float64), draw(1, 4, 3).astype(jnp.float64)
        np.testing.assert_allclose(times(x, weight), x @ weight, rtol=1e-12)
        check_grads(times, (x, weight), order=1, modes=["rev"], rtol=1e-6, atol=1e-6)
