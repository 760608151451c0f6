"""The gated recurrent unit with its own gradient, the look-up with its own, and the kernels that stand in for both."""

from __future__ import annotations

from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from asymrl.kernels import gru_on_tensor_cores, network_kernels as kernels
from asymrl.nn.gru import FEW, gru_gates, gru_sequence
from asymrl.nn.layers import look_up, product
from tests.oracles.networks import gru_forward

T, E, SIZE, INPUTS = 5, 2, 4, 3


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def gru(steps: int = T) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Projected inputs, the weight of the memory, and its bias."""
    return draw(0, steps, E, 3 * SIZE), draw(1, SIZE, 3 * SIZE) / SIZE**0.5, draw(2, 3 * SIZE)


@pytest.fixture(params=[1, T, FEW + 1])
def steps(request: pytest.FixtureRequest) -> int:
    """Of a sequence: few are written out, more are a loop."""
    return request.param


def test_the_unit_is_that_of_the_reference(steps: int):
    xs, input_weight, input_bias = draw(3, steps, E, INPUTS), draw(4, INPUTS, 3 * SIZE), draw(5, 3 * SIZE)
    _, weight, bias = gru()
    weights = {
        "gru.input_weight": input_weight,
        "gru.input_bias": input_bias,
        "gru.hidden_weight": weight,
        "gru.hidden_bias": bias,
    }
    projected, weight, bias = (jnp.asarray(x, jnp.float32) for x in (xs @ input_weight + input_bias, weight, bias))
    hs = np.asarray(gru_sequence(projected, weight, bias, None))
    for e in range(E):
        h = np.zeros(SIZE)
        for t in range(steps):
            h, _ = gru_forward(weights, xs[t, e], h)
            np.testing.assert_allclose(hs[t, e], h, rtol=1e-5, atol=1e-6)


def test_its_gradient_is_the_numerical_one(steps: int):
    with jax.enable_x64(True):
        given = tuple(jnp.asarray(x) for x in gru(steps))
        check_grads(lambda *given: gru_sequence(*given, None), given, order=1, modes=["rev"], rtol=1e-6, atol=1e-6)


def test_known_memories_give_the_same_gradient(steps: int):
    """Also when the gradient of the result is different at every time."""
    with jax.enable_x64(True):
        given, above = tuple(jnp.asarray(x) for x in gru(steps)), jnp.asarray(draw(6, steps, E, SIZE))
        hs, pull = jax.vjp(lambda *given: gru_sequence(*given, None), *given)
        again, pull_known = jax.vjp(lambda known, *given: gru_sequence(*given, known), hs, *given)
        np.testing.assert_array_equal(again, hs)
        for_known, *for_given = pull_known(above)
        np.testing.assert_array_equal(for_known, jnp.zeros_like(hs))
        for one, other in zip(for_given, pull(above), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [(), (6,), (2, 3)])
def test_the_gradient_of_a_look_up_adds_up_where_an_index_repeats(shape: tuple[int, ...]):
    table, index = (
        jnp.asarray(draw(0, 4, 3), jnp.float32),
        jnp.asarray(np.random.default_rng(1).integers(3, size=shape)),
    )
    above = jnp.asarray(draw(2, *shape, 3), jnp.float32)
    rows, pull = jax.vjp(lambda table: look_up(table, index), table)
    np.testing.assert_array_equal(rows, table[index])
    (gradient,) = pull(above)
    expected = np.zeros((4, 3))
    np.add.at(expected, index, above)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(gradient[3], 0.0)  # an index that never occurs


UNITS = pytest.mark.parametrize(("unit", "exactness"), [(kernels, 1e-5), (gru_on_tensor_cores, 2e-3)])


@UNITS
@pytest.mark.parametrize("episodes", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
def test_the_kernels_of_the_unit_agree_with_the_plain_version(unit: ModuleType, exactness: float, episodes: int):
    """Interpreted, so that any machine can run them. On tensor cores memories have the ten bits of a float16."""
    size = 32
    assert kernels.suits_recurrence(episodes, size)
    projected, weight, bias = draw(0, T, episodes, 3 * size), draw(1, size, 3 * size) / size**0.5, draw(2, 3 * size)
    projected, weight, bias = given = [jnp.asarray(x, jnp.float32) for x in (projected, weight, bias)]
    hs, pull = jax.vjp(lambda *given: gru_sequence(*given, None), *given)
    by_kernel = unit.gru_forward(projected, weight, bias, interpret=True)
    np.testing.assert_allclose(by_kernel, hs, rtol=exactness, atol=exactness / 10)

    before = jnp.concatenate([jnp.zeros_like(hs[:1]), hs[:-1]])
    gates = gru_gates(projected, before, weight, bias)[1]
    above = jnp.asarray(draw(3, T, episodes, size), jnp.float32)
    gradient = unit.gru_backward(above, *gates, before, weight, interpret=True)
    np.testing.assert_allclose(gradient, pull(above)[0], rtol=1e-5, atol=1e-5)


@UNITS
def test_the_kernels_of_the_unit_stop_where_nothing_matters_any_more(unit: ModuleType, exactness: float):
    size, inputs = 32, jnp.int32(T - 3)
    given = [
        jnp.asarray(x, jnp.float32) for x in (draw(0, T, 2, 3 * size), draw(1, size, 3 * size) / 5, draw(2, 3 * size))
    ]
    projected, weight, bias = given
    hs, pull = jax.vjp(lambda *given: gru_sequence(*given, None), *given)
    stopped = unit.gru_forward(projected, weight, bias, None, inputs, interpret=True)
    np.testing.assert_allclose(stopped[: T - 3], hs[: T - 3], rtol=exactness, atol=exactness / 10)
    np.testing.assert_array_equal(stopped[T - 3 :], 0.0)

    before = jnp.concatenate([jnp.zeros_like(hs[:1]), hs[:-1]])
    gates = gru_gates(projected, before, weight, bias)[1]
    above = jnp.asarray(draw(3, T, 2, size), jnp.float32).at[T - 3 :].set(0.0)
    gradient = unit.gru_backward(above, *gates, before, weight, None, inputs, interpret=True)
    np.testing.assert_allclose(gradient, pull(above)[0], rtol=1e-5, atol=1e-5)


def test_without_kernels_everything_takes_the_plain_version(monkeypatch: pytest.MonkeyPatch):
    assert kernels.has_kernels()
    assert kernels.suits_recurrence(2, 32)
    monkeypatch.setattr(kernels, "has_kernels", lambda: False)
    assert not kernels.suits_recurrence(2, 32)


@pytest.mark.parametrize(("episodes", "size"), [(3, 32), (8, 128), (2, 48), (2, 256)])
def test_other_sizes_take_the_plain_version(episodes: int, size: int):
    assert not kernels.suits_recurrence(episodes, size)


@pytest.mark.parametrize("shape", [(2, 8), (3, 2, 128), (128,)])
def test_any_product_is_a_product(shape: tuple[int, ...]):
    x, weight = jnp.asarray(draw(0, *shape), jnp.float32), jnp.asarray(draw(1, shape[-1], 128), jnp.float32)
    np.testing.assert_allclose(product(x, weight), x @ weight, rtol=1e-5, atol=1e-5)
