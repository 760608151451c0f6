"""The tables of a finite world: what they must be like, and what they say about the end of an episode."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from asymrl.worlds.rows import Rows


class TableOfRows(NamedTuple):
    """A table of probabilities whose rows must sum to one: what it holds, the axes of its rows and their sizes."""

    what: str
    axes: tuple[str, ...]
    rows: Rows
    shape: tuple[int, ...]


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
    """Raises ValueError, with the row that is at fault, unless the tables fit together and hold probabilities."""
    if np.shape(rewards) != (S, A) or np.shape(ends) != (S, A):
        shapes = f"got {np.shape(rewards)} and {np.shape(ends)}"
        raise ValueError(f"world {name!r}: R and D must have shape ({S}, {A}), {shapes}")
    if not np.all(np.isfinite(rewards)):
        s, a = np.argwhere(~np.isfinite(rewards))[0]
        raise ValueError(f"world {name!r}: the reward for action {a} in state {s} is not finite")
    origin = Rows.from_dense(np.asarray(start)[None])
    _check_rows(name, TableOfRows("transition", ("state", "action"), transitions, (S, A)), S)
    _check_rows(name, TableOfRows("observation", ("action", "next state"), observations, (A, S)), O)
    _check_rows(name, TableOfRows("start", ("distribution",), origin, (1,)), S)
    if first_observations is not None:
        _check_rows(name, TableOfRows("first observation", ("state",), first_observations, (S,)), O)


def _check_rows(name: str, table: TableOfRows, columns: int) -> None:
    rows, size = table.rows, (int(np.prod(table.shape)), columns)
    if (rows.rows, rows.columns) != size:
        found = (rows.rows, rows.columns)
        raise ValueError(f"world {name!r}: the {table.what} table has size {found}, expected {size}")
    bad = np.flatnonzero(~(np.abs(rows.sums() - 1) <= 1e-5))  # so that NaN is bad too
    negative = np.flatnonzero(rows.probability < 0)
    if bad.size or negative.size:
        row = bad[0] if bad.size else np.searchsorted(rows.first, negative[0], "right") - 1
        place = np.unravel_index(row, table.shape)
        where = ", ".join(f"{axis} {i}" for axis, i in zip(table.axes, place, strict=True))
        wrong = f"sums to {rows.sums()[row]:.6g}" if bad.size else "has a negative entry"
        raise ValueError(
            f"world {name!r}: the {table.what} row for {where} {wrong}; probabilities must be non-negative and sum to 1"
        )


def stay_at_the_end(transitions: Rows, ends: Bool[np.ndarray, "S A"]) -> Rows:
    """Replaces the rows of ending actions by "stay": what a file says there is about the next episode."""
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
    """Adds to each action the row "after the end": what a state drawn from the start distribution emits."""
    S, A = ends.shape
    row, column, probability = observations.entries()
    a, s = np.divmod(row, S)
    emitted = np.zeros((A, observations.columns))
    np.add.at(emitted, (a, column), start[s] * probability)
    # For actions that never end an episode any row will do; one without chance keeps deterministic worlds so.
    emitted[~ends.any(0)] = np.eye(1, observations.columns)
    end_a, end_o = np.nonzero(emitted)
    return Rows.from_entries(
        np.concatenate([a * (S + 1) + s, end_a * (S + 1) + S]),
        np.concatenate([column, end_o]),
        np.concatenate([probability, emitted[end_a, end_o]]),
        A * (S + 1),
        observations.columns,
    )
