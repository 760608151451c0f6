"""The few layers that all models are made of. They accept any leading axes."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from asymrl.kernels.attach import replaceable

LARGE_VOCABULARY = 256  # beyond this, a table of products takes longer to read than the matrix itself


@jax.custom_vjp
def product(x: Float[Array, "*batch inputs"], weight: Float[Array, "inputs outputs"]) -> Float[Array, "*batch outputs"]:
    """`x @ weight`. By default, the gradient of the weight would be transposed after it is computed."""
    return x @ weight


def _product_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ weight, (x, weight)


def _product_backward(saved: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, weight = saved
    rows, of_rows = x.reshape(-1, x.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
    of_x = jax.lax.platform_dependent(of_rows, weight, cpu=_transposed_twice, default=lambda g, w: g @ w.T)
    return of_x.reshape(x.shape), rows.T @ of_rows


def _transposed_twice(gradient: Array, weight: Array) -> Array:
    # On a CPU the compiler copies what it transposes: better the few rows than the matrix.
    return jax.lax.dot_general(weight, gradient, (((1,), (1,)), ((), ()))).T


product.defvjp(_product_forward, _product_backward)


def uniform_within(key: PRNGKeyArray, *shape: int, bound: float) -> Array:
    """Uniform numbers between -bound and bound."""
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def convolution_weights(
    keys: Sequence[PRNGKeyArray] | PRNGKeyArray, sizes: Sequence[tuple[int, int]]
) -> tuple[tuple[Float[Array, "_ _"], ...], tuple[Float[Array, "_"], ...]]:
    """Kernels `[inputs, outputs]` and biases of a stack of convolutions, from two keys per layer.

    `sizes`: for each layer, how many inputs an output is computed from, and how many outputs there are.
    """
    kernels, biases = [], []
    for i, (inputs, outputs) in enumerate(sizes):
        bound = inputs**-0.5  # the usual default of convolutions: uniform, by the number of inputs
        kernels.append(uniform_within(keys[2 * i], inputs, outputs, bound=bound))
        biases.append(uniform_within(keys[2 * i + 1], outputs, bound=bound))
    return tuple(kernels), tuple(biases)


class Linear(eqx.Module):
    """`x @ weight + bias`, initialised as in the authors' code: Xavier normal weights, zero bias."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, "outputs"]

    def __init__(self, key: PRNGKeyArray, inputs: int, outputs: int, *, gain: float = 1.0):
        spread = gain * (2.0 / (inputs + outputs)) ** 0.5
        self.weight = spread * jax.random.normal(key, (inputs, outputs))
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        y = product(x, self.weight)
        return y + jnp.broadcast_to(self.bias, y.shape)


class Mlp(eqx.Module):
    """Linear layers with a ReLU after each but the last; gain sqrt(2) where a ReLU follows."""

    layers: tuple[Linear, ...]

    def __init__(self, key: PRNGKeyArray, inputs: int, hidden: Sequence[int], outputs: int):
        sizes = [inputs, *hidden, outputs]
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [2.0**0.5] * len(hidden) + [1.0]
        self.layers = tuple(
            Linear(k, i, o, gain=g) for k, i, o, g in zip(keys, sizes[:-1], sizes[1:], gains, strict=True)
        )

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


class Features(eqx.Module):
    """A function from values of a space, with any leading axes, to `size` numbers each."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many numbers."""

    @abc.abstractmethod
    def __call__(self, value: Any, /) -> Float[Array, "..."]:
        """The features."""

    def measured(self, value: Any) -> list[Float[Array, "..."]]:
        """The numbers in the value whose mean and spread are measured: none, unless the features are normalised."""
        return []

    def project(self, value: Any, weight: Float[Array, "size width"]) -> Float[Array, "..."]:
        """The features times a matrix. Cheaper where the features are rows of a table: then so are the products."""
        return self(value) @ weight

    def project_beside(
        self,
        others: Float[Array, "*batch others"] | None,
        value: Any,
        weight: Float[Array, "inputs width"],
    ) -> Float[Array, "*batch width"]:
        """Other numbers, if any, and the features side by side, times a matrix."""
        # Split, not sliced: the gradient of a split is assembled without additions.
        of_others, of_features = jnp.split(weight, [0 if others is None else others.shape[-1]])
        projected = self.project(value, of_features)
        return projected if others is None else product(others, of_others) + projected

    def prepared(self, weight: Float[Array, "size width"]) -> Features:
        """`project` with this matrix as a separate function, for many single values one after another."""
        return Product(self, weight)


@replaceable
def project_episodes(
    phi: Features,
    others: Float[Array, "time episode others"] | None,
    value: Any,
    weight: Float[Array, "inputs width"],
) -> Float[Array, "time episode width"]:
    """`Features.project_beside` for whole episodes; the values after the end of an episode do not matter."""
    return phi.project_beside(others, value, weight)


class Product(Features):
    """Features times a matrix."""

    features: Features
    weight: Float[Array, "inputs width"]

    @property
    def size(self) -> int:
        return self.weight.shape[1]

    def __call__(self, value: Any, /) -> Float[Array, "..."]:
        return self.features(value) @ self.weight


class Embedding(Features):
    """A vector for each index. With `blank`, the last index is a symbol without content: always zero, never trained."""

    table: Float[Array, "n size"]
    blank: bool = eqx.field(static=True)

    def __init__(self, table: Float[Array, "n size"], *, blank: bool = False):
        self.table, self.blank = table, blank

    @classmethod
    def new(cls, key: PRNGKeyArray, n: int, size: int, *, blank: bool = False) -> Embedding:
        """Normally distributed vectors, as in the authors' code."""
        table = jax.random.normal(key, (n, size))
        return cls(table.at[-1].set(0.0) if blank else table, blank=blank)

    @property
    def size(self) -> int:
        return self.table.shape[1]

    def vectors(self) -> Float[Array, "n size"]:
        """The vectors in use; that of a blank symbol is zero and passes no gradient."""
        if not self.blank:
            return self.table
        return jnp.concatenate([self.table[:-1], jnp.zeros((1, self.size))])

    def __call__(self, index: Int[Array, "*batch"]) -> Float[Array, "*batch size"]:
        return look_up(self.vectors(), index)

    def project(self, value: Int[Array, "*batch"], weight: Float[Array, "size width"]) -> Float[Array, "*batch width"]:
        # A few values of a large vocabulary are better multiplied one by one.
        if value.size < self.table.shape[0]:
            return self(value) @ weight
        return look_up(self.vectors() @ weight, value)

    def prepared(self, weight: Float[Array, "size width"]) -> Features:
        if self.table.shape[0] > LARGE_VOCABULARY:
            return Product(self, weight)
        return Embedding(self.vectors() @ weight)


@jax.custom_vjp
def look_up(table: Float[Array, "n size"], index: Int[Array, "*batch"]) -> Float[Array, "*batch size"]:
    """Rows of a table. The gradient is a product with one-hot indices: scattering with a table per run is slow."""
    return table[index]


def _look_up_forward(table: Array, index: Array) -> tuple[Array, tuple[Array, int]]:
    return table[index], (index, table.shape[0])


def _look_up_backward(saved: tuple[Array, int], gradient: Array) -> tuple[Array, None]:
    index, n = saved
    hot = jax.nn.one_hot(index.reshape(-1), n, dtype=gradient.dtype)
    return hot.T @ gradient.reshape(-1, gradient.shape[-1]), None


look_up.defvjp(_look_up_forward, _look_up_backward)
