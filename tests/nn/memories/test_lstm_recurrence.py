"""The long short-term memory over streams, with its own gradient."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.test_util import check_grads

from asymrl.nn.lstm import Cells, lstm_gates, lstm_sequence

T, N, SIZE = 5, 3, 4
KEEP = np.array([[1, 0, 1], [1, 1, 1], [0, 1, 1], [1, 1, 1], [1, 0, 1]], float)


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def given() -> tuple[jax.Array, jax.Array, Cells, jax.Array]:
    start = Cells(jnp.asarray(draw(2, N, SIZE)), jnp.asarray(draw(3, N, SIZE)))
    return jnp.asarray(draw(0, T, N, 4 * SIZE)), jnp.asarray(draw(1, SIZE, 4 * SIZE)), start, jnp.asarray(KEEP)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_it_is_the_textbook_unit():
    with jax.enable_x64(True):
        projected, weight, start, keep = given()
        hs, last = lstm_sequence(projected, weight, start, keep)
    h, c = np.asarray(start.h), np.asarray(start.c)
    for t in range(T):
        h, c = h * KEEP[t, :, None], c * KEEP[t, :, None]
        i, f, g, o = np.split(np.asarray(projected[t]) + h @ np.asarray(weight), 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        np.testing.assert_allclose(hs[t], h, rtol=1e-12)
    np.testing.assert_allclose(last, c, rtol=1e-12)


def test_its_gradient_is_the_numerical_one():
    with jax.enable_x64(True):
        projected, weight, start, keep = given()
        outputs = lambda projected, weight: lstm_sequence(projected, weight, start, keep)  # noqa: E731
        check_grads(outputs, (projected, weight), order=1, modes=["rev"], rtol=1e-6, atol=1e-6)


def test_no_gradient_reaches_what_was_remembered_at_the_start():
    with jax.enable_x64(True):
        projected, weight, start, keep = given()
        total = lambda start: sum(x.sum() for x in lstm_sequence(projected, weight, start, keep))  # noqa: E731
        assert all((np.asarray(leaf) == 0).all() for leaf in jax.grad(total)(start))


def test_one_step_alone_is_the_first_of_a_sequence():
    with jax.enable_x64(True):
        projected, weight, start, keep = given()
        cells, _ = lstm_gates(projected[0], start, weight)
        hs, _ = lstm_sequence(projected, weight, start, jnp.ones_like(keep))
    np.testing.assert_allclose(hs[0], cells.h, rtol=1e-12)
