"""The tables of finite worlds: whether they hold probabilities, and what follows the end of an episode in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from asymrl.worlds.pomdp import TOLERANCE, Rows


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
