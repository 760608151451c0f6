"""Saved runs: their arrays in memory and on disk, where they were trained, and how to join several.

In memory an array of a run is named by the fields that lead to it, such as `actor.history.memory.hidden_bias`. The
names in checkpoints are those that the fields had when the format was fixed. Only this file knows the difference:

* A field is renamed, or moves into another module: add `(path in code, path on disk)` to `RENAMED`. A path is one
  name or several joined by dots, and is replaced wherever it occurs as a whole, so that one line holds for the actor,
  the critic, the targets and the moments of their optimisers. With a leading dot it is replaced only at the beginning.
  `("features", "phi_o")` writes `actor.history.features.table` as `actor.history.phi_o.table`, and
  `(".rng", "key")` writes the field `rng` of the state as `key`. The lines are applied from the first to the last when
  writing, and backwards when reading; no name that a line makes may be another field's own.
* A field is gone: add its name on disk, or the beginning of it up to a dot, to `RETIRED`. It is skipped when reading.
* A field is new, and runs that were saved before it existed have to go on: add its path in code to `ADDED`, with the
  number that it begins with. Its shape and type are those of the state.

`tests/runs/stores/test_old_stores.py` opens folders of runs that were written before any of these lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from asymrl.runs.runs import Run

T = TypeVar("T")

RENAMED: tuple[tuple[str, str], ...] = ()
RETIRED: tuple[str, ...] = ()
ADDED: dict[str, float] = {}

SCALE = ":scale"  # name suffix of the scales of a quantised array
SMALL = 4096  # entries: arrays up to this size stay in half precision
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


def to_disk(arrays: Mapping[str, T]) -> dict[str, T]:
    """The arrays of runs, or what describes them, by their names on disk."""
    return {_replaced(name, RENAMED): array for name, array in arrays.items()}


def from_disk(arrays: Mapping[str, T]) -> dict[str, T]:
    """The inverse of `to_disk`, without the arrays of fields that are gone."""
    lines = [(f".{disk}", code[1:]) if code.startswith(".") else (disk, code) for code, disk in reversed(RENAMED)]
    gone = tuple(f"{name}." for name in RETIRED)
    return {_replaced(name, lines): array for name, array in arrays.items() if not f"{name}.".startswith(gone)}


def _replaced(name: str, lines: Iterable[tuple[str, str]]) -> str:
    """A name with the first path of each line replaced by the second. What follows a colon is not part of a path."""
    path, colon, rest = name.partition(":")
    for old, new in () if name.startswith(EXTRA) else lines:
        beginning = "^" if old.startswith(".") else r"(?<![^.])"
        path = re.sub(f"{beginning}{re.escape(old.lstrip('.'))}(?![^.])", new, path)
    return f"{path}{colon}{rest}"


def quantised(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of runs `[run, ...]` with their actors and critics in eight bits per weight, to use but not to train.

    A weight is a whole number from -127 to 127 times a scale, one for each column of its array.
    """
    rounded: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if not name.startswith(("actor.", "critic.")) or not np.issubdtype(array.dtype, np.floating):
            rounded[name] = array
        elif array.ndim < 3 or array[0].size <= SMALL:
            rounded[name] = array.astype(np.float16)
        else:
            scale = np.maximum(np.abs(array).max(-2) / 127, np.finfo(np.float16).tiny).astype(np.float16)
            codes = np.rint(array / scale.astype(np.float32)[..., None, :])
            rounded |= {name: np.clip(codes, -127, 127).astype(np.int8), f"{name}{SCALE}": scale}
    return rounded


def restored(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays with all networks in single precision. Raises ValueError, naming an array that is damaged."""
    whole: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if (scale := arrays.get(f"{name}{SCALE}")) is not None:
            if array.ndim < 2 or scale.shape != (*array.shape[:-2], array.shape[-1]):
                raise ValueError(f"array {name} does not fit its scales")
            whole[name] = array.astype(np.float32) * scale.astype(np.float32)[..., None, :]
        elif not name.endswith(SCALE):
            whole[name] = array.astype(np.float32) if array.dtype == np.float16 else array
    return whole
