"""The words of a `.pomdp` file. Lines mean nothing in this format; only a comment ends with one."""

from __future__ import annotations

import re
from typing import NamedTuple

from asymrl.adapters.files.errors import Source

# Possessive quantifiers: a match that fails must not be tried in all the other ways to cut up a long word. Groups are
# atomic instead: with possessive ones the first versions of Python 3.11 miss matches.
NAME = r"[A-Za-z_][A-Za-z0-9_.\-]*+"
NUMBER = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?>(?:[eE][+-]?[0-9]++)?)"
_TOKEN = re.compile(rf"\s*+(?:(?P<name>{NAME})|(?P<number>{NUMBER})|(?P<sign>[+-])|(?P<mark>[:*])|(?P<end>\Z))")
_NUMBERS = re.compile(rf"\s*+{NUMBER}(?>(?:\s++{NUMBER}(?!\S))+)")
_COMMENT = re.compile(r"#[^\n]*")


class Token(NamedTuple):
    """A word with its kind, `name`, `number`, `sign`, `mark` or `end`, and where it stands."""

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
    """A place in a text that moves on from token to token."""

    def __init__(self, source: Source):
        self.source = source
        # Blanks instead of comments: every other character stays where it was.
        self.text = _COMMENT.sub(lambda comment: " " * len(comment.group()), source.text)
        self.place = 0
        self._near: dict[int, Token] = {}  # what was looked at lately, by the place before it

    def peek(self, skip: int = 0) -> Token:
        """The next token, or one behind it."""
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
        """Takes all that a pattern matches from here, if it does: many tokens at once."""
        found = pattern.match(self.text, self.place)
        if found:
            self.place = found.end()
        return found

    def numbers(self) -> list[str]:
        """Takes a run of two or more numbers that stand apart from each other; an empty list where there is none."""
        found = self.match(_NUMBERS)
        return found.group().split() if found else []

    def _at(self, place: int) -> Token:
        token = self._near.get(place)
        if token is None:
            if len(self._near) > 8:
                self._near.clear()
            token = self._near[place] = self._find(place)
        return token

    def _find(self, place: int) -> Token:
        found = _TOKEN.match(self.text, place)
        if found is None or found.lastgroup is None:
            rest = re.compile(r"\S").search(self.text, place)
            assert rest is not None
            raise self.source.error(rest.start(), f"{rest.group()!r} has no meaning in this format")
        kind = found.lastgroup
        return Token(kind, found.group(kind), found.start(kind), found.end())
