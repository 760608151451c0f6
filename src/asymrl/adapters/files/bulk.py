"""Statements like `T: a : s : s' p`, thousands at once: nearly all of a large file are lines of this kind."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import islice
from typing import NamedTuple

import numpy as np

from asymrl.adapters.files.header import Header
from asymrl.adapters.files.rules import ANY
from asymrl.adapters.files.tokens import NAME, NUMBER

_ITEM = rf"\s*+:\s*+({NAME}|[0-9]++|\*)"
_ONE_TEXT = rf"\s*+([TOR])\b{_ITEM * 3}(?>(?:{_ITEM})?)\s++({NUMBER})(?!\S)"
_ONE = re.compile(_ONE_TEXT)
_FEW, _MANY = 16, 1 << 16
_RUNS = {size: re.compile(f"(?>(?:{re.sub('[(](?![?])', '(?:', _ONE_TEXT)}){{1,{size}}})") for size in (_FEW, _MANY)}


class Simple(NamedTuple):
    """n statements of one kind that name all indices: `[n, axes]` with wildcards, their place in the run, values."""

    word: str
    indices: np.ndarray
    number: np.ndarray
    values: np.ndarray


class Places:
    """Where each statement stands. Of a run of simple ones only the run is kept, and searched when it is asked for."""

    def __init__(self, text: str):
        self._text = text
        self._first: list[int] = []  # number of the first statement of each part
        self._starts: list[int] = []
        self.count = 0

    def add(self, start: int, count: int = 1) -> int:
        """Notes statements that begin here, and returns the number of the first."""
        self._first.append(self.count)
        self._starts.append(start)
        self.count += count
        return self._first[-1]

    def offset(self, statement: int) -> int:
        part = bisect_right(self._first, statement) - 1
        behind = statement - self._first[part]
        found = next(islice(_ONE.finditer(self._text, self._starts[part]), behind, None), None)
        return found.start(1) if found and (behind or found.start() == self._starts[part]) else self._starts[part]


class Runs:
    """Takes runs of simple statements out of a text."""

    def __init__(self, text: str, header: Header):
        self._text, self._header = text, header
        self._size = _MANY

    def take(self, place: int) -> tuple[list[Simple], int, int]:
        """The simple statements from here on, by kind; how many there are, and where they end.

        One that is not quite right ends the run: the careful way knows what to say about it.
        """
        run = _RUNS[self._size].match(self._text, place)
        if run is None:
            return [], 0, place
        words, a, b, c, d, numbers = zip(*_ONE.findall(self._text, place, run.end()), strict=True)
        actions, states, observations = (
            things.index.get for things in (self._header.actions, self._header.states, self._header.observations)
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
        # Trying a long run again and again behind each odd statement would take too long.
        self._size = _MANY if count == good.size else _FEW
        table = [indices[:count] for indices in (first, second, third, fourth)]
        end = run.end() if count == good.size else self._end(place, count)
        return _by_word(words[:count], np.array(table, np.int64).reshape(4, count).T, values[:count]), count, end

    def _end(self, place: int, count: int) -> int:
        found = list(islice(_ONE.finditer(self._text, place), count))
        return found[-1].end() if found else place


def _by_word(words: tuple[str, ...], indices: np.ndarray, values: np.ndarray) -> list[Simple]:
    kinds = np.array(words, dtype="U1")
    found = []
    for word, axes in (("T", 3), ("O", 3), ("R", 4)):
        number = np.flatnonzero(kinds == word)
        if number.size:
            found.append(Simple(word, indices[number, :axes], number, values[number]))
    return found
