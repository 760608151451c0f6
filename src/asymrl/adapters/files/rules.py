"""Tables as the rules that a file gives for them. They are looked up where needed and never written out in full.

A rule sets a value for all places that agree with it in the indices that it names; the others are wildcards. The last
rule that agrees with a place wins, so a line such as `R: * : * : * : * 0` costs as much as it is long.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int, Int64

ANY = -1  # a wildcard in a pattern
NEVER = -1  # the order of a place that no rule speaks of


class Found(NamedTuple):
    """The last rule for each of n places: its order, `NEVER` where there is none, and its value."""

    order: Int64[np.ndarray, "n"]
    value: Float64[np.ndarray, "n"]


class TooManyError(ValueError):
    """More entries would have to be written out than allowed."""


class _Group:
    """The rules that name the same indices: packed indices, order in the file, value."""

    def __init__(self, named: tuple[int, ...]):
        self.named = named
        self.keys, self.orders, self.values = array("q"), array("q"), array("d")
        self._sorted: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def latest(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Keys in order, each once, with the order and value of its last rule."""
        if self._sorted is None:
            keys, orders = np.frombuffer(self.keys, np.int64), np.frombuffer(self.orders, np.int64)
            by_key = np.argsort(keys, kind="stable")  # within a key, rules stay in the order of the file
            last = by_key[np.flatnonzero(np.diff(keys[by_key], append=-1))]
            self._sorted = keys[last], orders[last], np.frombuffer(self.values)[last]
        return self._sorted


class Rules:
    """The rules for a table with these sizes. The last axis is that of the columns, the others make up a row."""

    def __init__(self, sizes: Sequence[int]):
        self.sizes = tuple(sizes)
        self.columns = self.sizes[-1]
        self._groups: dict[tuple[bool, ...], _Group] = {}

    def add(self, pattern: Sequence[int], order: int, value: float) -> None:
        """One rule; `pattern` has an index or `ANY` for each axis. Orders must not decrease."""
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
        """Many rules: some of the indices of the pattern are arrays, and their orders may be one, too."""
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
        """Whether there are any."""
        return bool(self._groups)

    def names(self, axis: int) -> bool:
        """Whether any rule names an index on this axis."""
        return any(axis in group.named for group in self._groups.values())

    def at(self, *places: Int[np.ndarray, "n"]) -> Found:
        """The last rule for each place, given by one index for each axis."""
        return self._last(self._groups.values(), places)

    def whole_rows(self, *rows: Int[np.ndarray, "n"]) -> Found:
        """The last rule for each row among those for all of its columns."""
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
                found, where = _search(keys[firsts] // self.columns, self._pack(group.named[:-1], rows))
                np.maximum(order, np.where(found, latest[where], NEVER), out=order)
        return order

    def nonzeros(
        self, rows: Sequence[Int[np.ndarray, "n"]], most: int, since: Int[np.ndarray, "n"] | None = None
    ) -> tuple[Int64[np.ndarray, "entries"], Int64[np.ndarray, "entries"], Float64[np.ndarray, "entries"]]:
        """The entries of these rows that are not zero: number of the row, column and value, sorted.

        Args:
            rows: an index for each axis but the last.
            most: how many may be written out.
            since: for each row, the order of the first rule that counts.

        Raises:
            TooManyError: if there are more.
        """
        whole = self.whole_rows(*rows)
        floor = whole.order if since is None else np.maximum(whole.order, since)
        filled = np.flatnonzero((whole.value != 0) & (whole.order >= floor))
        if filled.size * self.columns > most:
            raise TooManyError
        whole_places = (filled[:, None] * self.columns + np.arange(self.columns)).ravel()
        naming = [group for group in self._groups.values() if len(self.sizes) - 1 in group.named]
        places = [self._candidates(group, rows, floor, most) for group in naming]
        place = np.unique(np.concatenate([whole_places, *places]))
        if place.size > most:
            raise TooManyError
        row, column = np.divmod(place, self.columns)
        value = self.at(*(index[row] for index in rows), column).value
        possible = value != 0
        return row[possible], column[possible], value[possible]

    def _candidates(self, group: _Group, rows: Sequence[np.ndarray], floor: np.ndarray, most: int) -> np.ndarray:
        """Where rules that name a column put a value that is not zero, later than `floor` of the row."""
        keys, orders, values = group.latest()
        keys, orders = keys[values != 0], orders[values != 0]
        packed = self._pack(group.named[:-1], rows)
        first = np.searchsorted(keys, packed * self.columns)
        count = np.searchsorted(keys, (packed + 1) * self.columns) - first
        total = int(count.sum())
        if total > most:
            raise TooManyError
        row = np.repeat(np.arange(packed.size), count)
        rule = np.arange(total) + np.repeat(first - (np.cumsum(count) - count), count)
        later = orders[rule] > floor[row]
        return row[later] * self.columns + keys[rule[later]] % self.columns

    def _group(self, named: tuple[bool, ...]) -> _Group:
        group = self._groups.get(named)
        if group is None:
            group = self._groups[named] = _Group(tuple(i for i, is_named in enumerate(named) if is_named))
        return group

    def _last(self, groups: Iterable[_Group], places: Sequence[np.ndarray]) -> Found:
        order, value = np.full(places[0].size, NEVER), np.zeros(places[0].size)
        for group in groups:
            keys, orders, values = group.latest()
            found, where = _search(keys, self._pack(group.named, places))
            later = found & (orders[where] > order)
            order[later], value[later] = orders[where[later]], values[where[later]]
        return Found(order, value)

    def _pack(self, named: Sequence[int], places: Sequence[np.ndarray]) -> Int64[np.ndarray, "n"]:
        """The key under which a group keeps each place."""
        key = np.zeros(places[0].size, np.int64)
        for axis in named:
            key = key * self.sizes[axis] + places[axis]
        return key


def _search(keys: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether each key is among the sorted `keys`, and where."""
    where = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return keys[where] == wanted, where
