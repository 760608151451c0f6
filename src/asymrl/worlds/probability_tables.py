"""The tables of finite worlds by their non-zero entries: to sample from, to check and to combine."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float64, Int, PRNGKeyArray

TOLERANCE = 1e-5  # how far the probabilities of one row may be from summing to one


class Rows(eqx.Module):
    """A table of categorical distributions, one per row, stored by their non-zero entries.

    Memory and time grow with the non-zeros. If every row has a single entry, drawing is one look-up without
    randomness, which makes the paper's finite worlds fast.
    """

    first: Int[Array | np.ndarray, "offsets"]  # row i has the entries first[i] .. first[i + 1] - 1
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
        # Entries of probability 0 are dropped, so that they are never drawn.
        possible = np.asarray(probability) != 0
        self.first = np.concatenate([[0], np.cumsum(possible)])[first].astype(np.int32)
        self.column = np.asarray(column, np.int32)[possible]
        self.probability = np.asarray(probability, np.float64)[possible]
        self.columns = columns
        lengths = np.diff(self.first)
        self.longest = int(lengths.max())
        self.uniform = bool(np.allclose(self.probability * np.repeat(lengths, lengths), 1.0, rtol=1e-12, atol=0))
        totals = np.cumsum(self.probability)
        offsets = np.concatenate([[0.0], totals])[self.first[:-1]]
        cumulative = (totals - np.repeat(offsets, lengths)).astype(np.float32)
        cumulative[self.first[1:][lengths > 0] - 1] = 1.0
        self.cumulative = cumulative

    @classmethod
    def deterministic(cls, column: Int[np.ndarray, "..."], columns: int) -> Rows:
        """Row i always gives `column[i]`; several axes become rows in C order."""
        flat = np.asarray(column, np.int32).reshape(-1)
        return cls(np.arange(flat.size + 1, dtype=np.int32), flat, np.ones(flat.size), columns)

    @classmethod
    def from_dense(cls, table: Float[np.ndarray, "... columns"]) -> Rows:
        """From an array of probabilities; the leading axes become rows in C order."""
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
        return np.bincount(row, probability, minlength=self.rows).astype(
            np.float64
        )  # without entries, bincount returns integers

    def draw(self, key: PRNGKeyArray, row: Int[Array, ""]) -> Int[Array, ""]:
        """Draws a column of a row: by bisection of the cumulative probabilities, or directly if all are equal."""
        column = jnp.asarray(self.column)
        if self.longest == 1:
            return column[row]
        cumulative, first = jnp.asarray(self.cumulative), jnp.asarray(self.first)
        u = jax.random.uniform(key)
        if self.uniform:
            count = first[row + 1] - first[row]
            return column[first[row] + (u * count).astype(jnp.int32)]
        low, high = first[row], first[row + 1] - 1
        # Searches for the first entry whose cumulative probability exceeds u; that of the last one always does.
        for _ in range((self.longest - 1).bit_length()):
            middle = (low + high) // 2
            beyond = cumulative[middle] <= u
            low, high = jnp.where(beyond, jnp.minimum(middle + 1, high), low), jnp.where(beyond, high, middle)
        return column[low]


class ProbabilityTable(NamedTuple):
    """A table whose rows must sum to one: what it holds, the axes of its rows, the rows and the sizes of the axes."""

    what: str
    axes: tuple[str, ...]
    rows: Rows
    shape: tuple[int, ...]

    def problem(self) -> str | None:
        """The first row that does not hold probabilities, and why; None if all rows do."""
        sums = self.rows.sums()
        negative = np.bincount(self.rows.entries()[0], self.rows.probability < 0, minlength=self.rows.rows) > 0
        wrong = np.flatnonzero(negative | ~(np.abs(sums - 1) <= TOLERANCE))  # NaN is wrong, too
        if not wrong.size:
            return None
        row = int(wrong[0])
        indices = zip(self.axes, np.unravel_index(row, self.shape), strict=True)
        where = ", ".join(f"{axis} {i}" for axis, i in indices) or "the first state"
        why = "hold a negative number" if negative[row] else f"sum to {sums[row]:.6g}, expected 1"
        return f"the {self.what} probabilities for {where} {why}"


def check_tables(
    name: str,
    S: int,
    A: int,
    O: int,
    transitions: Rows,
    observations: Rows,
    rewards: np.ndarray,
    ends: np.ndarray,
    start: np.ndarray,
    first_observations: Rows | None,
) -> None:
    """Raises ValueError, naming the offending row, unless the tables have matching sizes and hold probabilities."""
    if np.shape(rewards) != (S, A) or np.shape(ends) != (S, A):
        shapes = f"got {np.shape(rewards)} and {np.shape(ends)}"
        raise ValueError(f"world {name!r}: R and D must have shape ({S}, {A}), {shapes}")
    if not np.all(np.isfinite(rewards)):
        s, a = np.argwhere(~np.isfinite(rewards))[0]
        raise ValueError(f"world {name!r}: the reward for action {a} in state {s} is not finite")
    tables = [
        (ProbabilityTable("transition", ("state", "action"), transitions, (S, A)), S),
        (ProbabilityTable("observation", ("action", "next state"), observations, (A, S)), O),
        (ProbabilityTable("start", (), Rows.from_dense(np.asarray(start)[None]), ()), S),
    ]
    if first_observations is not None:
        tables.append((ProbabilityTable("first observation", ("state",), first_observations, (S,)), O))
    for table, columns in tables:
        size, expected = (table.rows.rows, table.rows.columns), (int(np.prod(table.shape)), columns)
        if size != expected:
            raise ValueError(f"world {name!r}: the {table.what} table has size {size}, expected {expected}")
        if problem := table.problem():
            raise ValueError(f"world {name!r}: {problem}")


def stay_at_the_end(transitions: Rows, ends: Bool[np.ndarray, "S A"]) -> Rows:
    """Makes actions that end the episode stay in their state; their rows in a file are about the next episode."""
    S, A = ends.shape
    row, column, probability = transitions.entries()
    goes_on = ~ends.ravel()[row]
    ending = np.flatnonzero(ends)
    return Rows.from_entries(
        np.concatenate([row[goes_on], ending]),
        np.concatenate([column[goes_on], ending // A]),
        np.concatenate([probability[goes_on], np.ones(ending.size)]),
        S * A,
        S,
    )


def with_end_rows(observations: Rows, start: Float[np.ndarray, "S"], ends: Bool[np.ndarray, "S A"]) -> Rows:
    """Adds to each action the row "after the end": the observations of a state drawn from the start distribution."""
    S, A = ends.shape
    row, column, probability = observations.entries()
    a, s = np.divmod(row, S)
    emitted = np.zeros((A, observations.columns))
    np.add.at(emitted, (a, column), start[s] * probability)
    # Actions that never end an episode do not use this row; without randomness it keeps a world deterministic.
    emitted[~ends.any(0)] = np.eye(1, observations.columns)
    end_a, end_o = np.nonzero(emitted)
    return Rows.from_entries(
        np.concatenate([a * (S + 1) + s, end_a * (S + 1) + S]),
        np.concatenate([column, end_o]),
        np.concatenate([probability, emitted[end_a, end_o]]),
        A * (S + 1),
        observations.columns,
    )


class Joint(NamedTuple):
    """The possible outcomes of each action in each state, sorted by (s, a)."""

    row: Int[np.ndarray, "outcomes"]
    """`s * A + a`."""
    next_state: Int[np.ndarray, "outcomes"]
    observation: Int[np.ndarray, "outcomes"]
    probability: Float64[np.ndarray, "outcomes"]


def joint(T: Rows, O: Rows, actions: int, previous: bool) -> Joint:
    """Every transition combined with every observation that can follow it.

    Args:
        T: rows `s * A + a`, columns s'.
        O: rows `(a, s')` or, with `previous`, one row for each entry of T.
        actions: how many there are.
        previous: whether observations also depend on the previous state.
    """
    row, next_state, moves = T.entries()
    observed_in = np.arange(row.size) if previous else (row % actions) * (O.rows // actions) + next_state
    first = np.asarray(O.first, np.int64)
    count = np.diff(first)[observed_in]
    move = np.repeat(np.arange(row.size), count)
    entry = np.arange(move.size) + np.repeat(first[observed_in] - (np.cumsum(count) - count), count)
    return Joint(
        row[move],
        next_state[move].astype(np.int64),
        np.asarray(O.column, np.int64)[entry],
        moves[move] * np.asarray(O.probability)[entry],
    )
