"""The beginning of a file: discount, values, states, actions, observations; and the start distribution."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from asymrl.envs.pomdp_files.rules import ANY
from asymrl.envs.pomdp_files.tokens import (
    FileError,
    Limits,
    SourceText,
    Token,
    Tokens,
    expect_colon,
    take_number,
    take_numbers,
)
from asymrl.worlds.probability_tables import TOLERANCE

STATEMENTS = ("discount", "values", "states", "actions", "observations", "start", "T", "O", "R", "OO")
KINDS = ("states", "actions", "observations")
MOST_DIGITS = 18  # of an index or a count, so that it fits into 64 bits
_OTHER_DIALECTS = {
    "agents": "`agents:` makes it a problem for several agents (Dec-POMDP), which is not supported",
    "costs": "`costs:` before the tables belongs to another dialect; write `values: cost` and R lines instead",
    "atom": "`atom` lines belong to an extension of the format that pomdp-solve reads, which is the dialect read here; "
    "leave them out if the other lines are complete, or convert the file",
}
EXACT = 1e-12  # sums this close to one are left alone, as rounding explains the difference


class Labels:
    """The states, actions or observations of a file: their names, and the index of each name and number.

    A header can announce a million of them, so names and index are built when first needed.
    """

    def __init__(self, kind: str, given: Sequence[str] | int):
        self.kind, self._given = kind, given

    def __len__(self) -> int:
        return self._given if isinstance(self._given, int) else len(self._given)

    @cached_property
    def names(self) -> Sequence[str]:
        return [str(i) for i in range(self._given)] if isinstance(self._given, int) else self._given

    @cached_property
    def index(self) -> dict[str, int]:
        """The index of each name and number, and `ANY` for the wildcard."""
        numbers = {str(i): i for i in range(len(self))}
        return numbers | {name: i for i, name in enumerate(self.names)} | {"*": ANY}

    def find(self, source: SourceText, token: Token) -> int:
        """The index that a token refers to, `ANY` for a wildcard."""
        kind = self.kind[:-1]
        if token.is_mark("*"):
            return ANY
        if token.kind == "name":
            if (index := self.index.get(token.text)) is not None:
                return index
            close = difflib.get_close_matches(token.text, self.names[:10_000], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise source.error(token.start, f"there is no {kind} {token.text!r}{hint}")
        if not token.is_index:
            raise source.error(token.start, f"found {token.shown}, expected the name or the number of a {kind}, or *")
        if len(token.text) > MOST_DIGITS or int(token.text) >= len(self):
            raise source.error(token.start, f"{kind} {token.text} does not exist; they are 0 to {len(self) - 1}")
        return int(token.text)


@dataclass
class Header:
    """The statements before the tables."""

    states: Labels
    actions: Labels
    observations: Labels
    discount: float | None
    cost: bool


def statement_word(tokens: Tokens) -> str | None:
    """The word of the statement that begins here, or None. A name may look the same, but is not followed by a colon."""
    token = tokens.peek()
    if token.kind != "name" or token.text not in STATEMENTS:
        return None
    after = tokens.peek(1)
    if after.is_mark(":"):
        return token.text
    if token.text == "start" and after.is_name("include", "exclude") and tokens.peek(2).is_mark(":"):
        return token.text
    return None


def unknown_statement(tokens: Tokens) -> FileError:
    """The error for a token found where a statement should begin."""
    token = tokens.peek()
    if token.kind in ("number", "sign"):
        problem = f"found {token.shown} after a complete statement, expected another statement"
    elif token.kind == "name" and token.text in _OTHER_DIALECTS:
        problem = _OTHER_DIALECTS[token.text]
    elif token.kind == "name" and token.text in STATEMENTS:
        problem = f"found {tokens.peek(1).shown} after {token.text!r}, expected a colon"
    else:
        close = difflib.get_close_matches(token.text, STATEMENTS, n=1) if token.kind == "name" else []
        hint = f"; did you mean `{close[0]}:`?" if close else ""
        problem = f"found {token.shown}, expected a statement ({', '.join(STATEMENTS)}){hint}"
    return tokens.source.error(token.start, problem)


def take_header(tokens: Tokens, limits: Limits) -> Header:
    """Reads up to the first statement that does not belong to the header."""
    source, lines = tokens.source, {}
    labels: dict[str, Labels] = {}
    discount, cost = None, False
    while (word := statement_word(tokens)) in ("discount", "values", *KINDS):
        assert word is not None
        token = tokens.take()
        if word in lines:
            raise source.error(token.start, f"a second `{word}`; the first is on line {lines[word]}")
        lines[word] = source.text.count("\n", 0, token.start) + 1
        expect_colon(tokens, word)
        if word == "discount":
            discount = _discount(tokens)
        elif word == "values":
            cost = _values(tokens)
        else:
            labels[word] = _labels(tokens, word, limits)
    for word in KINDS:
        if word not in labels:
            token = tokens.peek()
            if token.kind != "end" and statement_word(tokens) is None:
                raise unknown_statement(tokens)
            why = " (a problem without observations is an MDP)" if word == "observations" else ""
            raise source.error(token.start, f"found {token.shown}, but `{word}:` must come before it{why}")
    header = Header(labels["states"], labels["actions"], labels["observations"], discount, cost)
    _check_size(header, source, limits)
    return header


def _check_size(header: Header, source: SourceText, limits: Limits) -> None:
    S, A, O = len(header.states), len(header.actions), len(header.observations)
    if limits.rows < S * A:
        raise FileError(
            f"{source.name}: {S} states x {A} actions are more than {limits.rows} pairs; "
            "read_pomdp(path, limits=Limits(rows=...)) allows more"
        )
    if A * S * S * O >= 2**62:
        raise FileError(f"{source.name}: {S} states, {A} actions and {O} observations are too many together")


def _discount(tokens: Tokens) -> float:
    value, token = take_number(tokens)
    if not 0 <= value <= 1:
        raise tokens.source.error(token.start, f"discount is {value:g}, expected a number between 0 and 1")
    return value


def _values(tokens: Tokens) -> bool:
    token = tokens.take()
    if not token.is_name("reward", "rewards", "cost", "costs"):
        raise tokens.source.error(token.start, f"found {token.shown}, expected `reward` or `cost`")
    return token.text.startswith("cost")


def _labels(tokens: Tokens, kind: str, limits: Limits) -> Labels:
    """A count, or a list of names up to the next statement."""
    source, token = tokens.source, tokens.peek()
    if token.is_index:
        tokens.take()
        if (after := tokens.peek()).kind in ("number", "name") and statement_word(tokens) is None:
            hint = f"names begin with a letter, and numbered {kind} are given by their count alone"
            raise source.error(after.start, f"found {after.shown} after a number of {kind}; {hint}")
        if len(token.text) > MOST_DIGITS or not 0 < int(token.text) <= limits.states:
            count = token.text if len(token.text) <= MOST_DIGITS else f"{token.text[:MOST_DIGITS]}..."
            more = f"; read_pomdp(path, limits=Limits(states=...)) allows more {kind}" if token.text.strip("0") else ""
            raise source.error(token.start, f"{count} {kind}, expected 1 to {limits.states}{more}")
        return Labels(kind, int(token.text))
    names: dict[str, None] = {}
    while (token := tokens.peek()).kind == "name" and statement_word(tokens) is None:
        tokens.take()
        if token.text in names:
            raise source.error(token.start, f"{token.text!r} is named twice among the {kind}")
        names[token.text] = None
    if not names:
        raise source.error(token.start, f"found {token.shown}, expected the number of {kind} or their names")
    if len(names) > limits.states:
        raise source.error(token.start, f"{len(names)} {kind}, expected at most {limits.states}")
    return Labels(kind, list(names))


def take_start(tokens: Tokens, states: Labels) -> np.ndarray:
    """The distribution `[S]` given by a `start` statement, in any of its forms."""
    first = tokens.take()
    how = tokens.peek()
    if how.is_name("include", "exclude"):
        tokens.take()
        expect_colon(tokens, f"start {how.text}")
        return _set(tokens, states, first, how.text == "include")
    expect_colon(tokens, "start")
    token = tokens.peek()
    if token.is_name("uniform"):
        tokens.take()
        return np.full(len(states), 1 / len(states))
    if token.kind == "name":
        tokens.take()
        _refuse_second(tokens, token)
        return _uniform_over(states, [states.find(tokens.source, token)])
    values = take_numbers(tokens)
    # A vector of one entry looks like an index: with a single state only 0 can be one.
    if values.size == 1 and token.is_index and (len(states) > 1 or values[0] == 0):
        _refuse_second(tokens, token)
        return _uniform_over(states, [states.find(tokens.source, token)])
    return _vector(tokens, states, token, values)


def _vector(tokens: Tokens, states: Labels, token: Token, values: np.ndarray) -> np.ndarray:
    source = tokens.source
    if values.size != len(states):
        hint = "" if values.size < 2 else "; for a set of states write `start include:`"
        content = f"{values.size} numbers" if values.size else token.shown
        raise source.error(
            token.start,
            f"found {content}, expected a state, `uniform`, or a probability for each of {len(states)} states{hint}",
        )
    if (values < 0).any():
        s = states.names[int(np.flatnonzero(values < 0)[0])]
        raise source.error(token.start, f"the start probability of state {s!r} is negative")
    total = values.sum()
    if not abs(total - 1) <= TOLERANCE:
        raise source.error(token.start, f"the start probabilities sum to {total:.6g}, expected 1")
    return values if abs(total - 1) <= EXACT else values / total


def _set(tokens: Tokens, states: Labels, first: Token, include: bool) -> np.ndarray:
    indices: dict[int, None] = {}
    while (token := tokens.peek()).kind in ("name", "number") and statement_word(tokens) is None:
        indices[states.find(tokens.source, tokens.take())] = None
    if not indices:
        raise tokens.source.error(token.start, f"found {token.shown}, expected one or more states")
    if not include:
        mask = np.ones(len(states), bool)
        mask[list(indices)] = False
        indices = dict.fromkeys(np.flatnonzero(mask).tolist())
    if not indices:
        raise tokens.source.error(first.start, "all states are excluded from the start")
    return _uniform_over(states, list(indices))


def _uniform_over(states: Labels, indices: list[int]) -> np.ndarray:
    start = np.zeros(len(states))
    start[indices] = 1 / len(indices)
    return start


def _refuse_second(tokens: Tokens, first: Token) -> None:
    second = tokens.peek()
    if second.kind in ("name", "number") and statement_word(tokens) is None:
        both = f"start include: {first.text} {second.text}"
        raise tokens.source.error(
            second.start, f"found {second.shown} after a single start state; did you mean `{both}`?"
        )
