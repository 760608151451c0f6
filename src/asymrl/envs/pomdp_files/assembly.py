"""From rules to tables: T and O are expanded to their non-zeros and checked, R is looked up for each outcome."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from asymrl.envs.pomdp_files.parser import EXACT, ParsedFile
from asymrl.envs.pomdp_files.problem import Problem, by_state_and_action
from asymrl.envs.pomdp_files.rules import TooManyEntriesError
from asymrl.envs.pomdp_files.tokens import FileError, Limits
from asymrl.worlds.probability_tables import TOLERANCE, Rows, joint

DEFAULT_DISCOUNT = 0.99


class _Moves(NamedTuple):
    """The transitions, and which pairs of state and action end the episode."""

    T: Rows
    ends: np.ndarray  # [S, A]


def assemble(parsed: ParsedFile, name: str, limits: Limits, *, episodic: bool = True) -> Problem:
    """The problem that a parsed file describes.

    Args:
        parsed: its rules.
        name: of the problem.
        limits: how many entries are allowed.
        episodic: whether `reset` ends the episode; otherwise it only goes back to the start.

    Raises:
        FileError: if probabilities do not sum to one, or there are too many.
    """
    header = parsed.header
    S = len(header.states)
    start = np.full(S, 1 / S) if parsed.start is None else parsed.start
    # The state after an end matters only if rewards or observations depend on it.
    beyond = parsed.O.depends_on(1) or parsed.R.depends_on(2) or parsed.R.depends_on(3)
    try:
        T, ends = _transitions(parsed, start, limits, episodic=episodic, write_ends=beyond)
        previous = parsed.O.depends_on(1)
        O = _observations(parsed, T, limits, previous)
        rewards = _rewards(parsed, T, O, ends, limits, previous)
    except TooManyEntriesError:
        raise FileError(
            f"{parsed.source.name}: more than {limits.entries} non-zero probabilities; "
            "read_pomdp(path, limits=Limits(entries=...)) allows more"
        ) from None
    return Problem(
        name=name,
        T=T,
        O=O,
        previous=previous,
        rewards=-rewards + 0.0 if header.cost else rewards,
        ends=ends,
        start=start,
        discount=_discount(parsed),
        cost=header.cost,
        state_names=header.states.names,
        action_names=header.actions.names,
        observation_names=header.observations.names,
    )


def _discount(parsed: ParsedFile) -> float:
    if parsed.header.discount is not None:
        return parsed.header.discount
    warnings.warn(
        f"{parsed.source.name}: no discount is given, so {DEFAULT_DISCOUNT} is used; add a line like `discount: 0.95`",
        stacklevel=2,
    )
    return DEFAULT_DISCOUNT


def _transitions(parsed: ParsedFile, start: np.ndarray, limits: Limits, *, episodic: bool, write_ends: bool) -> _Moves:
    header = parsed.header
    S, A = len(header.states), len(header.actions)
    s, a = np.divmod(np.arange(S * A), A)
    reset = parsed.resets.at(a, s).order
    touched = parsed.T.touched(a, s)
    ended = reset > touched
    # Rows that begin as the start distribution: reset and then changed entry by entry, or reset without an end.
    from_start = (reset > parsed.T.whole_rows(a, s).order) & ~(ended & episodic)
    row, column, value = parsed.T.nonzeros((a, s), limits.entries, since=np.where(from_start | ended, reset, -1))
    copied = from_start | (ended & episodic & write_ends)
    copies = np.flatnonzero(copied)
    origin = np.flatnonzero(start)
    if copies.size * origin.size > limits.entries:
        raise TooManyEntriesError
    to = np.tile(origin, copies.size)
    at = np.repeat(copies, origin.size)
    unchanged = parsed.T.at(a[at], s[at], to).order < reset[at]
    stays = np.flatnonzero(ended & episodic & ~copied)
    T = _rows(
        np.concatenate([row, at[unchanged], stays]),
        np.concatenate([column, to[unchanged], s[stays]]),
        np.concatenate([value, start[to[unchanged]], np.ones(stays.size)]),
        S * A,
        S,
    )

    def where(i: int) -> tuple[int, str]:
        about = f"action {header.actions.names[a[i]]!r} in state {header.states.names[s[i]]!r}"
        return int(max(touched[i], reset[i])), f"transition probabilities of {about}"

    return _Moves(_normalised(parsed, T, where), (ended & episodic).reshape(S, A))


def _observations(parsed: ParsedFile, T: Rows, limits: Limits, previous: bool) -> Rows:
    """Rows (a, s') or, where observations depend on the previous state, a row for each transition."""
    header = parsed.header
    S, A, O = len(header.states), len(header.actions), len(header.observations)
    if previous:
        pair, s_next, _ = T.entries()
        s, a = np.divmod(pair, A)
    else:
        a, s_next = np.divmod(np.arange(A * S), S)
        s = np.zeros_like(a)
    places = (a, s, s_next.astype(np.int64))
    row, column, value = parsed.O.nonzeros(places, limits.entries)
    rows = _rows(row, column, value, a.size, O)

    def where(i: int) -> tuple[int, str]:
        names = header.states.names
        about = f"action {header.actions.names[a[i]]!r} and next state {names[s_next[i]]!r}"
        about += f" from state {names[s[i]]!r}" if previous else ""
        return int(
            parsed.O.touched(*(index[i : i + 1] for index in places))[0]
        ), f"observation probabilities of {about}"

    return _normalised(parsed, rows, where)


def _rewards(parsed: ParsedFile, T: Rows, O: Rows, ends: np.ndarray, limits: Limits, previous: bool) -> np.ndarray:
    """Rewards `[S, A]` if they depend on nothing else, otherwise for each outcome."""
    S, A = ends.shape
    if not (parsed.R.depends_on(2) or parsed.R.depends_on(3)):
        s, a = np.divmod(np.arange(S * A), A)
        return parsed.R.at(a, s, np.zeros_like(s), np.zeros_like(s)).value.reshape(S, A)
    lengths = np.diff(O.first)
    pair, s_next, _ = T.entries()
    if lengths[np.arange(pair.size) if previous else (pair % A) * S + s_next].sum() > limits.entries:
        raise TooManyEntriesError
    outcomes = joint(T, O, A, previous)
    s, a = np.divmod(outcomes.row, A)
    rewards = parsed.R.at(a, s, outcomes.next_state, outcomes.observation).value
    # Files often list the same reward for every next state and observation.
    return rewards if previous else by_state_and_action(rewards, outcomes, S, A)


def _rows(row: np.ndarray, column: np.ndarray, value: np.ndarray, rows: int, columns: int) -> Rows:
    order = np.lexsort([column, row])
    return Rows.from_entries(row[order], column[order], value[order], rows, columns)


def _normalised(parsed: ParsedFile, rows: Rows, where: Callable[[int], tuple[int, str]]) -> Rows:
    """The rows, normalised to sums of one. `where` gives the order of the last rule for a row, and its description."""
    sums = rows.sums()
    if (wrong := np.flatnonzero(~(np.abs(sums - 1) <= TOLERANCE))).size:
        order, what = where(int(wrong[0]))
        if order < 0:
            raise FileError(f"{parsed.source.name}: the {what} are missing")
        more = f" (and {wrong.size - 1} more such rows)" if wrong.size > 1 else ""
        raise parsed.source.error(order // 2, f"the {what} sum to {sums[wrong[0]]:.6g}, expected 1{more}")
    off = np.abs(sums - 1) > EXACT
    row, column, probability = rows.entries()
    probability = np.where(off[row], probability / sums[row], probability)
    return Rows.from_entries(row, column, probability, rows.rows, rows.columns)
