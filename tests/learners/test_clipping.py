"""The norm of a gradient and its clipping are those of one long vector, for parts of all sizes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.optimiser import SMALL, clipped, norm_of


@pytest.mark.parametrize("sizes", [[3], [3, 5], [SMALL], [3, 2 * SMALL, 7, SMALL - 1]])
@pytest.mark.parametrize("most", [0.1, 1e6])
def test_as_one_vector(sizes: list[int], most: float):
    random = np.random.default_rng(0)
    gradient = {str(i): jnp.asarray(random.normal(size=size), jnp.float32) for i, size in enumerate(sizes)}
    vector = np.concatenate([np.asarray(part, np.float64) for part in gradient.values()])
    norm = norm_of(gradient)
    np.testing.assert_allclose(norm, np.linalg.norm(vector), rtol=1e-6)
    found = clipped(gradient, norm, jnp.float32(most))
    expected = vector * min(1.0, most / np.linalg.norm(vector))
    np.testing.assert_allclose(np.concatenate(jax.tree.leaves(found)), expected, rtol=1e-5)
