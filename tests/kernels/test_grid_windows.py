"""Convolutions as products, and of their changes in a window."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.kernels.grid_windows import Windows, spread
from asymrl.nn.grid_state import convolve


def test_convolutions_as_products():
    planes, kernel = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate([(2, 4, 5, 3), (27, 6)]))
    dimensions = ("NHWC", "HWIO", "NHWC")
    expected = jax.lax.conv_general_dilated(
        planes, kernel.reshape(3, 3, 3, 6), (1, 1), "SAME", dimension_numbers=dimensions
    )
    np.testing.assert_allclose(convolve(planes, kernel), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("row", "column"), [(2, 3), (0, 0), (4, 5), (3, 1)])
def test_a_change_spreads_to_the_neighbours(row: int, column: int):
    """A change in 3 x 3 cells changes a convolution in 5 x 5, also where the border cuts off some of them."""
    H, W = 5, 6
    cell = jnp.array([row * W + column])
    near, far = (Windows.around(cell, (H, W), radius) for radius in (1, 2))
    change, kernel = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate([(1, 9, 3), (27, 4)]))
    change = jnp.where(near.inside[..., None], change, 0.0)
    found = far.paste(spread(change, kernel)).reshape(1, H, W, 4)
    expected = convolve(near.paste(change).reshape(1, H, W, 3), kernel)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_windows_of_a_grid():
    """Three by four cells, the agent in the second row of the first column."""
    window = Windows.around(jnp.array([4]), (3, 4), 1)
    grid = jnp.arange(1.0, 13.0).reshape(1, 12, 1)
    np.testing.assert_array_equal(window.cut(grid).reshape(3, 3), [[0, 1, 2], [0, 5, 6], [0, 9, 10]])
    pasted = window.paste(jnp.arange(1.0, 10.0).reshape(1, 9, 1)).reshape(3, 4)
    np.testing.assert_array_equal(pasted, [[2, 3, 0, 0], [5, 6, 0, 0], [8, 9, 0, 0]])
