"""Normalised symbols: what is always there is nothing, what is rare is large, and a learned layer reads them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from asymrl.nn.features import Indexed, state_features
from asymrl.nn.normalised import (
    LARGEST,
    SYMBOL_FEATURES,
    NormalisedSymbols,
    SymbolFeatures,
    moments_of,
    normalised_by,
    normalised_parts,
)
from asymrl.worlds.spaces import Discrete, Indices, Record

GRIDS = np.zeros((100, 1, 2), np.uint8)  # two cells: one never changes, the other shows a 2 once in a hundred times
GRIDS[:, 0, 0], GRIDS[7, 0, 1] = 1, 2


def measured_symbols() -> NormalisedSymbols:
    symbols = NormalisedSymbols(Indices(3, (2,)))
    (numbers,) = symbols.measured(jnp.asarray(GRIDS))
    return normalised_by(symbols, moments_of(numbers, jnp.ones((100, 1), bool)))


def test_a_symbol_that_is_always_there_is_nothing_and_a_rare_one_is_large():
    usual, rare = (np.asarray(measured_symbols()(jnp.asarray(GRIDS[t, 0]))).reshape(2, 3) for t in (0, 7))
    np.testing.assert_array_equal(usual[0], 0)
    np.testing.assert_array_equal(rare[0], 0)
    # A bit that is 1 with probability 0.01 has the standard deviation 0.0995.
    np.testing.assert_allclose(usual[1], [0.01 / 0.0995, 0, -0.01 / 0.0995], rtol=1e-3)
    np.testing.assert_allclose(rare[1], [-0.99 / 0.0995, 0, 0.99 / 0.0995], rtol=1e-3)
    new = np.asarray(measured_symbols()(jnp.asarray([2, 0]))).reshape(2, 3)
    assert new[0, 2] == LARGEST  # what was never there is as large as anything can be


def test_symbols_are_normalised_where_that_is_wanted_and_they_are_few():
    key, few, many = jax.random.key(0), Indices(11, (7, 7, 3)), Indices(256, (7, 7, 3))
    assert isinstance(state_features(key, few), Indexed)
    assert isinstance(state_features(key, many, normalise=True), Indexed)
    features = state_features(key, Record((("image", few), ("direction", Discrete(4)))), normalise=True)
    (symbols,) = normalised_parts(features)
    assert symbols.size == 7 * 7 * 3 * 11
    value = {"image": jnp.zeros((5, 4, 7, 7, 3), jnp.uint8), "direction": jnp.zeros((5, 4), jnp.int32)}
    assert [numbers.shape for numbers in features.measured(value)] == [(5, 4, symbols.size)]
    assert features(value).shape == (5, 4, features.size)


def test_the_layer_is_learned_and_the_moments_are_not():
    features = SymbolFeatures(jax.random.key(0), Indices(3, (2,)))
    assert features.size == SYMBOL_FEATURES
    gradient = jax.grad(lambda features: features(jnp.asarray([1, 2])).sum())(features)
    assert np.abs(gradient.layer.weight).max() > 0
    assert not np.any(gradient.symbols.mean)
    assert not np.any(gradient.symbols.scale)
