"""Normalised features of arrays of symbols, such as what a MiniGrid agent sees: one-hot, then a hidden layer.

Most cells of such an array say nothing: walls, floor, what is out of sight. The one cell that matters is a small share
of all inputs, and anything that depends on two cells together is learned very slowly. Relative to its own mean and
spread, a symbol that is always there is 0, and a rare one is large.
"""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from asymrl.nn.layers import Features, Linear
from asymrl.nn.normalised import Normalised
from asymrl.worlds.spaces import Indices

SYMBOL_FEATURES = 128
MOST_ONE_HOT = 2**14  # numbers; larger arrays are embedded


class NormalisedSymbols(Normalised):
    """An array of symbols, each one-hot, less the mean so far, divided by the spread so far, and clipped."""

    n: int = eqx.field(static=True)

    def __init__(self, space: Indices):
        self.n = space.n
        super().__init__(space.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape)) * self.n

    def measured(self, value: Int[Array, "..."]) -> list[Float[Array, "..."]]:
        leading = value.shape[: value.ndim - len(self.shape)]
        return [jax.nn.one_hot(value, self.n).reshape(*leading, self.size)]


class SymbolFeatures(Features):
    """A layer with a ReLU over normalised symbols."""

    symbols: NormalisedSymbols
    layer: Linear

    def __init__(self, key: PRNGKeyArray, space: Indices):
        self.symbols = NormalisedSymbols(space)
        self.layer = Linear(key, self.symbols.size, SYMBOL_FEATURES, gain=2.0**0.5)

    @staticmethod
    def can_read(space: Indices) -> bool:
        """Whether the array is small enough to be one-hot."""
        return int(np.prod(space.shape)) * space.n <= MOST_ONE_HOT

    @property
    def size(self) -> int:
        return SYMBOL_FEATURES

    def __call__(self, value: Int[Array, "..."]) -> Float[Array, "*batch size"]:
        return jax.nn.relu(self.layer(self.symbols(value)))

    def measured(self, value: Int[Array, "..."]) -> list[Float[Array, "..."]]:
        return self.symbols.measured(value)
