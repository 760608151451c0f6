"""The norm of a gradient and its clipping are those of optax, for parts of all sizes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from asymrl.learners.optimiser import SMALL, clipped, norm_of


@pytest.mark.parametrize("sizes", [[3], [3, 5], [SMALL], [3, 2 * SMALL, 7, SMALL - 1]])
@pytest.mark.parametrize("most", [0.1, 1e6])
def test_as_in_optax(sizes: list[int], most: float):
    random = np.random.default_rng(0)
    gradient = {str(i): jnp.asarray(random.normal(size=size), jnp.float32) for i, size in enumerate(sizes)}
    norm = norm_of(gradient)
    np.testing.assert_allclose(norm, optax.tree.norm(gradient), rtol=1e-6)
    found = clipped(gradient, norm, jnp.float32(most))
    expected, _ = optax.clip_by_global_norm(most).update(gradient, optax.EmptyState())
    for part, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-5)
    np.testing.assert_allclose(norm_of(found), min(most, float(norm)), rtol=1e-5)
