"""phi(s) of a grid with an agent in it."""

from __future__ import annotations

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from asymrl.models.grid_product import grid_product, visits
from asymrl.models.grid_windows import Convolutions, layer
from asymrl.models.layers import Embedding, Features, convolution_weights
from asymrl.worlds.spaces import (
    Indices,
    Place,
    Record,
)

PLANES = 4  # of a grid: types, states, colours and the agent's cell
CHANNELS = (32, 64, 64)  # of the three convolutions over a grid
NUMBERS, ZEROS = 6, 2  # of the agent's place and heading, and beside them
# With the zeros the next layer has a multiple of four inputs: a GPU can read four numbers at a time.
AGENT_SIZE = NUMBERS + ZEROS


class GridState(Features):
    """A whole grid with the agent in it: three convolutions over the embedded grid, then the agent's place and heading.

    One number per index, the same for types, states and colours, makes three planes; the agent's cell is a fourth.
    """

    embedding: Embedding
    kernels: tuple[Float[Array, "_ _"], ...]  # [9 * inputs, outputs], the 3 x 3 neighbourhood first
    biases: tuple[Float[Array, "_"], ...]
    shape: tuple[int, int] = eqx.field(static=True)
    place: Place | None = eqx.field(static=True)  # where the agent may be, if nothing else moves

    def __init__(self, key: PRNGKeyArray, space: Record):
        grid, place = space["grid"], space["agent_id_grid"]
        assert isinstance(grid, Indices)
        self.shape = (grid.shape[0], grid.shape[1])
        self.place = place if isinstance(place, Place) and grid.fixed else None
        embedding_key, *keys = jax.random.split(key, 1 + 2 * len(CHANNELS))
        self.embedding = Embedding.new(embedding_key, grid.n, 1)
        sizes = [(9 * inputs, outputs) for inputs, outputs in itertools.pairwise((PLANES, *CHANNELS))]
        self.kernels, self.biases = convolution_weights(keys, sizes)

    @property
    def size(self) -> int:
        return AGENT_SIZE + self.shape[0] * self.shape[1] * CHANNELS[-1]

    @property
    def zeros(self) -> tuple[int, int]:
        return NUMBERS, ZEROS

    def __call__(self, latent: dict[str, Any]) -> Float[Array, "*batch size"]:
        return jnp.concatenate([_agent(latent), self.seen(latent["grid"], latent["agent_id_grid"])], axis=-1)

    def seen(self, grid: Array, marked: Array) -> Float[Array, "*batch channels"]:
        """The output of the convolutions for a grid `[..., H, W, 3]` and the agent's cell in it, `[..., H, W]`."""
        embedded = self.embedding(grid.astype(jnp.int32))[..., 0]
        planes = jnp.concatenate([embedded, marked.astype(jnp.float32)[..., None]], axis=-1)
        leading = planes.shape[:-3]
        planes = planes.reshape(-1, *planes.shape[-3:])
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            planes = jax.nn.relu(layer(planes, kernel, bias))
        return planes.reshape(*leading, self.size - AGENT_SIZE)

    def project_beside(
        self,
        others: Float[Array, "*batch others"] | None,
        value: dict[str, Any],
        weight: Float[Array, "inputs width"],
        *,
        whole_episodes: bool,
    ) -> Float[Array, "*batch width"]:
        """If only the agent moves, an episode has at most one grid per visited cell."""
        marked = value["agent_id_grid"]
        if self.place is None or marked.ndim != 4 or not whole_episodes:
            return super().project_beside(others, value, weight, whole_episodes=whole_episodes)
        T, E, H, W = marked.shape
        inner = self.place.inner(marked).reshape(T, E, -1) > 0
        cells = self.place.inner(np.arange(H * W).reshape(H, W)).reshape(-1)
        grids = self.embedding(value["grid"][0].astype(jnp.int32))[..., 0]
        beside = _agent(value) if others is None else jnp.concatenate([others, _agent(value)], axis=-1)
        convolutions = Convolutions(self.kernels, self.biases)
        read = grid_product(convolutions, weight, grids, beside.reshape(T * E, -1), visits(inner, cells))
        return read.reshape(T, E, -1)


def _agent(latent: dict[str, Any]) -> Float[Array, "*batch size"]:
    """The agent's place and heading, and the zeros beside them."""
    agent = latent["agent"]
    return jnp.concatenate([agent, jnp.zeros((*agent.shape[:-1], ZEROS))], axis=-1)


def with_room_for_zeros(weights: np.ndarray, history: int) -> np.ndarray:
    """The first layer of runs `[run, inputs, ...]` whose features had no zeros; `history` features come before them."""
    at = history + NUMBERS
    return np.insert(weights, [at] * ZEROS, 0, axis=1)
