"""phi(h): what an agent or a critic remembers of the actions and observations so far.

A memory is used in three equivalent ways: one input at a time while acting (`initial`, `advance`), over a whole
episode while learning (`follow`), and over pieces of streams in which one episode follows another (`follow_from`).
Arrays are `[time, episode, ...]`; the axis of runs comes from `vmap`.
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

Carry = PyTree[Any]


class Memory(eqx.Module):
    """A causal function of a sequence of inputs.

    Every memory first multiplies its inputs with a matrix. That part, `project`, is separate because the caller
    may have a cheaper way to do it: features that are rows of a table need no product at all.
    """

    size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def projection(self) -> tuple[Float[Array, "inputs width"], Float[Array, "width"]]:
        """The matrix and the bias that are applied to inputs first."""

    @abc.abstractmethod
    def initial(self, episodes: int) -> Carry:
        """What is remembered before the first input."""

    @abc.abstractmethod
    def advance(
        self, carry: Carry, projected: Float[Array, "episode width"]
    ) -> tuple[Carry, Float[Array, "episode size"]]:
        """Takes in one more projected input."""

    def follow(
        self, projected: Float[Array, "time episode width"], inputs: Int[Array, ""] | None = None
    ) -> Float[Array, "time episode size"]:
        """The feature after each projected input, from an empty memory.

        `inputs`: how many of them matter, if not all; the features of the others may be any finite numbers.
        """
        del inputs
        # Not the bound method itself: JAX would hash it, and traced parameters have no hash.
        return jax.lax.scan(lambda carry, x: self.advance(carry, x), self.initial(projected.shape[1]), projected)[1]

    def follow_again(
        self,
        projected: Float[Array, "time episode width"],
        features: Float[Array, "time episode size"],
        inputs: Int[Array, ""] | None = None,
    ) -> Float[Array, "time episode size"]:
        """`follow`, whose values are known already; only gradients remain to be computed.

        A memory for which that saves nothing computes the values again.
        """
        del features
        return self.follow(projected, inputs)

    def begin_streams(self, streams: int) -> Carry:
        """What `follow_from` carries before the very first input; it may differ from what `advance` carries.

        The axis of streams comes first.
        """
        return self.initial(streams)

    def follow_from(
        self, carry: Carry, first: Bool[Array, "time stream"], projected: Float[Array, "time stream width"]
    ) -> tuple[Carry, Float[Array, "time stream size"]]:
        """The next carry, and the feature after each projected input of a piece of streams.

        `first` marks the inputs with which an episode begins: the memory is emptied before it takes them in. No
        gradient reaches `carry`.
        """
        carry = jax.lax.stop_gradient(carry)
        return jax.lax.scan(lambda carry, at: self.advance_from(carry, *at), carry, (first, projected), unroll=2)

    def advance_from(
        self, carry: Carry, first: Bool[Array, "stream"], projected: Float[Array, "stream width"]
    ) -> tuple[Carry, Float[Array, "stream size"]]:
        """`follow_from` for a single input of each stream."""

        def renewed(empty: Array, old: Array) -> Array:
            return jnp.where(jnp.broadcast_to(first[:, None], old.shape), empty, old)

        return self.advance(jax.tree.map(renewed, self.initial(first.shape[0]), carry), projected)

    def follow_with_next(
        self,
        carry: Carry,
        first: Bool[Array, "time stream"],
        projected: Float[Array, "time stream width"],
        following: Float[Array, "time stream width"],
    ) -> tuple[Carry, Float[Array, "time stream size"], Float[Array, "time stream size"]]:
        """`follow_from`, and the feature after each of the `following` inputs, had it come right after that step.

        For the value where an episode was cut off. Not for use where a gradient is needed.
        """

        def step(carry: Carry, at: tuple[Array, Array, Array]) -> tuple[Carry, tuple[Array, Array]]:
            first, x, after = at
            carry, features = self.advance_from(carry, first, x)
            return carry, (features, self.advance_from(carry, jnp.zeros_like(first), after)[1])

        carry, (features, after) = jax.lax.scan(step, carry, (first, projected, following))
        return carry, features, after

    def project(self, xs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch width"]:
        """Inputs times the matrix, plus the bias."""
        weight, bias = self.projection()
        y = xs @ weight
        return y + jnp.broadcast_to(bias, y.shape)

    def step(self, carry: Carry, x: Float[Array, "episode inputs"]) -> tuple[Carry, Float[Array, "episode size"]]:
        """Takes in one more input."""
        return self.advance(carry, self.project(x))

    def sequence(self, xs: Float[Array, "time episode inputs"]) -> Float[Array, "time episode size"]:
        """The feature after each input, from an empty memory."""
        return self.follow(self.project(xs))


def inputs_of_episode(age: Int[Array, "stream"], first: Bool[Array, "time stream"]) -> Int[Array, "time stream"]:
    """How many inputs the current episode has had at each time, this one included; `age` before the first."""

    def older(age: Array, first: Array) -> tuple[Array, Array]:
        age = jnp.where(first, 1, age + 1)
        return age, age

    return jax.lax.scan(older, age, first)[1]


def one_step(
    memory: Memory, carry: Carry, first: Bool[Array, "stream"], projected: Float[Array, "stream width"]
) -> tuple[Carry, Float[Array, "stream size"]]:
    """`advance_from`, by means of `follow_from`."""
    carry, features = memory.follow_from(carry, first[None], projected[None])
    return carry, features[0]
