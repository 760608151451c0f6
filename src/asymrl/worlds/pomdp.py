"""Finite POMDPs by their non-zero entries: tables of probabilities to sample from, and whole problems in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float64, Int, PRNGKeyArray

TOLERANCE = 1e-5  # how far the probabilities of one row may be from summing to one
NOTHING = -1  # the observation of an outcome that ends the episode, where no action follows


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


@dataclass(frozen=True)
class Pomdp:
    """A finite POMDP. Action a in state s has the outcomes `first[s * A + a]` up to `first[s * A + a + 1]`.

    An outcome has a probability, a next state, an observation and a reward. If it ends the episode (`done`), its next
    state is the state itself and its observation is `NOTHING`. Time and memory grow with the possible outcomes, not
    with |S|^2 |O|.
    """

    name: str
    first: Int[np.ndarray, "offsets"]
    next_state: Int[np.ndarray, "outcomes"]
    observation: Int[np.ndarray, "outcomes"]
    probability: Float64[np.ndarray, "outcomes"]
    reward: Float64[np.ndarray, "outcomes"]
    done: Bool[np.ndarray, "outcomes"]
    start: Float64[np.ndarray, "S"]
    first_observation: Float64[np.ndarray, "S O"] | None
    """Probabilities of the observation before the first action; None: a constant symbol, index |O|, shown only then."""
    discount: float
    time_limit: int | None
    state_names: Sequence[str] = field(repr=False)
    action_names: Sequence[str] = field(repr=False)
    observation_names: Sequence[str] = field(repr=False)

    def __post_init__(self):
        self._check_rows()
        self._check_start()
        if not 0 <= self.discount <= 1:
            raise ValueError(f"{self.name}: discount is {self.discount!r}, expected a number between 0 and 1")
        if self.time_limit is not None and self.time_limit < 1:
            raise ValueError(
                f"{self.name}: time_limit is {self.time_limit!r}, expected a positive whole number or None"
            )

    @property
    def states(self) -> int:
        return len(self.state_names)

    @property
    def actions(self) -> int:
        return len(self.action_names)

    @property
    def observations(self) -> int:
        """The number of observations, not counting the constant first symbol, if there is one."""
        return len(self.observation_names)

    def rows(self) -> tuple[Int[np.ndarray, "outcomes"], Int[np.ndarray, "outcomes"]]:
        """The state and the action of each outcome."""
        row = np.repeat(np.arange(self.states * self.actions), np.diff(self.first))
        return np.divmod(row, self.actions)

    def R(self) -> Float64[np.ndarray, "S A"]:
        """Expected rewards."""
        row = np.repeat(np.arange(self.states * self.actions), np.diff(self.first))
        expected = np.bincount(row, self.probability * self.reward, minlength=self.states * self.actions)
        return expected.reshape(self.states, self.actions)

    def name_of_observation(self, observation: int) -> str:
        """The name of an observation, or of the constant symbol that some problems show first."""
        return "start" if observation == self.observations else self.observation_names[observation]

    def _check_rows(self) -> None:
        S, A, O = self.states, self.actions, self.observations
        if self.first.shape != (S * A + 1,) or self.first[0] != 0 or self.first[-1] != len(self.probability):
            raise ValueError(f"{self.name}: `first` must hold {S * A + 1} offsets, from 0 to the number of outcomes")
        state, action = self.rows()

        def fail(outcome: np.integer, problem: str) -> None:
            s, a = self.state_names[state[outcome]], self.action_names[action[outcome]]
            raise ValueError(f"{self.name}: an outcome of action {a!r} in state {s!r} has {problem}")

        for what, values, low, high in (
            ("next state", self.next_state, 0, S),
            ("observation", self.observation, NOTHING, O),
        ):
            if (wrong := np.flatnonzero((values < low) | (values >= high))).size:
                fail(wrong[0], f"{what} {values[wrong[0]]}, expected a number from {low} to {high - 1}")
        if (wrong := np.flatnonzero((self.observation == NOTHING) != self.done)).size:
            fail(wrong[0], "no observation without ending the episode, or the other way round")
        if (wrong := np.flatnonzero(~(self.probability > 0))).size:
            fail(wrong[0], f"probability {self.probability[wrong[0]]}, expected a positive number")
        if (wrong := np.flatnonzero(~np.isfinite(self.reward))).size:
            fail(wrong[0], f"reward {self.reward[wrong[0]]}, expected a finite number")
        sums = np.bincount(state * A + action, self.probability, minlength=S * A)
        if (wrong := np.flatnonzero(~(np.abs(sums - 1) <= TOLERANCE))).size:
            s, a = divmod(int(wrong[0]), A)
            raise ValueError(
                f"{self.name}: the probabilities of action {self.action_names[a]!r} in state {self.state_names[s]!r} "
                f"sum to {sums[wrong[0]]:.6g}, expected 1"
            )

    def _check_start(self) -> None:
        if self.start.shape != (self.states,):
            raise ValueError(f"{self.name}: start has shape {self.start.shape}, expected ({self.states},)")
        if np.any(self.start < 0) or not abs(self.start.sum() - 1) <= TOLERANCE:
            raise ValueError(f"{self.name}: start sums to {self.start.sum():.6g} or has negative entries, expected 1")
        if self.first_observation is None:
            return
        shape, sums = (self.states, self.observations), self.first_observation.sum(-1)
        if self.first_observation.shape != shape or np.any(self.first_observation < 0):
            raise ValueError(f"{self.name}: first_observation must have shape {shape} and no negative entries")
        if (wrong := np.flatnonzero(~(np.abs(sums - 1) <= TOLERANCE))).size:
            s = self.state_names[wrong[0]]
            raise ValueError(
                f"{self.name}: the first observations of state {s!r} sum to {sums[wrong[0]]:.6g}, expected 1"
            )
