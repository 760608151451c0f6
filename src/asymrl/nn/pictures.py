"""Convolutional features of pictures, in a stack that fits their size."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from asymrl.nn.layers import Features, convolution_weights, product
from asymrl.worlds.spaces import Image

LARGEST_SIDE = 128  # pictures whose smaller side is at least this are first shrunk by averaging 2 x 2 pixels
FEW_CELLS = 10  # up to this smaller side, the last of three convolutions has stride 1


class ConvolutionLayer(NamedTuple):
    """A convolution without padding."""

    channels: int
    width: int
    """Of the square kernel."""
    stride: int

    def cells(self, side: int) -> int:
        """The length of a side after the convolution."""
        return (side - self.width) // self.stride + 1


class ConvolutionStack(NamedTuple):
    """How often a picture is halved, and the convolutions over what is left."""

    halvings: int
    layers: tuple[ConvolutionLayer, ...]

    def sides(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Height and width of the output."""
        height, width = (side >> self.halvings for side in shape[:2])
        for each in self.layers:
            height, width = each.cells(height), each.cells(width)
        return height, width


def stack_for(shape: tuple[int, ...]) -> ConvolutionStack:
    """The convolutions for pictures `[height, width, channels]`, by their smaller side.

    For 84 pixels they are those of Mnih et al. (2015); smaller pictures have smaller kernels.
    """
    side, halvings = min(shape[:2]), 0
    while side >= LARGEST_SIDE:
        side, halvings = side // 2, halvings + 1
    if side < 12:
        return ConvolutionStack(halvings, (ConvolutionLayer(32, 3, 1), ConvolutionLayer(64, 3, 1)))
    if side < 24:
        return ConvolutionStack(halvings, (ConvolutionLayer(32, 3, 2), ConvolutionLayer(64, 3, 2)))
    first = (8, 4) if side >= 64 else (4, 2)
    layers = [ConvolutionLayer(32, *first), ConvolutionLayer(64, *((4, 2) if side >= 64 else (3, 2)))]
    side_cells = layers[1].cells(layers[0].cells(side))
    return ConvolutionStack(halvings, (*layers, ConvolutionLayer(64, 3, 1 if side_cells <= FEW_CELLS else 2)))


class PictureFeatures(Features):
    """A picture of bytes: divided by 255, convolutions with a ReLU after each, then flattened."""

    kernels: tuple[Float[Array, "_ _"], ...]  # [taps * inputs, outputs], the taps row by row
    biases: tuple[Float[Array, "_"], ...]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, space: Image):
        self.shape, inputs = space.shape, space.shape[2]
        layers = self.stack.layers
        keys = jax.random.split(key, 2 * len(layers))
        sizes = []
        for each in layers:
            sizes.append((each.width**2 * inputs, each.channels))
            inputs = each.channels
        self.kernels, self.biases = convolution_weights(keys, sizes)

    @property
    def stack(self) -> ConvolutionStack:
        return stack_for(self.shape)

    @property
    def size(self) -> int:
        height, width = self.stack.sides(self.shape)
        return height * width * self.stack.layers[-1].channels

    def __call__(self, value: UInt8[Array, "*batch H W C"]) -> Float[Array, "*batch size"]:
        leading = value.shape[:-3]
        x = value.reshape(-1, *self.shape).astype(jnp.float32) / 255
        for _ in range(self.stack.halvings):
            x = halved(x)
        for each, kernel, bias in zip(self.stack.layers, self.kernels, self.biases, strict=True):
            y = product(patches(x, each), kernel)
            x = jax.nn.relu(y + jnp.broadcast_to(bias, y.shape))
        return x.reshape(*leading, self.size)


def halved(x: Float[Array, "n H W C"]) -> Float[Array, "n h w C"]:
    """Means over 2 x 2 pixels; an odd last row or column is left out."""
    n, height, width, channels = x.shape
    even = x[:, : height // 2 * 2, : width // 2 * 2]
    return even.reshape(n, height // 2, 2, width // 2, 2, channels).mean((2, 4))


def patches(x: Float[Array, "n H W C"], layer: ConvolutionLayer) -> Float[Array, "n h w taps"]:
    """What the kernel covers at each place, so that the convolution is one product.

    With separate weights for each run, a convolution would become a grouped one, which is very slow.
    """
    height, width = (layer.cells(side) for side in x.shape[1:3])
    s = layer.stride
    taps = [
        x[:, i : i + s * (height - 1) + 1 : s, j : j + s * (width - 1) + 1 : s]
        for i in range(layer.width)
        for j in range(layer.width)
    ]
    return jnp.concatenate(taps, axis=-1)
