"""phi(s) of a grid with an agent in it."""

from __future__ import annotations

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from asymrl.nn.layers import Embedding, Features, Mlp, convolution_weights
from asymrl.worlds.spaces import (
    Indices,
    Place,
    Record,
)

PLANES = 4  # of a grid: types, states, colours and the agent's cell
CHANNELS = (32, 64, 64)  # of the three convolutions over a grid
AGENT_SIZE = 6  # numbers for the agent's place and heading
ALIGNMENT = 4  # numbers that a GPU can read at a time, if the next layer has a multiple of them as inputs


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

    def __call__(self, latent: dict[str, Any]) -> Float[Array, "*batch size"]:
        return self._with_zeros(latent, 0)

    def project(self, value: dict[str, Any], weight: Float[Array, "inputs width"]) -> Float[Array, "*batch width"]:
        """The features times a matrix, which may have rows for zeros: see `aligned`."""
        return self._with_zeros(value, weight.shape[0] - self.size) @ weight

    def _with_zeros(self, latent: dict[str, Any], zeros: int) -> Float[Array, "*batch inputs"]:
        return jnp.concatenate(
            [agent_numbers(latent, zeros), self.seen(latent["grid"], latent["agent_id_grid"])], axis=-1
        )

    def seen(self, grid: Array, marked: Array) -> Float[Array, "*batch channels"]:
        """The output of the convolutions for a grid `[..., H, W, 3]` and the agent's cell in it, `[..., H, W]`."""
        embedded = self.embedding(grid.astype(jnp.int32))[..., 0]
        planes = jnp.concatenate([embedded, marked.astype(jnp.float32)[..., None]], axis=-1)
        leading = planes.shape[:-3]
        planes = planes.reshape(-1, *planes.shape[-3:])
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            planes = jax.nn.relu(convolution(planes, kernel, bias))
        return planes.reshape(*leading, self.size - AGENT_SIZE)


def convolve(
    planes: Float[Array, "*batch H W inputs"], kernel: Float[Array, "taps outputs"]
) -> Float[Array, "*batch H W outputs"]:
    """A 3 x 3 convolution with zero padding, as a product with the neighbourhoods.

    With separate weights for each run, a convolution would become a grouped one, which is very slow.
    """
    H, W = planes.shape[-3:-1]
    padded = jnp.pad(planes, [(0, 0)] * (planes.ndim - 3) + [(1, 1), (1, 1), (0, 0)])
    taps = [padded[..., i : i + H, j : j + W, :] for i in range(3) for j in range(3)]
    return jnp.concatenate(taps, axis=-1) @ kernel


def convolution(
    planes: Float[Array, "*batch H W inputs"], kernel: Float[Array, "taps outputs"], bias: Float[Array, "outputs"]
) -> Float[Array, "*batch H W outputs"]:
    """A convolution and its bias, before the ReLU."""
    y = convolve(planes, kernel)
    return y + jnp.broadcast_to(bias, y.shape)


def agent_numbers(latent: dict[str, Any], zeros: int) -> Float[Array, "*batch numbers"]:
    """The agent's place and heading, and zeros."""
    agent = latent["agent"]
    return jnp.concatenate([agent, jnp.zeros((*agent.shape[:-1], zeros))], axis=-1)


def aligned(head: Mlp, others: int) -> Mlp:
    """The same function of `others` and a grid's features, with zeros as further inputs.

    They make the inputs a multiple of what a GPU reads at a time.
    """
    weight = head.layers[0].weight
    first, zeros = zero_rows(weight.shape[0], others)
    if not zeros:
        return head
    wider = jnp.insert(weight, np.full(zeros, first), 0.0, axis=0)
    return eqx.tree_at(lambda mlp: mlp.layers[0].weight, head, wider)


def zero_rows(inputs: int, others: int) -> tuple[int, int]:
    """Where a matrix of so many `inputs`, of which `others` are not of the grid, gets rows of zeros, and how many."""
    return others + AGENT_SIZE, -inputs % ALIGNMENT
