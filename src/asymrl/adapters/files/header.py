"""What stands at the beginning of a file: discount, values, states, actions, observations."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from asymrl.adapters.files.errors import FileError, Limits, Source
from asymrl.adapters.files.foreign import foreign_statement
from asymrl.adapters.files.rules import ANY
from asymrl.adapters.files.tokens import Token, Tokens

STATEMENTS = ("discount", "values", "states", "actions", "observations", "start", "T", "O", "R", "OO")
THINGS = ("states", "actions", "observations")
MOST_DIGITS = 18  # of an index or a count, so that it fits into 64 bits


class Things:
    """The states, actions or observations of a file: their names, and the index of each name and number.

    A header can promise a million of them, so names and index are made when they are first needed.
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
        """Of names, of numbers, and of the wildcard."""
        numbers = {str(i): i for i in range(len(self))}
        return numbers | {name: i for i, name in enumerate(self.names)} | {"*": ANY}

    def find(self, source: Source, token: Token) -> int:
        """The index that a token means, `ANY` for a wildcard."""
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
    """All of that, once it is complete."""

    states: Things
    actions: Things
    observations: Things
    discount: float | None
    cost: bool


def statement_word(tokens: Tokens) -> str | None:
    """The word of the statement that begins here, or None. A name may look the same, but no colon follows it."""
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
    """What is wrong with a token that stands where a statement should begin."""
    token = tokens.peek()
    if token.kind in ("number", "sign"):
        problem = f"found {token.shown} behind a statement that is complete, expected another statement"
    elif token.kind == "name" and (dialect := foreign_statement(token.text)):
        problem = dialect
    elif token.kind == "name" and token.text in STATEMENTS:
        problem = f"found {tokens.peek(1).shown} behind {token.text!r}, expected a colon"
    else:
        close = difflib.get_close_matches(token.text, STATEMENTS, n=1) if token.kind == "name" else []
        hint = f"; did you mean `{close[0]}:`?" if close else ""
        problem = f"found {token.shown}, expected a statement ({', '.join(STATEMENTS)}){hint}"
    return tokens.source.error(token.start, problem)


def expect_colon(tokens: Tokens, after: str) -> None:
    token = tokens.take()
    if not token.is_mark(":"):
        raise tokens.source.error(token.start, f"found {token.shown}, expected a colon after {after}")


def take_number(tokens: Tokens) -> tuple[float, Token]:
    """A number, also one whose sign stands apart, and its token."""
    token = tokens.take()
    sign = 1.0
    if token.kind == "sign":
        sign, token = -1.0 if token.text == "-" else 1.0, tokens.take()
    if token.kind != "number" or (sign < 0 and token.text[0] in "+-"):
        raise tokens.source.error(token.start, f"found {token.shown}, expected a number")
    value = sign * float(token.text)
    if not math.isfinite(value):
        raise tokens.source.error(token.start, f"{token.text} is too large a number")
    return value, token


def take_numbers(tokens: Tokens) -> np.ndarray:
    """All numbers that stand here in a row."""
    parts: list[np.ndarray] = []
    while tokens.peek().kind in ("number", "sign"):
        start = tokens.place
        if words := tokens.numbers():
            batch = np.array([float(word) for word in words])
            if not np.isfinite(batch).all():
                raise tokens.source.error(start, "a number in this row is too large")
            parts.append(batch)
        else:
            parts.append(np.array([take_number(tokens)[0]]))
    return np.concatenate(parts) if parts else np.zeros(0)


def take_header(tokens: Tokens, limits: Limits) -> Header:
    """Reads up to the first statement that is none of a header."""
    source, seen = tokens.source, {}
    things: dict[str, Things] = {}
    discount, cost = None, False
    while (word := statement_word(tokens)) in ("discount", "values", *THINGS):
        assert word is not None
        token = tokens.take()
        if word in seen:
            raise source.error(token.start, f"a second `{word}`; the first is in line {seen[word]}")
        seen[word] = source.text.count("\n", 0, token.start) + 1
        expect_colon(tokens, word)
        if word == "discount":
            discount = _discount(tokens)
        elif word == "values":
            cost = _values(tokens)
        else:
            things[word] = _things(tokens, word, limits)
    for word in THINGS:
        if word not in things:
            token = tokens.peek()
            if token.kind != "end" and statement_word(tokens) is None:
                raise unknown_statement(tokens)
            why = " (a problem without them is an MDP, where all is seen)" if word == "observations" else ""
            raise source.error(token.start, f"found {token.shown}, but `{word}:` must come before it{why}")
    header = Header(things["states"], things["actions"], things["observations"], discount, cost)
    _check_size(header, source, limits)
    return header


def _check_size(header: Header, source: Source, limits: Limits) -> None:
    S, A, O = len(header.states), len(header.actions), len(header.observations)
    if limits.rows < S * A:
        raise FileError(
            f"{source.name}: {S} states x {A} actions are more than {limits.rows} pairs; "
            "read(path, limits=Limits(rows=...)) allows more"
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


def _things(tokens: Tokens, kind: str, limits: Limits) -> Things:
    """A count, or a list of names up to the next statement."""
    source, token = tokens.source, tokens.peek()
    if token.is_index:
        tokens.take()
        if (after := tokens.peek()).kind in ("number", "name") and statement_word(tokens) is None:
            hint = f"names begin with a letter, and numbered {kind} are given by their count alone"
            raise source.error(after.start, f"found {after.shown} behind a number of {kind}; {hint}")
        if len(token.text) > MOST_DIGITS or not 0 < int(token.text) <= limits.states:
            count = token.text if len(token.text) <= MOST_DIGITS else f"{token.text[:MOST_DIGITS]}..."
            more = f"; read(path, limits=Limits(states=...)) allows more {kind}" if token.text.strip("0") else ""
            raise source.error(token.start, f"{count} {kind} are promised, expected 1 to {limits.states}{more}")
        return Things(kind, int(token.text))
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
    return Things(kind, list(names))
