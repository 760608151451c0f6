"""The runs of a batch on their device: all of them first; later, in a narrower program, those that still train."""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Int

from asymrl.learning.numbers import Numbers
from asymrl.learning.state import RunState
from asymrl.runs.arrays import from_arrays
from asymrl.runs.batch import Batch
from asymrl.runs.progress import Snapshot
from asymrl.sweeps.compiled import Compiled
from asymrl.sweeps.in_flight import Saved


class Lanes:
    """Each run of a batch that still trains has a lane of the compiled program.

    Lanes without a run fill the program up to its width. They repeat a run and have nothing to train, but cost as
    much; so do the lanes of runs that are over, until there are few enough others for a program of half the width.
    """

    def __init__(self, compiled: Compiled, batch: Batch, saved: Saved | None):
        self.compiled, self.batch = compiled, batch
        self._rows = np.arange(len(batch))  # which run of the batch is in each lane
        self._all: RunState | None = None  # all runs of the batch, as they were when the lanes became fewer
        self._runs = self._first_runs(saved)
        self._numbers = self._numbers_of_lanes()
        self.snapshot = Snapshot.of(self._runs, len(batch))

    @property
    def width(self) -> int:
        return self.compiled.count

    def train(self, updates: int) -> None:
        """At most so many further updates of each run."""
        self._runs = self.compiled.train(self._runs, self._numbers, updates)
        seen = Snapshot.of(self._runs, len(self._rows))
        if self._all is not None:
            seen = Snapshot(*map(functools.partial(_put_back, rows=self._rows), self.snapshot, seen))
        self.snapshot = seen

    def runs(self) -> RunState:
        """All runs of the batch, the first ones along the leading axis of every array."""
        if self._all is None:
            return self._runs
        return _returned(self._all, self._runs, self._rows)

    def narrow(self, width: int, rows: Int[np.ndarray, "lane"]) -> None:
        """Goes on with only some runs of the batch, in a program of this width. Compiles it if need be."""
        compiled = self.compiled.narrower(width)
        self._all = self.runs()
        self._rows, self.compiled = rows, compiled
        self._runs = _taken(self._all, self._filled())
        self._numbers = self._numbers_of_lanes()

    def _filled(self) -> Int[np.ndarray, "lane"]:
        """The runs in the lanes, with one of them repeated in the lanes that are left."""
        return np.concatenate([self._rows, np.repeat(self._rows[:1], self.width - len(self._rows))])

    def _first_runs(self, saved: Saved | None) -> RunState:
        if saved is None:
            return self.compiled.start(np.asarray(self.batch.seeds)[self._filled()])
        return self.compiled.place(_taken(from_arrays(self.batch, saved.arrays, saved.key_kind), self._filled()))

    def _numbers_of_lanes(self) -> Numbers:
        numbers = self.compiled.numbers([self.batch.settings[row] for row in self._filled()])
        real = np.arange(self.width) < len(self._rows)
        return self.compiled.place(numbers._replace(steps=jax.numpy.where(real, numbers.steps, 0)))


def fewer_lanes(width: int, active: int) -> int:
    """The narrowest of a width, its half, its quarter and so on, that has room for the active runs."""
    while width > 1 and (half := (width + 1) // 2) >= active:
        width = half
    return width


@eqx.filter_jit  # as a whole: compiled one by one, so many small copies take seconds
def _taken(runs: RunState, rows: Int[np.ndarray, "lane"]) -> RunState:
    return jax.tree.map(lambda leaf: leaf[rows] if eqx.is_array(leaf) else leaf, runs)


@eqx.filter_jit
def _returned(runs: RunState, lanes: RunState, rows: Int[np.ndarray, "lane"]) -> RunState:
    """All runs, with what the lanes of these rows have become."""

    def leaf(old: Any, lane: Any) -> Any:
        return old.at[rows].set(lane[: len(rows)]) if eqx.is_array(old) else old

    return jax.tree.map(leaf, runs, lanes)


def _put_back(before: np.ndarray, lanes: np.ndarray, *, rows: Int[np.ndarray, "lane"]) -> np.ndarray:
    after = before.copy()
    after[rows] = lanes
    return after
