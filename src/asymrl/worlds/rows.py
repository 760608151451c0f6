"""Sparse rows of probabilities: the transition and observation tables of finite worlds."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray


class Rows(eqx.Module):
    """A table of categorical distributions, one per row, stored by their non-zero entries.

    Memory and time grow with the non-zeros. Where every row has a single entry, drawing is one look-up and
    uses no randomness, which is what makes the paper's finite worlds fast.
    """

    first: Int[Array | np.ndarray, "offsets"]  # entries of row i stand at first[i] .. first[i + 1] - 1
    column: Int[Array | np.ndarray, "entries"]
    probability: Float[Array | np.ndarray, "entries"]
    cumulative: Float[Array | np.ndarray, "entries"]  # within each row, ending in exactly 1
    columns: int = eqx.field(static=True)
    longest: int = eqx.field(static=True)  # entries of the longest row
    uniform: bool = eqx.field(static=True)  # whether the entries of a row are all equally likely

    def __init__(
        self,
        first: Int[np.ndarray, "offsets"],
        column: Int[np.ndarray, "entries"],
        probability: Float[np.ndarray, "entries"],
        columns: int,
    ):
        # An entry of probability 0 must never be drawn, so it is not kept.
        possible = np.asarray(probability) != 0
        self.first = np.concatenate([[0], np.cumsum(possible)])[first].astype(np.int32)
        self.column = np.asarray(column, np.int32)[possible]
        self.probability = np.asarray(probability, np.float64)[possible]
        self.columns = columns
        lengths = np.diff(self.first)
        self.longest = int(lengths.max())
        self.uniform = bool(np.allclose(self.probability * np.repeat(lengths, lengths), 1.0, rtol=1e-12, atol=0))
        totals = np.cumsum(self.probability)
        before = np.concatenate([[0.0], totals])[self.first[:-1]]
        cumulative = (totals - np.repeat(before, lengths)).astype(np.float32)
        cumulative[self.first[1:][lengths > 0] - 1] = 1.0
        self.cumulative = cumulative

    @classmethod
    def deterministic(cls, column: Int[np.ndarray, "..."], columns: int) -> Rows:
        """Row i always gives `column[i]`; several axes become rows in C order."""
        flat = np.asarray(column, np.int32).reshape(-1)
        return cls(np.arange(flat.size + 1, dtype=np.int32), flat, np.ones(flat.size), columns)

    @classmethod
    def from_dense(cls, table: Float[np.ndarray, "... columns"]) -> Rows:
        """From an array of probabilities; leading axes become rows in C order."""
        flat = np.asarray(table, np.float64).reshape(-1, np.shape(table)[-1])
        row, column = np.nonzero(flat)
        return cls.from_entries(row, column, flat[row, column], flat.shape[0], flat.shape[1])

    @classmethod
    def from_entries(
        cls,
        row: Int[np.ndarray, "entries"],
        column: Int[np.ndarray, "entries"],
        probability: Float[np.ndarray, "entries"],
        rows: int,
        columns: int,
    ) -> Rows:
        """From coordinates in any order."""
        order = np.argsort(row, kind="stable")
        first = np.searchsorted(row[order], np.arange(rows + 1)).astype(np.int32)
        return cls(first, column[order].astype(np.int32), probability[order], columns)

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, column and probability of each entry."""
        row = np.repeat(np.arange(self.rows), np.diff(np.asarray(self.first)))
        return row, np.asarray(self.column), np.asarray(self.probability)

    @property
    def rows(self) -> int:
        return self.first.shape[0] - 1

    def dense(self, dtype: type = np.float32) -> Float[np.ndarray, "rows columns"]:
        """The full array."""
        row, column, probability = self.entries()
        table = np.zeros((self.rows, self.columns), dtype)
        np.add.at(table, (row, column), probability.astype(dtype))
        return table

    def sums(self) -> Float[np.ndarray, "rows"]:
        """The sum of each row, 0 for a row without entries."""
        row, _, probability = self.entries()
        return np.bincount(row, probability, minlength=self.rows).astype(np.float64)  # without entries it counts

    def draw(self, key: PRNGKeyArray, row: Int[Array, ""]) -> Int[Array, ""]:
        """Draws a column from a row: by bisection of its cumulative probabilities, or directly where they are equal."""
        column = jnp.asarray(self.column)
        if self.longest == 1:
            return column[row]
        cumulative, first = jnp.asarray(self.cumulative), jnp.asarray(self.first)
        u = jax.random.uniform(key)
        if self.uniform:
            count = first[row + 1] - first[row]
            return column[first[row] + (u * count).astype(jnp.int32)]
        low, high = first[row], first[row + 1] - 1
        # The entry wanted is the first whose cumulative probability exceeds u; the last one always does.
        for _ in range((self.longest - 1).bit_length()):
            middle = (low + high) // 2
            beyond = cumulative[middle] <= u
            low, high = jnp.where(beyond, jnp.minimum(middle + 1, high), low), jnp.where(beyond, high, middle)
        return column[low]
