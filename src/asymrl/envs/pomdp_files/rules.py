"""Tables as the rules that a file gives for them, looked up where needed and never expanded in full.

A rule sets a value wherever the indices it names match; the others are wildcards. The last matching rule wins. A line
such as `R: * : * : * : * 0` is a single rule, whatever the size of the table.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int, Int64

ANY = -1  # a wildcard in a pattern
NEVER = -1  # the order where no rule matches


class LastRules(NamedTuple):
    """The last rule that matches each of n places: its order, or `NEVER`, and its value."""

    order: Int64[np.ndarray, "n"]
    value: Float64[np.ndarray, "n"]


class TooManyEntriesError(ValueError):
    """A table has more non-zero entries than allowed."""


class _Group:
    """The rules that name the same axes: packed indices, order in the file, value."""

    def __init__(self, named: tuple[int, ...]):
        self.named = named
        self.keys, self.orders, self.values = array("q"), array("q"), array("d")
        self._sorted: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def latest(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The distinct keys, sorted, with the order and value of their last rules."""
        if self._sorted is None:
            keys, orders = np.frombuffer(self.keys, np.int64), np.frombuffer(self.orders, np.int64)
            by_key = np.argsort(keys, kind="stable")  # rules with the same key stay in the order of the file
            last = by_key[np.flatnonzero(np.diff(keys[by_key], append=-1))]
            self._sorted = keys[last], orders[last], np.frombuffer(self.values)[last]
        return self._sorted


class Rules:
    """The rules for a table of these sizes. The last axis is the column, the others together are the row."""

    def __init__(self, sizes: Sequence[int]):
        self.sizes = tuple(sizes)
        self.columns = self.sizes[-1]
        self._groups: dict[tuple[bool, ...], _Group] = {}

    def add(self, pattern: Sequence[int], order: int, value: float) -> None:
        """Adds a rule; `pattern` has an index or `ANY` for each axis. Orders must not decrease."""
        key = 0
        for index, size in zip(pattern, self.sizes, strict=True):
            if index != ANY:
                key = key * size + index
        group = self._group(tuple(index != ANY for index in pattern))
        group.keys.append(key)
        group.orders.append(order)
        group.values.append(value)

    def add_many(
        self, pattern: Sequence[Int[np.ndarray, "n"] | int], order: int | np.ndarray, value: np.ndarray
    ) -> None:
        """Adds n rules: some indices of the pattern are arrays `[n]`, and `order` may be one as well."""
        if not len(value):
            return
        key = np.zeros(len(value), np.int64)
        for index, size in zip(pattern, self.sizes, strict=True):
            if isinstance(index, np.ndarray) or index != ANY:
                key = key * size + index
        group = self._group(tuple(isinstance(index, np.ndarray) or index != ANY for index in pattern))
        group.keys.frombytes(key.tobytes())
        group.orders.frombytes(np.broadcast_to(np.int64(order), len(value)).tobytes())
        group.values.frombytes(np.asarray(value, np.float64).tobytes())

    @property
    def given(self) -> bool:
        """Whether there is any rule."""
        return bool(self._groups)

    def depends_on(self, axis: int) -> bool:
        """Whether any rule names an index on this axis."""
        return any(axis in group.named for group in self._groups.values())

    def at(self, *places: Int[np.ndarray, "n"]) -> LastRules:
        """The last rule for each place; places are given by one index array per axis."""
        return self._last(self._groups.values(), places)

    def whole_rows(self, *rows: Int[np.ndarray, "n"]) -> LastRules:
        """The last of the rules for all columns of a row, for each row."""
        last = len(self.sizes) - 1
        return self._last([group for group in self._groups.values() if last not in group.named], rows)

    def touched(self, *rows: Int[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
        """The order of the last rule for any column of each row."""
        order, last = self.whole_rows(*rows).order, len(self.sizes) - 1
        for group in self._groups.values():
            if last in group.named:
                keys, orders, _ = group.latest()
                firsts = np.flatnonzero(np.diff(keys // self.columns, prepend=-1))
                latest = np.maximum.reduceat(orders, firsts)
                hits, where = _search(keys[firsts] // self.columns, self._pack(group.named[:-1], rows))
                np.maximum(order, np.where(hits, latest[where], NEVER), out=order)
        return order

    def nonzeros(
        self, rows: Sequence[Int[np.ndarray, "n"]], most: int, since: Int[np.ndarray, "n"] | None = None
    ) -> tuple[Int64[np.ndarray, "entries"], Int64[np.ndarray, "entries"], Float64[np.ndarray, "entries"]]:
        """The non-zero entries of these rows: number of the row, column and value, sorted.

        Args:
            rows: an index array for each axis but the last.
            most: how many entries are allowed.
            since: for each row, the order below which rules are ignored.

        Raises:
            TooManyEntriesError: if there are more.
        """
        whole = self.whole_rows(*rows)
        floor = whole.order if since is None else np.maximum(whole.order, since)
        filled = np.flatnonzero((whole.value != 0) & (whole.order >= floor))
        if filled.size * self.columns > most:
            raise TooManyEntriesError
        whole_places = (filled[:, None] * self.columns + np.arange(self.columns)).ravel()
        naming = [group for group in self._groups.values() if len(self.sizes) - 1 in group.named]
        places = [self._candidates(group, rows, floor, most) for group in naming]
        place = np.unique(np.concatenate([whole_places, *places]))
        if place.size > most:
            raise TooManyEntriesError
        row, column = np.divmod(place, self.columns)
        value = self.at(*(index[row] for index in rows), column).value
        possible = value != 0
        return row[possible], column[possible], value[possible]

    def _candidates(self, group: _Group, rows: Sequence[np.ndarray], floor: np.ndarray, most: int) -> np.ndarray:
        """The places where rules that name a column put non-zero values, later than `floor` of the row."""
        keys, orders, values = group.latest()
        keys, orders = keys[values != 0], orders[values != 0]
        packed = self._pack(group.named[:-1], rows)
        first = np.searchsorted(keys, packed * self.columns)
        count = np.searchsorted(keys, (packed + 1) * self.columns) - first
        total = int(count.sum())
        if total > most:
            raise TooManyEntriesError
        row = np.repeat(np.arange(packed.size), count)
        rule = np.arange(total) + np.repeat(first - (np.cumsum(count) - count), count)
        later = orders[rule] > floor[row]
        return row[later] * self.columns + keys[rule[later]] % self.columns

    def _group(self, named: tuple[bool, ...]) -> _Group:
        group = self._groups.get(named)
        if group is None:
            group = self._groups[named] = _Group(tuple(i for i, is_named in enumerate(named) if is_named))
        return group

    def _last(self, groups: Iterable[_Group], places: Sequence[np.ndarray]) -> LastRules:
        order, value = np.full(places[0].size, NEVER), np.zeros(places[0].size)
        for group in groups:
            keys, orders, values = group.latest()
            hits, where = _search(keys, self._pack(group.named, places))
            later = hits & (orders[where] > order)
            order[later], value[later] = orders[where[later]], values[where[later]]
        return LastRules(order, value)

    def _pack(self, named: Sequence[int], places: Sequence[np.ndarray]) -> Int64[np.ndarray, "n"]:
        """The key under which a group keeps each place."""
        key = np.zeros(places[0].size, np.int64)
        for axis in named:
            key = key * self.sizes[axis] + places[axis]
        return key


def _search(keys: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether each key is among the sorted `keys`, and where."""
    where = np.minimum(np.searchsorted(keys, queries), keys.size - 1)
    return keys[where] == queries, where
