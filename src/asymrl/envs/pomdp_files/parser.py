"""The grammar of `.pomdp` files: from text to rules, in the order of the file."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np

from asymrl.envs.pomdp_files.header import (
    Header,
    Labels,
    statement_word,
    take_header,
    take_start,
    unknown_statement,
)
from asymrl.envs.pomdp_files.rules import ANY, Rules
from asymrl.envs.pomdp_files.tokens import (
    NAME,
    NUMBER,
    Limits,
    SourceText,
    Token,
    Tokens,
    expect_colon,
    take_number,
    take_numbers,
)

# A large file consists almost entirely of entries, like `T: a : s : s' p`: these are read thousands at a time.
_INDEX = rf"\s*+:\s*+({NAME}|[0-9]++|\*)"
_ENTRY_PATTERN = rf"\s*+([TOR])\b{_INDEX * 3}(?>(?:{_INDEX})?)\s++({NUMBER})(?!\S)"
_ENTRY = re.compile(_ENTRY_PATTERN)
_FEW, _MANY = 16, 1 << 16
_ENTRIES = {
    size: re.compile(f"(?>(?:{re.sub('[(](?![?])', '(?:', _ENTRY_PATTERN)}){{1,{size}}})") for size in (_FEW, _MANY)
}


@dataclass
class ParsedFile:
    """The statements of a file as rules. A rule of statement q has order 2 q (whole rows) or 2 q + 1."""

    source: SourceText
    header: Header
    positions: Positions  # of the statements in the text
    start: np.ndarray | None = None
    T: Rules = field(init=False)  # (a, s, s')
    resets: Rules = field(init=False)  # (a, s)
    O: Rules = field(init=False)  # (a, s, s', o); s is named by `OO:` only
    R: Rules = field(init=False)  # (a, s, s', o)

    def __post_init__(self) -> None:
        S, A, O = len(self.header.states), len(self.header.actions), len(self.header.observations)
        self.T, self.resets = Rules((A, S, S)), Rules((A, S))
        self.O, self.R = Rules((A, S, S, O)), Rules((A, S, S, O))


def parse(source: SourceText, limits: Limits) -> ParsedFile:
    """Parses a whole text. Raises FileError with line and column at the first violation of the grammar."""
    tokens = Tokens(source)
    parsed = ParsedFile(source, take_header(tokens, limits), Positions(tokens.text))
    parser = _Parser(parsed, tokens)
    while parser.take():
        pass
    return parsed


class _Parser:
    """Parses the statements after the header: `start`, T, O, OO and R."""

    def __init__(self, parsed: ParsedFile, tokens: Tokens):
        self.parsed, self.tokens, self.source = parsed, tokens, tokens.source
        self.entries = EntryReader(tokens.text, parsed.header)
        header = parsed.header
        a, s, o = header.actions, header.states, header.observations
        self.axes: dict[str, tuple[Labels, ...]] = {
            "T": (a, s, s), "O": (a, s, o), "OO": (a, s, s, o), "R": (a, s, s, o)
        }  # fmt: skip

    def take(self) -> bool:
        """Takes one statement. False at the end of the file."""
        if self._take_entries():
            return True
        token = self.tokens.peek()
        if token.kind == "end":
            return False
        word = statement_word(self.tokens)
        if word is None:
            raise unknown_statement(self.tokens)
        if word == "start":
            self._take_start(token)
        elif word in self.axes:
            self._take_table(word)
        else:
            raise self.source.error(token.start, f"`{word}:` must come before the tables")
        return True

    def _take_entries(self) -> bool:
        """Takes all entries from here on. False if there are none."""
        groups, count, end = self.entries.take(self.tokens.place)
        if not count:
            return False
        first = self.parsed.positions.add(self.tokens.place, count)
        for word, indices, number, values in groups:
            order = 2 * (first + number) + (indices[:, -1] != ANY)
            wildcards = (indices == ANY) @ (1 << np.arange(indices.shape[1]))
            for wild in np.flatnonzero(np.bincount(wildcards)):
                mask = wildcards == wild
                columns = [ANY if wild >> i & 1 else indices[mask, i] for i in range(indices.shape[1])]
                self._rules(word).add_many(self._pattern(word, columns), order[mask], values[mask])
        self.tokens.place = end
        return True

    def _begin(self, offset: int) -> int:
        return 2 * self.parsed.positions.add(offset)

    def _take_start(self, token: Token) -> None:
        if self.parsed.start is not None:
            raise self.source.error(token.start, "there is already a `start`")
        if self.parsed.resets.given:
            raise self.source.error(token.start, "`start` must come before the first `reset`, which refers to it")
        self.parsed.start = take_start(self.tokens, self.parsed.header.states)

    def _take_table(self, word: str) -> None:
        order = self._begin(self.tokens.take().start)
        axes = self.axes[word]
        expect_colon(self.tokens, word)
        indices = [axes[0].find(self.source, self.tokens.take())]
        while len(indices) < len(axes) and self.tokens.peek().is_mark(":"):
            self.tokens.take()
            indices.append(axes[len(indices)].find(self.source, self.tokens.take()))
        rest = axes[len(indices) :]
        token = self.tokens.peek()
        if not rest:
            value, token = take_number(self.tokens)
            self._check(word, token, indices, np.array([value]))
            self._set(word, order, indices, value)
        elif len(rest) > 2:
            raise self.source.error(token.start, f"found {token.shown}, expected `:` and a {rest[0].kind[:-1]}, or *")
        elif token.kind == "name":
            self._set_by_word(word, order, indices, rest, self.tokens.take())
        else:
            self._set_numbers(word, order, indices, rest, token)

    def _set(self, word: str, order: int, indices: Sequence[int], value: float) -> None:
        # Rules for whole rows have even orders, so that the other rules of the same statement come after them.
        self._rules(word).add(self._pattern(word, indices), order if indices[-1] == ANY else order + 1, value)

    def _set_by_word(self, word: str, order: int, indices: list[int], rest: Sequence[Labels], token: Token) -> None:
        columns, rules = len(rest[-1]), self._rules(word)
        row = self._pattern(word, [*indices, *([ANY] * len(rest))])
        if token.text == "uniform" and word != "R":
            rules.add(row, order, 1 / columns)
        elif token.text == "identity" and word in ("T", "O") and len(rest) == 2:
            diagonal = np.arange(min(len(rest[0]), columns))
            rules.add(row, order, 0.0)
            rules.add_many((*row[:-2], diagonal, diagonal), order + 1, np.ones(diagonal.size))
        elif token.text == "reset" and word == "T":
            self.parsed.resets.add(row[:-1], order, 1.0)
        else:
            raise self.source.error(token.start, f"found {token.shown}, expected {self._expected(word, rest)}")

    def _set_numbers(self, word: str, order: int, indices: list[int], rest: Sequence[Labels], token: Token) -> None:
        values = take_numbers(self.tokens)
        shape = [len(labels) for labels in rest]
        count = int(np.prod(shape, dtype=object))
        if values.size != count:
            content = f"{values.size} numbers" if values.size > 1 else "one number" if values.size else token.shown
            fewer = (
                "" if values.size != 1 else f"; for one number give all indices: `: *` for every {rest[0].kind[:-1]}"
            )
            if not values.size and self.tokens.peek().kind == "end":
                token = self.tokens.peek()
            raise self.source.error(token.start, f"found {content}, expected {self._expected(word, rest)}{fewer}")
        self._check(word, token, indices, values)
        rules = self._rules(word)
        rules.add(self._pattern(word, [*indices, *([ANY] * len(rest))]), order, 0.0)
        nonzero = np.flatnonzero(values)
        places = np.unravel_index(nonzero, shape)
        rules.add_many(self._pattern(word, [*indices, *places]), order + 1, values[nonzero])

    def _check(self, word: str, token: Token, indices: Sequence[int], values: np.ndarray) -> None:
        if word != "R" and (values < 0).any():
            named = zip(self.axes[word], indices, strict=False)
            where = ", ".join(f"{t.kind[:-1]} {'*' if i == ANY else t.names[i]!r}" for t, i in named)
            raise self.source.error(token.start, f"the probability {values[values < 0][0]:g} for {where} is negative")

    def _rules(self, word: str) -> Rules:
        return {"T": self.parsed.T, "O": self.parsed.O, "OO": self.parsed.O, "R": self.parsed.R}[word]

    def _pattern(self, word: str, indices: Sequence) -> tuple:
        """The indices of a rule. `O:` does not mention the previous state, so that is a wildcard."""
        return (indices[0], ANY, *indices[1:]) if word == "O" else tuple(indices)

    def _expected(self, word: str, rest: Sequence[Labels]) -> str:
        sizes = " x ".join(str(len(labels)) for labels in rest)
        names = " x ".join(labels.kind for labels in rest)
        words = {"T": ["uniform", "reset"], "O": ["uniform"], "OO": ["uniform"], "R": []}[word]
        if word in ("T", "O") and len(rest) == 2:
            words = ["identity", *words]
        return ", ".join([f"{sizes} numbers ({names})", *words])


class Entries(NamedTuple):
    """n entries of one table: indices or wildcards `[n, axes]`, their numbers within the run, and their values."""

    word: str
    indices: np.ndarray
    number: np.ndarray
    values: np.ndarray


class Positions:
    """Where each statement begins. Only the first of a run of entries is stored; others are searched when needed."""

    def __init__(self, text: str):
        self._text = text
        self._first: list[int] = []  # number of the first statement of each part
        self._starts: list[int] = []
        self.count = 0

    def add(self, start: int, count: int = 1) -> int:
        """Records statements that begin here and returns the number of the first."""
        self._first.append(self.count)
        self._starts.append(start)
        self.count += count
        return self._first[-1]

    def offset(self, statement: int) -> int:
        """The position of a statement in the text."""
        part = bisect_right(self._first, statement) - 1
        skip = statement - self._first[part]
        match = next(islice(_ENTRY.finditer(self._text, self._starts[part]), skip, None), None)
        return match.start(1) if match and (skip or match.start() == self._starts[part]) else self._starts[part]


class EntryReader:
    """Reads runs of entries."""

    def __init__(self, text: str, header: Header):
        self._text, self._header = text, header
        self._size = _MANY

    def take(self, place: int) -> tuple[list[Entries], int, int]:
        """The entries from here on, by table; how many there are, and where they end.

        An invalid entry ends the run: the token-by-token parser reports it.
        """
        run = _ENTRIES[self._size].match(self._text, place)
        if run is None:
            return [], 0, place
        words, a, b, c, d, numbers = zip(*_ENTRY.findall(self._text, place, run.end()), strict=True)
        actions, states, observations = (
            labels.index.get for labels in (self._header.actions, self._header.states, self._header.observations)
        )
        first, second = list(map(actions, a)), list(map(states, b))
        third = [(observations if word == "O" else states)(name) for word, name in zip(words, c, strict=True)]
        fourth = [observations(name) if name else ANY for name in d]
        right = [(word == "R") == bool(name) for word, name in zip(words, d, strict=True)]
        values = np.array(list(map(float, numbers)))
        is_reward = np.array([word == "R" for word in words])
        good = np.array(right) & np.isfinite(values) & (is_reward | (values >= 0))
        for indices in (first, second, third, fourth):
            if None in indices:
                good[indices.index(None)] = False
        count = int(np.argmin(good)) if not good.all() else good.size
        # Matching a long run again after every other statement would take too long.
        self._size = _MANY if count == good.size else _FEW
        table = [indices[:count] for indices in (first, second, third, fourth)]
        end = run.end() if count == good.size else self._end(place, count)
        return _by_word(words[:count], np.array(table, np.int64).reshape(4, count).T, values[:count]), count, end

    def _end(self, place: int, count: int) -> int:
        matches = list(islice(_ENTRY.finditer(self._text, place), count))
        return matches[-1].end() if matches else place


def _by_word(words: tuple[str, ...], indices: np.ndarray, values: np.ndarray) -> list[Entries]:
    kinds = np.array(words, dtype="U1")
    groups = []
    for word, axes in (("T", 3), ("O", 3), ("R", 4)):
        number = np.flatnonzero(kinds == word)
        if number.size:
            groups.append(Entries(word, indices[number, :axes], number, values[number]))
    return groups
