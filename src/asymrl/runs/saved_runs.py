"""Saved runs: their arrays, where they were trained, and how to join several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from asymrl.runs.runs import Run

EXTRA = "extra."  # arrays that belong to a run but not to its state: what a probe has measured so far


class DeviceLayout(NamedTuple):
    """The devices, which decide how sums are rounded: bit-identical results need the same layout."""

    platform: str
    kind: str
    """Of the devices."""
    devices: int
    threads: int
    """That the process may use."""

    @property
    def described(self) -> str:
        return f"{self.devices} × {self.kind} ({self.platform}) with {self.threads} threads"

    @classmethod
    def from_json(cls, data: Any) -> DeviceLayout | None:
        """The inverse of `_asdict`; None for data that are not a layout."""
        if not isinstance(data, dict) or set(data) != set(cls._fields):
            return None
        kinds = {"platform": str, "kind": str, "devices": int, "threads": int}
        return cls(**data) if all(isinstance(data[name], kind) for name, kind in kinds.items()) else None


class SavedRuns(NamedTuple):
    """Some runs, as they were saved."""

    runs: tuple[Run, ...]
    arrays: dict[str, np.ndarray]
    """Everything in the states of the runs, each array `[run, ...]` under its path."""
    key_kind: str
    """Name of the random number generator."""
    seconds: tuple[float, ...]
    """Time that was spent on each run."""
    layout: DeviceLayout | None = None
    """Where they were trained last, if that is known."""

    def only(self, rows: Sequence[int]) -> SavedRuns:
        """Only the runs in these rows."""
        selection = slice(rows[0], rows[0] + 1) if len(rows) == 1 else list(rows)  # a view, where that is possible
        arrays = {name: array[selection] for name, array in self.arrays.items()}
        runs = tuple(self.runs[row] for row in rows)
        return SavedRuns(runs, arrays, self.key_kind, tuple(self.seconds[row] for row in rows))

    def states(self) -> dict[str, np.ndarray]:
        return {name: array for name, array in self.arrays.items() if not name.startswith(EXTRA)}

    def extras(self) -> dict[str, np.ndarray]:
        return {name.removeprefix(EXTRA): a for name, a in self.arrays.items() if name.startswith(EXTRA)}


def joined(parts: Sequence[SavedRuns]) -> SavedRuns:
    """Saved runs of one shape as one. Shorter curves and extras are filled up with NaN, or -1 for integers."""
    names = dict.fromkeys(name for part in parts for name in part.arrays)
    arrays = {name: _stacked(_each(parts, name)) for name in names}
    runs = tuple(run for part in parts for run in part.runs)
    return SavedRuns(runs, arrays, parts[0].key_kind, tuple(s for part in parts for s in part.seconds))


def _each(parts: Sequence[SavedRuns], name: str) -> list[np.ndarray]:
    """An array of each part; without points if it is an extra that the part does not have."""
    like = next(part.arrays[name] for part in parts if name in part.arrays)
    return [
        part.arrays.get(name, np.zeros((len(part.runs), 0, *like.shape[2:]), like.dtype))
        if name.startswith(EXTRA)
        else part.arrays[name]
        for part in parts
    ]


def _stacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    if len({array.shape[1:] for array in arrays}) == 1:
        return np.concatenate(arrays)
    points = max(array.shape[1] for array in arrays)
    return np.concatenate([filled_up(array, points) for array in arrays])


def filled_up(array: np.ndarray, points: int) -> np.ndarray:
    """An array `[run, point, ...]` with room for this many points."""
    missing = points - array.shape[1]
    empty = np.nan if np.issubdtype(array.dtype, np.floating) else -1
    return np.concatenate([array, np.full((array.shape[0], missing, *array.shape[2:]), empty, array.dtype)], axis=1)
