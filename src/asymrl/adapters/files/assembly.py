"""From rules to tables: T and O are written out by their non-zeros and checked, R is looked up where it can occur."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from asymrl.adapters.files.errors import FileError, Limits
from asymrl.adapters.files.parser import Draft
from asymrl.adapters.files.problem import Problem, by_state_and_action
from asymrl.adapters.files.rules import TooManyError
from asymrl.adapters.files.start import EXACT
from asymrl.worlds.outcomes import joint
from asymrl.worlds.pomdp import TOLERANCE, Rows

DEFAULT_DISCOUNT = 0.99


class _Moves(NamedTuple):
    """The transitions, and which pairs of state and action end the episode."""

    T: Rows
    ends: np.ndarray  # [S, A]


def assemble(draft: Draft, name: str, limits: Limits, *, episodic: bool = True) -> Problem:
    """The problem that a parsed file describes.

    Args:
        draft: its rules.
        name: of the problem.
        limits: how much may be written out.
        episodic: whether `reset` ends the episode; otherwise it only goes back to the start.

    Raises:
        FileError: if probabilities do not sum to one, or there are too many.
    """
    header = draft.header
    S = len(header.states)
    start = np.full(S, 1 / S) if draft.start is None else draft.start
    # Only rewards or observations that depend on where an ending leads need to know it.
    beyond = draft.O.names(1) or draft.R.names(2) or draft.R.names(3)
    try:
        T, ends = _transitions(draft, start, limits, episodic=episodic, write_ends=beyond)
        previous = draft.O.names(1)
        O = _observations(draft, T, limits, previous)
        rewards = _rewards(draft, T, O, ends, limits, previous)
    except TooManyError:
        raise FileError(
            f"{draft.source.name}: more than {limits.entries} probabilities are not zero; "
            "read(path, limits=Limits(entries=...)) allows more"
        ) from None
    return Problem(
        name=name,
        T=T,
        O=O,
        previous=previous,
        rewards=-rewards + 0.0 if header.cost else rewards,
        ends=ends,
        start=start,
        discount=_discount(draft),
        cost=header.cost,
        state_names=header.states.names,
        action_names=header.actions.names,
        observation_names=header.observations.names,
    )


def _discount(draft: Draft) -> float:
    if draft.header.discount is not None:
        return draft.header.discount
    warnings.warn(
        f"{draft.source.name}: there is no discount; {DEFAULT_DISCOUNT} is used. Add a line such as `discount: 0.95`",
        stacklevel=2,
    )
    return DEFAULT_DISCOUNT


def _transitions(draft: Draft, start: np.ndarray, limits: Limits, *, episodic: bool, write_ends: bool) -> _Moves:
    header = draft.header
    S, A = len(header.states), len(header.actions)
    s, a = np.divmod(np.arange(S * A), A)
    reset = draft.resets.at(a, s).order
    touched = draft.T.touched(a, s)
    ended = reset > touched
    # A row that goes on from the start distribution: reset, then changed entry by entry, or reset without an end.
    from_start = (reset > draft.T.whole_rows(a, s).order) & ~(ended & episodic)
    row, column, value = draft.T.nonzeros((a, s), limits.entries, since=np.where(from_start | ended, reset, -1))
    copied = from_start | (ended & episodic & write_ends)
    copies = np.flatnonzero(copied)
    origin = np.flatnonzero(start)
    if copies.size * origin.size > limits.entries:
        raise TooManyError
    to = np.tile(origin, copies.size)
    at = np.repeat(copies, origin.size)
    unchanged = draft.T.at(a[at], s[at], to).order < reset[at]
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

    return _Moves(_normalised(draft, T, where), (ended & episodic).reshape(S, A))


def _observations(draft: Draft, T: Rows, limits: Limits, previous: bool) -> Rows:
    """Rows (a, s') or, where observations depend on the state before, a row for each transition."""
    header = draft.header
    S, A, O = len(header.states), len(header.actions), len(header.observations)
    if previous:
        pair, s_next, _ = T.entries()
        s, a = np.divmod(pair, A)
    else:
        a, s_next = np.divmod(np.arange(A * S), S)
        s = np.zeros_like(a)
    places = (a, s, s_next.astype(np.int64))
    row, column, value = draft.O.nonzeros(places, limits.entries)
    rows = _rows(row, column, value, a.size, O)

    def where(i: int) -> tuple[int, str]:
        names = header.states.names
        about = f"action {header.actions.names[a[i]]!r} and next state {names[s_next[i]]!r}"
        about += f" from state {names[s[i]]!r}" if previous else ""
        return int(draft.O.touched(*(index[i : i + 1] for index in places))[0]), f"observation probabilities of {about}"

    return _normalised(draft, rows, where)


def _rewards(draft: Draft, T: Rows, O: Rows, ends: np.ndarray, limits: Limits, previous: bool) -> np.ndarray:
    """Rewards `[S, A]` where they depend on nothing else, and for each outcome otherwise."""
    S, A = ends.shape
    if not (draft.R.names(2) or draft.R.names(3)):
        s, a = np.divmod(np.arange(S * A), A)
        return draft.R.at(a, s, np.zeros_like(s), np.zeros_like(s)).value.reshape(S, A)
    lengths = np.diff(O.first)
    pair, s_next, _ = T.entries()
    if lengths[np.arange(pair.size) if previous else (pair % A) * S + s_next].sum() > limits.entries:
        raise TooManyError
    outcomes = joint(T, O, A, previous)
    s, a = np.divmod(outcomes.row, A)
    rewards = draft.R.at(a, s, outcomes.next_state, outcomes.observation).value
    # Files often write out rewards for every next state and observation that are the same for all.
    return rewards if previous else by_state_and_action(rewards, outcomes, S, A)


def _rows(row: np.ndarray, column: np.ndarray, value: np.ndarray, rows: int, columns: int) -> Rows:
    order = np.lexsort([column, row])
    return Rows.from_entries(row[order], column[order], value[order], rows, columns)


def _normalised(draft: Draft, rows: Rows, where: Callable[[int], tuple[int, str]]) -> Rows:
    """The rows with sums of one. `where` tells the order of the last rule for a row, and what the row is."""
    sums = rows.sums()
    if (wrong := np.flatnonzero(~(np.abs(sums - 1) <= TOLERANCE))).size:
        order, what = where(int(wrong[0]))
        if order < 0:
            raise FileError(f"{draft.source.name}: the {what} are never given")
        more = f" ({wrong.size} rows like that)" if wrong.size > 1 else ""
        raise draft.source.error(
            draft.places.offset(order // 2), f"the {what} sum to {sums[wrong[0]]:.6g}, expected 1{more}"
        )
    off = np.abs(sums - 1) > EXACT
    row, column, probability = rows.entries()
    probability = np.where(off[row], probability / sums[row], probability)
    return Rows.from_entries(row, column, probability, rows.rows, rows.columns)
