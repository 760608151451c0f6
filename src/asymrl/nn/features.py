"""phi(a), phi(o) and phi(s): features of actions, observations and privileged signals, chosen by their space.

The paper's appendix "Model Architectures" has three kinds of worlds. Categorical: embeddings of 64 numbers.
Feature-vector: observations and states as they are, actions one-hot. Gridverse: embedded grids, a convolutional
network over the state, actions as a single number.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from asymrl.nn.grid_state import GridState
from asymrl.nn.layers import Embedding, Features, look_up, product
from asymrl.nn.normalised import Normalised, SymbolFeatures
from asymrl.nn.pictures import PictureFeatures
from asymrl.worlds.spaces import (
    Box,
    Discrete,
    Image,
    Indices,
    MultiDiscrete,
    Record,
    Simplex,
    Space,
    choice_sizes,
    number_box,
)

EMBEDDING_SIZE = 64
GRID_EMBEDDING_SIZE = 8


class OneHot(Features):
    """An index as a unit vector."""

    n: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.n

    def __call__(self, index: Int[Array, "*batch"]) -> Float[Array, "*batch size"]:
        return jax.nn.one_hot(index, self.size)

    def project(self, value: Int[Array, "*batch"], weight: Float[Array, "size width"]) -> Float[Array, "*batch width"]:
        return look_up(weight, value)

    def prepared(self, weight: Float[Array, "size width"]) -> Features:
        return Embedding(weight)


class Flat(Features):
    """A vector, or the entries of an array in order."""

    shape: tuple[int, ...] = eqx.field(static=True)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def __call__(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        leading = value.shape[: value.ndim - len(self.shape)]
        return value.reshape(*leading, self.size).astype(jnp.float32)


class Indexed(Features):
    """An array of indices: each embedded, then flattened."""

    embedding: Embedding
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, space: Indices):
        self.embedding = Embedding.new(key, space.n, GRID_EMBEDDING_SIZE)
        self.shape = space.shape

    @property
    def size(self) -> int:
        return int(np.prod(self.shape)) * GRID_EMBEDDING_SIZE

    def __call__(self, value: Int[Array, "..."]) -> Float[Array, "..."]:
        leading = value.shape[: value.ndim - len(self.shape)]
        return self.embedding(value.astype(jnp.int32)).reshape(*leading, self.size)


class Expected(Features):
    """A belief: the expected features of a state, E[phi(s)]. If it is certain, those of that state."""

    embedding: Embedding

    @property
    def size(self) -> int:
        return self.embedding.size

    def __call__(self, belief: Float[Array, "*batch n"]) -> Float[Array, "*batch size"]:
        return product(belief, self.embedding.vectors())


class EntryFeatures(Features):
    """A vector of indices: the features of each entry side by side."""

    parts: tuple[Features, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    def __call__(self, value: Int[Array, "*batch entries"]) -> Float[Array, "*batch size"]:
        return jnp.concatenate([part(value[..., i]) for i, part in enumerate(self.parts)], axis=-1)

    def project(
        self, value: Int[Array, "*batch entries"], weight: Float[Array, "size width"]
    ) -> Float[Array, "*batch width"]:
        pairs = zip(self.parts, self._split(weight), strict=True)
        return sum_of([part.project(value[..., i], rows) for i, (part, rows) in enumerate(pairs)])

    def prepared(self, weight: Float[Array, "size width"]) -> Features:
        pairs = zip(self.parts, self._split(weight), strict=True)
        return EntrySum(tuple(part.prepared(rows) for part, rows in pairs))

    def _split(self, weight: Float[Array, "size width"]) -> list[Float[Array, "_ width"]]:
        return jnp.split(weight, np.cumsum([part.size for part in self.parts])[:-1])


class EntrySum(Features):
    """A vector of indices: the features of its entries, added up."""

    parts: tuple[Features, ...]

    @property
    def size(self) -> int:
        return self.parts[0].size

    def __call__(self, value: Int[Array, "*batch entries"]) -> Float[Array, "*batch size"]:
        return sum_of([part(value[..., i]) for i, part in enumerate(self.parts)])


class MixedFeatures(Features):
    """A vector of choices and numbers: the features of the choices, zeros where there is none, then the numbers."""

    choices: EntryFeatures
    numbers: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.choices.size + self.numbers

    def __call__(self, value: Float[Array, "*batch entries"]) -> Float[Array, "*batch size"]:
        indices, numbers = jnp.split(value, [len(self.choices.parts)], axis=-1)
        features = self.choices(jnp.maximum(indices, 0).astype(jnp.int32))
        # Either all choices are NO_ACTION or none is.
        there = jnp.broadcast_to(indices[..., :1] >= 0, features.shape)
        return jnp.concatenate([jnp.where(there, features, 0.0), numbers], axis=-1)


def sum_of(arrays: list[Float[Array, "..."]]) -> Float[Array, "..."]:
    """The sum of arrays of one shape."""
    return functools.reduce(jnp.add, arrays)


class Parts(Features):
    """A record: the features of its parts side by side."""

    names: tuple[str, ...] = eqx.field(static=True)
    parts: tuple[Features, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    def __call__(self, value: dict[str, Any]) -> Float[Array, "*batch size"]:
        features = [part(value[name]) for name, part in zip(self.names, self.parts, strict=True)]
        return jnp.concatenate(features, axis=-1)

    def measured(self, value: dict[str, Any]) -> list[Float[Array, "..."]]:
        pairs = zip(self.names, self.parts, strict=True)
        return [numbers for name, part in pairs for numbers in part.measured(value[name])]

    def project(self, value: dict[str, Any], weight: Float[Array, "size width"]) -> Float[Array, "*batch width"]:
        """Part by part, so that each can look up its products."""
        return self.project_beside(None, value, weight)

    def project_beside(
        self,
        others: Float[Array, "*batch others"] | None,
        value: dict[str, Any],
        weight: Float[Array, "inputs width"],
    ) -> Float[Array, "*batch width"]:
        of_others, *weights = self.split(others, weight)
        parts = zip(self.names, self.parts, weights, strict=True)
        projected = [part.project_beside(None, value[name], rows) for name, part, rows in parts]
        return sum_of(projected if others is None else [product(others, of_others), *projected])

    def split(self, others: Array | None, weight: Float[Array, "inputs width"]) -> list[Float[Array, "_ width"]]:
        """The rows of a matrix for the other numbers, and for each part."""
        sizes = [0 if others is None else others.shape[-1], *(part.size for part in self.parts)]
        return jnp.split(weight, np.cumsum(sizes)[:-1].tolist())


def kind_of(observation_space: Space) -> str:
    """The kind of world, by what the agent sees: `categorical`, `gridverse` or `feature-vector`."""
    if isinstance(observation_space, Discrete):
        return "categorical"
    parts = dict(observation_space.items()) if isinstance(observation_space, Record) else {}
    # Exactly these parts: any others would be left out.
    if set(parts) == {"grid", "item"} and all(isinstance(part, Indices) for part in parts.values()):
        return "gridverse"
    return "feature-vector"


def action_features(key: PRNGKeyArray, space: Space, kind: str) -> Features:
    """phi(a)."""
    if isinstance(space, Record):
        sizes, numbers = choice_sizes(space), number_box(space)
        if not sizes:
            return action_features(key, numbers, kind)
        choices = action_features(key, MultiDiscrete(sizes), kind)
        assert isinstance(choices, EntryFeatures)
        return MixedFeatures(choices, numbers.shape[0]) if numbers.shape[0] else choices
    if isinstance(space, MultiDiscrete):
        keys = jax.random.split(key, len(space.sizes))
        return EntryFeatures(
            tuple(action_features(k, Discrete(n), kind) for k, n in zip(keys, space.sizes, strict=True))
        )
    if not isinstance(space, Discrete):
        return Flat((math.prod(space.shape),) if isinstance(space, Box) else ())
    if kind == "feature-vector":
        return OneHot(space.n)
    return Embedding.new(key, space.n, EMBEDDING_SIZE if kind == "categorical" else 1)


def observation_features(key: PRNGKeyArray, space: Space, *, normalise: bool = False) -> Features:
    """phi(o)."""
    if kind_of(space) == "gridverse":
        assert isinstance(space, Record)
        grid = space["grid"]
        assert isinstance(grid, Indices)
        return Parts(("grid",), (Indexed(key, grid),))  # the agent carries nothing, so the item says nothing
    return state_features(key, space, normalise=normalise)


def state_features(key: PRNGKeyArray, space: Space, *, normalise: bool = False) -> Features:
    """phi(s), also for privileged signals other than the whole state.

    `normalise`: whether numbers and one-hot symbols are normalised by their mean and spread so far; see `Normalised`
    and `SymbolFeatures`.
    """
    if isinstance(space, Discrete):
        return Embedding.new(key, space.n, EMBEDDING_SIZE, blank=space.blank)
    if isinstance(space, Simplex):
        return Expected(Embedding.new(key, space.shape[0], EMBEDDING_SIZE))
    if isinstance(space, MultiDiscrete):
        keys = jax.random.split(key, len(space.sizes))
        return EntryFeatures(tuple(state_features(k, Discrete(n)) for k, n in zip(keys, space.sizes, strict=True)))
    if isinstance(space, Box):
        return Normalised(space.shape) if normalise else Flat(space.shape)
    if isinstance(space, Image):
        return PictureFeatures(key, space)
    if isinstance(space, Indices):
        return SymbolFeatures(key, space) if normalise and SymbolFeatures.can_read(space) else Indexed(key, space)
    if {"grid", "agent", "agent_id_grid"} <= set(dict(space.items())):
        return GridState(key, space)
    keys = jax.random.split(key, len(space.fields))
    names, parts = zip(*space.items(), strict=True)
    return Parts(
        names, tuple(state_features(k, part, normalise=normalise) for k, part in zip(keys, parts, strict=True))
    )
