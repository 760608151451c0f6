"""The grammar of `.pomdp` files: from text to rules, in the order of the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from asymrl.adapters.files.bulk import Places, Runs
from asymrl.adapters.files.errors import Limits, Source
from asymrl.adapters.files.header import (
    Header,
    Things,
    expect_colon,
    statement_word,
    take_header,
    take_number,
    take_numbers,
    unknown_statement,
)
from asymrl.adapters.files.rules import ANY, Rules
from asymrl.adapters.files.start import take_start
from asymrl.adapters.files.tokens import Token, Tokens


@dataclass
class Draft:
    """What a file says, statement by statement. A rule of statement q has order 2 q (whole rows) or 2 q + 1."""

    source: Source
    header: Header
    places: Places  # where each statement stands
    start: np.ndarray | None = None
    T: Rules = field(init=False)  # (a, s, s')
    resets: Rules = field(init=False)  # (a, s)
    O: Rules = field(init=False)  # (a, s, s', o); s is named by `OO:` only
    R: Rules = field(init=False)  # (a, s, s', o)

    def __post_init__(self) -> None:
        S, A, O = len(self.header.states), len(self.header.actions), len(self.header.observations)
        self.T, self.resets = Rules((A, S, S)), Rules((A, S))
        self.O, self.R = Rules((A, S, S, O)), Rules((A, S, S, O))


def parse(source: Source, limits: Limits) -> Draft:
    """Reads a whole text. Raises FileError with line and column at the first thing that is not in the grammar."""
    tokens = Tokens(source)
    draft = Draft(source, take_header(tokens, limits), Places(tokens.text))
    statements = _Statements(draft, tokens)
    while statements.take():
        pass
    return draft


class _Statements:
    """The statements behind the header: `start`, T, O, OO and R."""

    def __init__(self, draft: Draft, tokens: Tokens):
        self.draft, self.tokens, self.source = draft, tokens, tokens.source
        self.runs = Runs(tokens.text, draft.header)
        header = draft.header
        a, s, o = header.actions, header.states, header.observations
        self.axes: dict[str, tuple[Things, ...]] = {
            "T": (a, s, s), "O": (a, s, o), "OO": (a, s, s, o), "R": (a, s, s, o)
        }  # fmt: skip

    def take(self) -> bool:
        """Takes one statement. False at the end of the file."""
        if self._take_run():
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

    def _take_run(self) -> bool:
        """Takes all simple statements from here on, if there are any."""
        found, count, end = self.runs.take(self.tokens.place)
        if not count:
            return False
        first = self.draft.places.add(self.tokens.place, count)
        for word, indices, number, values in found:
            order = 2 * (first + number) + (indices[:, -1] != ANY)
            which = (indices == ANY) @ (1 << np.arange(indices.shape[1]))
            for wild in np.flatnonzero(np.bincount(which)):
                chosen = which == wild
                columns = [ANY if wild >> i & 1 else indices[chosen, i] for i in range(indices.shape[1])]
                self._rules(word).add_many(self._pattern(word, columns), order[chosen], values[chosen])
        self.tokens.place = end
        return True

    def _begin(self, offset: int) -> int:
        return 2 * self.draft.places.add(offset)

    def _take_start(self, token: Token) -> None:
        if self.draft.start is not None:
            raise self.source.error(token.start, "the start was given before")
        if self.draft.resets.given:
            raise self.source.error(token.start, "`start` must come before the first `reset`, which refers to it")
        self.draft.start = take_start(self.tokens, self.draft.header.states)

    def _take_table(self, word: str) -> None:
        order = self._begin(self.tokens.take().start)
        axes = self.axes[word]
        expect_colon(self.tokens, word)
        indices = [axes[0].find(self.source, self.tokens.take())]
        while len(indices) < len(axes) and self.tokens.peek().is_mark(":"):
            self.tokens.take()
            indices.append(axes[len(indices)].find(self.source, self.tokens.take()))
        left = axes[len(indices) :]
        token = self.tokens.peek()
        if not left:
            value, token = take_number(self.tokens)
            self._check(word, token, indices, np.array([value]))
            self._set(word, order, indices, value)
        elif len(left) > 2:
            raise self.source.error(token.start, f"found {token.shown}, expected `:` and a {left[0].kind[:-1]}, or *")
        elif token.kind == "name":
            self._set_by_word(word, order, indices, left, self.tokens.take())
        else:
            self._set_numbers(word, order, indices, left, token)

    def _set(self, word: str, order: int, indices: Sequence[int], value: float) -> None:
        # A rule for whole rows has an even order, so that one can see below what else a statement says of a row.
        self._rules(word).add(self._pattern(word, indices), order if indices[-1] == ANY else order + 1, value)

    def _set_by_word(self, word: str, order: int, indices: list[int], left: Sequence[Things], token: Token) -> None:
        columns, rules = len(left[-1]), self._rules(word)
        row = self._pattern(word, [*indices, *([ANY] * len(left))])
        if token.text == "uniform" and word != "R":
            rules.add(row, order, 1 / columns)
        elif token.text == "identity" and word in ("T", "O") and len(left) == 2:
            diagonal = np.arange(min(len(left[0]), columns))
            rules.add(row, order, 0.0)
            rules.add_many((*row[:-2], diagonal, diagonal), order + 1, np.ones(diagonal.size))
        elif token.text == "reset" and word == "T":
            self.draft.resets.add(row[:-1], order, 1.0)
        else:
            raise self.source.error(token.start, f"found {token.shown}, expected {self._expected(word, left)}")

    def _set_numbers(self, word: str, order: int, indices: list[int], left: Sequence[Things], token: Token) -> None:
        values = take_numbers(self.tokens)
        shape = [len(things) for things in left]
        wanted = int(np.prod(shape, dtype=object))
        if values.size != wanted:
            found = f"{values.size} numbers" if values.size > 1 else "one number" if values.size else token.shown
            fewer = (
                "" if values.size != 1 else f"; for one number give all indices: `: *` for every {left[0].kind[:-1]}"
            )
            if not values.size and self.tokens.peek().kind == "end":
                token = self.tokens.peek()
            raise self.source.error(token.start, f"found {found}, expected {self._expected(word, left)}{fewer}")
        self._check(word, token, indices, values)
        rules = self._rules(word)
        rules.add(self._pattern(word, [*indices, *([ANY] * len(left))]), order, 0.0)
        given = np.flatnonzero(values)
        places = np.unravel_index(given, shape)
        rules.add_many(self._pattern(word, [*indices, *places]), order + 1, values[given])

    def _check(self, word: str, token: Token, indices: Sequence[int], values: np.ndarray) -> None:
        if word != "R" and (values < 0).any():
            named = zip(self.axes[word], indices, strict=False)
            where = ", ".join(f"{t.kind[:-1]} {'*' if i == ANY else t.names[i]!r}" for t, i in named)
            raise self.source.error(token.start, f"the probability {values[values < 0][0]:g} for {where} is negative")

    def _rules(self, word: str) -> Rules:
        return {"T": self.draft.T, "O": self.draft.O, "OO": self.draft.O, "R": self.draft.R}[word]

    def _pattern(self, word: str, indices: Sequence) -> tuple:
        """The indices of a rule: the state before, which `O:` does not name, is any."""
        return (indices[0], ANY, *indices[1:]) if word == "O" else tuple(indices)

    def _expected(self, word: str, left: Sequence[Things]) -> str:
        sizes = " x ".join(str(len(things)) for things in left)
        names = " x ".join(things.kind for things in left)
        words = {"T": ["uniform", "reset"], "O": ["uniform"], "OO": ["uniform"], "R": []}[word]
        if word in ("T", "O") and len(left) == 2:
            words = ["identity", *words]
        return ", ".join([f"{sizes} numbers ({names})", *words])
