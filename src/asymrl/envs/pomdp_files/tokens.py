"""The words of a `.pomdp` file, and errors that say where in the file something is wrong.

Line breaks mean nothing in this format, except that they end a comment.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

# Possessive quantifiers keep a failed match from backtracking through every split of a long word. Groups are atomic
# instead, since the first versions of Python 3.11 miss matches of possessive groups.
NAME = r"[A-Za-z_][A-Za-z0-9_.\-]*+"
NUMBER = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?>(?:[eE][+-]?[0-9]++)?)"
_TOKEN = re.compile(rf"\s*+(?:(?P<name>{NAME})|(?P<number>{NUMBER})|(?P<sign>[+-])|(?P<mark>[:*])|(?P<end>\Z))")
_NUMBERS = re.compile(rf"\s*+{NUMBER}(?>(?:\s++{NUMBER}(?!\S))+)")
_COMMENT = re.compile(r"#[^\n]*")


class FileError(ValueError):
    """A `.pomdp` file is invalid; the message gives file, line and column."""


@dataclass(frozen=True)
class Limits:
    """How large a problem may be. Checked before memory is allocated, since a header can announce any size."""

    states: int = 1_000_000
    rows: int = 1 << 22
    """State-action pairs."""
    entries: int = 1 << 25
    """Non-zero probabilities, in each table and in the joint outcomes."""


@dataclass(frozen=True)
class SourceText:
    """The text of a file, for errors with line and column."""

    name: str
    text: str

    def error(self, offset: int, problem: str) -> FileError:
        """An error at this character of the text."""
        line = self.text.count("\n", 0, offset)
        column = offset - (self.text.rfind("\n", 0, offset) + 1)
        return FileError(f"{self.name}, line {line + 1}, column {column + 1}: {problem}")


class Token(NamedTuple):
    """A word, its kind (`name`, `number`, `sign`, `mark` or `end`) and its position in the text."""

    kind: str
    text: str
    start: int
    stop: int

    @property
    def shown(self) -> str:
        return "the end of the file" if self.kind == "end" else repr(self.text)

    def is_mark(self, text: str) -> bool:
        return self.kind == "mark" and self.text == text

    def is_name(self, *texts: str) -> bool:
        return self.kind == "name" and self.text in texts

    @property
    def is_index(self) -> bool:
        return self.kind == "number" and self.text.isdecimal()


class Tokens:
    """A cursor that moves through a text token by token."""

    def __init__(self, source: SourceText):
        self.source = source
        # Comments become blanks, so that all other characters keep their positions.
        self.text = _COMMENT.sub(lambda comment: " " * len(comment.group()), source.text)
        self.place = 0
        self._near: dict[int, Token] = {}  # recent tokens, by where the search for them began

    def peek(self, skip: int = 0) -> Token:
        """The next token, or the one `skip` tokens after it."""
        place, token = self.place, None
        for _ in range(skip + 1):
            token = self._at(place)
            place = token.stop
        assert token is not None
        return token

    def take(self) -> Token:
        token = self._at(self.place)
        self.place = token.stop
        return token

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Takes everything that a pattern matches here, which may be many tokens at once."""
        match = pattern.match(self.text, self.place)
        if match:
            self.place = match.end()
        return match

    def numbers(self) -> list[str]:
        """Takes two or more numbers separated by blanks; an empty list if there are none."""
        match = self.match(_NUMBERS)
        return match.group().split() if match else []

    def _at(self, place: int) -> Token:
        token = self._near.get(place)
        if token is None:
            if len(self._near) > 8:
                self._near.clear()
            token = self._near[place] = self._find(place)
        return token

    def _find(self, place: int) -> Token:
        match = _TOKEN.match(self.text, place)
        if match is None or match.lastgroup is None:
            rest = re.compile(r"\S").search(self.text, place)
            assert rest is not None
            raise self.source.error(rest.start(), f"{rest.group()!r} has no meaning in this format")
        kind = match.lastgroup
        return Token(kind, match.group(kind), match.start(kind), match.end())


def expect_colon(tokens: Tokens, after: str) -> None:
    token = tokens.take()
    if not token.is_mark(":"):
        raise tokens.source.error(token.start, f"found {token.shown}, expected a colon after {after}")


def take_number(tokens: Tokens) -> tuple[float, Token]:
    """A number, which may be separated from its sign, and its token."""
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
    """All numbers up to the next token of another kind."""
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
