"""The long short-term memory, with a custom gradient over a whole sequence; see `gru` for the reasons."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from asymrl.nn.layers import uniform_within
from asymrl.nn.memory import Memory, kept


class Lstm(Memory):
    """A long short-term memory; gates in the order input, forget, cell, output."""

    input_weight: Float[Array, "inputs gates"]
    hidden_weight: Float[Array, "size gates"]
    bias: Float[Array, "gates"]
    size: int = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, inputs: int, size: int):
        keys = jax.random.split(key, 3)
        bound, width = size**-0.5, 4 * size
        self.input_weight = uniform_within(keys[0], inputs, width, bound=bound)
        self.hidden_weight = uniform_within(keys[1], size, width, bound=bound)
        self.bias = uniform_within(keys[2], width, bound=bound)
        self.size = size

    def projection(self) -> tuple[Float[Array, "inputs gates"], Float[Array, "gates"]]:
        return self.input_weight, self.bias

    def initial(self, episodes: int) -> tuple[Array, Array]:
        return jnp.zeros((episodes, self.size)), jnp.zeros((episodes, self.size))

    def advance(
        self, carry: tuple[Array, Array], projected: Float[Array, "episode gates"]
    ) -> tuple[tuple[Array, Array], Float[Array, "episode size"]]:
        cells, _ = lstm_gates(projected, Cells(*carry), self.hidden_weight)
        return (cells.h, cells.c), cells.h

    def follow_from(
        self,
        carry: tuple[Array, Array],
        first: Bool[Array, "time stream"],
        projected: Float[Array, "time stream gates"],
    ) -> tuple[tuple[Array, Array], Float[Array, "time stream size"]]:
        keep = 1.0 - first.astype(projected.dtype)
        hs, last = lstm_sequence(projected, self.hidden_weight, Cells(*carry), keep)
        return (hs[-1], last), hs


class Cells(NamedTuple):
    """What is remembered: the output h and the cell c."""

    h: Float[Array, "*time stream size"]
    c: Float[Array, "*time stream size"]


class LstmGates(NamedTuple):
    """The values inside the unit, kept for the backward pass."""

    input_gate: Float[Array, "*time stream size"]
    forget_gate: Float[Array, "*time stream size"]
    new: Float[Array, "*time stream size"]
    output_gate: Float[Array, "*time stream size"]
    squashed: Float[Array, "*time stream size"]  # tanh of the cell


def lstm_gates(
    projected: Float[Array, "stream gates"], before: Cells, weight: Float[Array, "size gates"]
) -> tuple[Cells, LstmGates]:
    """One step: the next cells and the gates, from the projected input and the cells before."""
    i, f, g, o = jnp.split(projected + before.h @ weight, 4, axis=-1)
    i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
    c = f * before.c + i * g
    squashed = jnp.tanh(c)
    return Cells(o * squashed, c), LstmGates(i, f, g, o, squashed)


@jax.custom_vjp
def lstm_sequence(
    projected: Float[Array, "time stream gates"],
    weight: Float[Array, "size gates"],
    start: Cells,
    keep: Float[Array, "time stream"],
) -> tuple[Float[Array, "time stream size"], Float[Array, "stream size"]]:
    """The output after each input, and the last cell.

    Args:
        projected: the inputs' part of the gates.
        weight: of the memory's part of the gates.
        start: what is remembered before the first input; it gets no gradient.
        keep: 0 where an episode begins, so that the memory is emptied first, else 1.
    """
    cells, _ = _forward_steps(projected, weight, start, keep)
    return cells.h, cells.c[-1]


def _forward_steps(projected: Array, weight: Array, start: Cells, keep: Array) -> tuple[Cells, LstmGates]:
    def step(previous: Cells, at: tuple[Array, Array]) -> tuple[Cells, tuple[Cells, LstmGates]]:
        x, keep = at
        previous = Cells(kept(previous.h, keep), kept(previous.c, keep))
        cells, gates = lstm_gates(x, previous, weight)
        return cells, (cells, gates)

    return jax.lax.scan(step, start, (projected, keep))[1]


def _forward(projected: Array, weight: Array, start: Cells, keep: Array) -> tuple[tuple[Array, Array], tuple]:
    cells, gates = _forward_steps(projected, weight, start, keep)
    previous = jax.tree.map(lambda first, later: kept(jnp.concatenate([first[None], later[:-1]]), keep), start, cells)
    return (cells.h, cells.c[-1]), (gates, previous, weight, start, keep)


def _backward(saved: tuple, gradient: tuple[Array, Array]) -> tuple[Array, Array, Cells, Array]:
    gates, previous, weight, start, keep = saved
    # Without the barrier, the compiler would transpose again in each step.
    transposed = jax.lax.optimization_barrier(weight.T)

    def step(flow: Cells, at: tuple[Array, LstmGates, Array, Array]) -> tuple[Cells, Array]:
        from_above, (i, f, g, o, squashed), c, keep = at
        dh = flow.h + from_above
        dc = flow.c + dh * o * (1 - squashed * squashed)
        parts = dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g), dh * squashed * o * (1 - o)
        d_gates = jnp.concatenate(parts, axis=-1)
        return Cells(kept(d_gates @ transposed, keep), kept(dc * f, keep)), d_gates

    from_above, last = gradient
    end = Cells(jnp.zeros_like(last), last)
    d_projected = jax.lax.scan(step, end, (from_above, gates, previous.c, keep), reverse=True)[1]
    size, width = weight.shape
    d_weight = previous.h.reshape(-1, size).T @ d_projected.reshape(-1, width)
    return d_projected, d_weight, jax.tree.map(jnp.zeros_like, start), jnp.zeros_like(keep)


lstm_sequence.defvjp(_forward, _backward)
