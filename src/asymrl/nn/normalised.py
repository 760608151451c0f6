"""Observations with mean 0 and spread 1: the running moments of what a run saw, and features that use
them, of numbers and of arrays of symbols such as what a MiniGrid agent sees.
"""

from __future__ import annotations

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from asymrl.nn.layers import Features, Linear
from asymrl.worlds.spaces import Indices

LARGEST = 10.0  # normalised numbers are clipped at this, as Gymnasium's and Stable-Baselines3's wrappers do
SMALLEST_VARIANCE = 1e-8  # added to each, so that a number that never changes can be divided by its spread
SYMBOL_FEATURES = 128
MOST_ONE_HOT = 2**14  # numbers; larger arrays are embedded

Model = TypeVar("Model", bound=eqx.Module)


class Moments(eqx.Module):
    """Number, mean and variance of the vectors so far."""

    count: Float[Array, "*run"]
    mean: Float[Array, "*run size"]
    variance: Float[Array, "*run size"]

    @property
    def scale(self) -> Float[Array, "*run size"]:
        """One over the standard deviation."""
        return 1 / jnp.sqrt(self.variance + SMALLEST_VARIANCE)


def no_moments(size: int) -> Moments:
    """The moments before the first vector; normalising with them changes nothing."""
    return Moments(jnp.float32(0), jnp.zeros(size), jnp.ones(size))


def moments_of(vectors: Float[Array, "time episode size"], valid: Bool[Array, "time episode"]) -> Moments:
    """The moments of the vectors that are `valid`."""
    count = jnp.sum(valid).astype(jnp.float32)
    # Relative to one of them, so that a number which never changes has exactly its value as mean and no variance.
    first = vectors[:1, :1]
    relative = jnp.where(valid[..., None], vectors - first, 0.0)
    mean = jnp.sum(relative, axis=(0, 1), keepdims=True) / jnp.maximum(count, 1)
    squares = jnp.where(valid[..., None], (relative - mean) ** 2, 0.0)
    return Moments(count, (first + mean)[0, 0], jnp.sum(squares, axis=(0, 1)) / jnp.maximum(count, 1))


def merged(one: Moments, other: Moments) -> Moments:
    """The moments of all vectors of both (Chan et al. 1979)."""
    total = one.count + other.count
    share = other.count / jnp.maximum(total, 1)
    apart = other.mean - one.mean
    variance = (1 - share) * one.variance + share * other.variance + share * (1 - share) * apart**2
    # If there were none before, the mean is exactly that of the new vectors.
    mean = jnp.where(one.count > 0, one.mean + share * apart, other.mean)
    has_data = total > 0
    return Moments(total, jnp.where(has_data, mean, one.mean), jnp.where(has_data, variance, one.variance))


class Normalised(Features):
    """The entries of an array in order, less their mean so far, divided by their spread so far, and clipped.

    Mean and scale are measured, not learned: they pass no gradient.
    """

    mean: Float[Array, "*run size"]
    scale: Float[Array, "*run size"]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape
        self.mean, self.scale = jnp.zeros(self.size), jnp.ones(self.size)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def __call__(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        (flat,) = self.measured(value)
        mean, scale = (jnp.broadcast_to(jax.lax.stop_gradient(x), flat.shape) for x in (self.mean, self.scale))
        return jnp.clip((flat - mean) * scale, -LARGEST, LARGEST)

    def measured(self, value: Float[Array, "..."]) -> list[Float[Array, "..."]]:
        leading = value.shape[: value.ndim - len(self.shape)]
        return [value.reshape(*leading, self.size).astype(jnp.float32)]


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
    """A layer with a ReLU over normalised symbols.

    Most cells of such an array say nothing: walls, floor, what is out of sight. The one cell that matters is a small
    share of all inputs, and anything that depends on two cells together is learned very slowly. Relative to its own
    mean and spread, a symbol that is always there is 0, and a rare one is large.
    """

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


def normalised_parts(model: eqx.Module | None) -> list[Normalised]:
    """The features in a model that are normalised, in order."""
    parts = jax.tree.leaves(model, is_leaf=lambda part: isinstance(part, Normalised))
    return [part for part in parts if isinstance(part, Normalised)]


def normalised_by(model: Model, moments: Moments) -> Model:
    """The model with these moments in its normalised features, which have as many numbers together."""
    ends = np.cumsum([part.size for part in normalised_parts(model)])[:-1].tolist()
    of_parts = zip(jnp.split(moments.mean, ends, axis=-1), jnp.split(moments.scale, ends, axis=-1), strict=True)
    leaves = [array for pair in of_parts for array in pair]
    return eqx.tree_at(lambda m: [a for part in normalised_parts(m) for a in (part.mean, part.scale)], model, leaves)
