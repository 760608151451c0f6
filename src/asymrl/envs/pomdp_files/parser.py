"""The grammar of `.pomdp` files: from text to rules, in the order of the file."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np

from asymrl.envs.pomdp_files.rules import ANY, Rules
from asymrl.envs.pomdp_files.tokens import (
    NAME,
    NUMBER,
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
# A large file consists almost entirely of entries such as `T: a : s : s' p`, so these are matched as a whole.
_INDEX = rf"\s*+:\s*+({NAME}|[0-9]++|\*)"
_ENTRY = re.compile(rf"\s*+([TOR])\b{_INDEX * 3}(?>(?:{_INDEX})?)\s++({NUMBER})(?!\S)")


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


@dataclass
class ParsedFile:
    """The statements of a file as rules. One that begins at character q has the order 2 q (whole rows) or 2 q + 1."""

    source: SourceText
    header: Header
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
    parsed = ParsedFile(source, take_header(tokens, limits))
    tables = _Tables(parsed, tokens)
    while tables.take():
        pass
    return parsed


class _Tables:
    """Parses the statements after the header: `start`, T, O, OO and R."""

    def __init__(self, parsed: ParsedFile, tokens: Tokens):
        self.parsed, self.tokens, self.source = parsed, tokens, tokens.source
        header = parsed.header
        a, s, o = header.actions, header.states, header.observations
        self.axes: dict[str, tuple[Labels, ...]] = {
            "T": (a, s, s), "O": (a, s, o), "OO": (a, s, s, o), "R": (a, s, s, o)
        }  # fmt: skip
        self.rules = {"T": parsed.T, "O": parsed.O, "OO": parsed.O, "R": parsed.R}

    def take(self) -> bool:
        """Takes one statement. False at the end of the file."""
        if self._take_entry():
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

    def _take_entry(self) -> bool:
        """Takes a valid entry at once. False if there is none here; `_take_table` says what is wrong with it."""
        match = _ENTRY.match(self.tokens.text, self.tokens.place)
        if match is None:
            return False
        word, *names, number = match.groups()
        axes, value = self.axes[word], float(number)
        if (names[3] is None) is (len(axes) == 4) or not (value >= 0 or word == "R") or not math.isfinite(value):
            return False
        indices = [labels.index.get(name) for labels, name in zip(axes, names, strict=False)]
        if None in indices:
            return False
        self._set(word, 2 * match.start(1), cast("list[int]", indices), value)
        self.tokens.place = match.end()
        return True

    def _take_start(self, token: Token) -> None:
        if self.parsed.start is not None:
            raise self.source.error(token.start, "there is already a `start`")
        if self.parsed.resets.given:
            raise self.source.error(token.start, "`start` must come before the first `reset`, which refers to it")
        self.parsed.start = take_start(self.tokens, self.parsed.header.states)

    def _take_table(self, word: str) -> None:
        order = 2 * self.tokens.take().start
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
        self.rules[word].add(self._pattern(word, indices), order if indices[-1] == ANY else order + 1, value)

    def _set_by_word(self, word: str, order: int, indices: list[int], rest: Sequence[Labels], token: Token) -> None:
        columns, rules = len(rest[-1]), self.rules[word]
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
        rules = self.rules[word]
        rules.add(self._pattern(word, [*indices, *([ANY] * len(rest))]), order, 0.0)
        nonzero = np.flatnonzero(values)
        places = np.unravel_index(nonzero, shape)
        rules.add_many(self._pattern(word, [*indices, *places]), order + 1, values[nonzero])

    def _check(self, word: str, token: Token, indices: Sequence[int], values: np.ndarray) -> None:
        if word != "R" and (values < 0).any():
            named = zip(self.axes[word], indices, strict=False)
            where = ", ".join(f"{t.kind[:-1]} {'*' if i == ANY else t.names[i]!r}" for t, i in named)
            raise self.source.error(token.start, f"the probability {values[values < 0][0]:g} for {where} is negative")

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
