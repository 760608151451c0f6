"""Checkpoints: the states of some runs in a safetensors file, and a manifest to verify it by.

A checkpoint exists once its manifest does. Loading executes nothing. The newest sound checkpoint that holds a run is
the one that counts; the one before it is kept in case the newest is damaged.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from asymrl.reading import UnreadableError, read_json, read_regular
from asymrl.runs import runs as run_lists
from asymrl.runs.arrays import DeviceLayout, SavedRuns, from_disk, restored, to_disk
from asymrl.runs.files import RunError, write_whole
from asymrl.runs.runs import MAY_GROW, Run

FORMAT = 3
REPLAY = "replay."  # name prefix on disk of the arrays of a replay
ALWAYS_THERE = ("timesteps", "updates", "logged", "curve")  # in the state of any run


class DamagedError(RunError):
    """A checkpoint is not what was written."""


class Checkpoints:
    """The checkpoints in a folder, and which runs each of them holds."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.layout: DeviceLayout | None = None
        """Where runs are trained now, to be written into their checkpoints."""
        self._index: dict[Path, tuple[str, frozenset[Any]]] = {}  # pool and keys of the runs

    def save(self, saved: SavedRuns, pool: str) -> Path:
        """Writes a checkpoint of some runs and returns its manifest. `pool` names the pool that trains them.

        Raises:
            StorageError: for example if there is no room; earlier checkpoints are still there.
        """
        import safetensors.numpy

        arrays = to_disk(saved.arrays)
        written = {name: np.ascontiguousarray(without_tail(name, array)) for name, array in arrays.items()}
        data = safetensors.numpy.save(written)
        number = max((number for number, _ in manifests(self.folder)), default=0) + 1
        file = self.folder / f"{number:06d}.safetensors"
        manifest = {
            "format": FORMAT,
            "pool": pool,
            **({} if self.layout is None else {"layout": self.layout._asdict()}),
            **run_lists.to_json(saved.runs),
            "updates": saved.arrays["updates"].tolist(),
            "timesteps": saved.arrays["timesteps"].tolist(),
            "seconds": [round(seconds, 3) for seconds in saved.seconds],
            "key_kind": saved.key_kind,
            "file": file.name,
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "arrays": {name: {"dtype": str(a.dtype), "shape": list(a.shape)} for name, a in arrays.items()},
        }
        manifest["digest"] = digest_of(manifest)
        write_whole(file, data)
        path = file.with_suffix(".json")
        write_whole(path, json.dumps(manifest, indent=1).encode())
        self._index[path] = pool, frozenset(run.key for run in saved.runs)
        return path

    def load(self, wanted: Sequence[Run], say: Callable[[str], None]) -> Iterator[SavedRuns]:
        """The newest sound states of the wanted runs that have one, checkpoint by checkpoint, newest first.

        Args:
            wanted: runs of the store, which may be longer by now than when they were saved.
            say: called about each damaged checkpoint that is skipped.

        Raises:
            RunError: if every checkpoint is damaged, or one is of another version.
        """
        missing = {run.key: run for run in wanted}
        damaged: DamagedError | None = None
        for _, path in manifests(self.folder):
            if not missing:
                return
            try:
                manifest = read_manifest(path)
                runs = run_lists.from_json(manifest, str(path))
                rows = [row for row, run in enumerate(runs) if run.key in missing]
                arrays = _read_arrays(path, manifest) if rows else {}
            except DamagedError as error:
                damaged = damaged or error
                say(f"{error}; going back to the checkpoint before it")
                continue
            if not rows:
                continue
            now = tuple(missing.pop(runs[row].key) for row in rows)
            for row, run in zip(rows, now, strict=True):
                _check_length(path, runs[row], run)
            saved = SavedRuns(runs, from_disk(arrays), manifest["key_kind"], tuple(manifest["seconds"])).only(rows)
            yield saved._replace(runs=now, layout=DeviceLayout.from_json(manifest.get("layout")))
        if missing and damaged is not None and not self._has_one_whole():
            raise RunError(
                f"{damaged}. There is no other checkpoint to go back to; nothing was changed. Restore the file, or "
                f"remove the folder {self.folder} to start again from the beginning"
            )

    def _has_one_whole(self) -> bool:
        """Whether some checkpoint is not damaged, so that runs without a state have simply not begun."""
        for _, path in manifests(self.folder):
            with contextlib.suppress(DamagedError):
                _read_arrays(path, read_manifest(path))
                return True
        return False

    def check_settings(self, wanted: Sequence[Run]) -> None:
        """Raises RunError if settings.json was edited since the newest checkpoint, so that it holds no wanted run.

        Names the first difference.
        """
        for _, path in manifests(self.folder)[:1]:
            with contextlib.suppress(DamagedError):
                saved_runs = run_lists.from_json(read_manifest(path), str(path))
                if {run.key for run in saved_runs} & {run.key for run in wanted}:
                    return
                _refuse_other_runs(path, saved_runs, wanted)

    def remove_superseded(self, finished: Collection[Any] = ()) -> None:
        """Removes checkpoints that are not needed: the keys of all their runs are in newer ones, or `finished`.

        The second newest of each pool stays, in case the newest is damaged.
        """
        newer, count = set(finished), collections.Counter[str]()
        for _, path in manifests(self.folder):
            pool, keys = self._held(path)
            count[pool] += 1
            if keys and keys <= newer and count[pool] > 2:
                self._remove(path)
            newer |= keys

    def clear(self) -> None:
        """Removes all checkpoints."""
        for _, path in manifests(self.folder):
            self._remove(path)

    def _held(self, path: Path) -> tuple[str, frozenset[Any]]:
        if path not in self._index:
            try:
                manifest = read_manifest(path)
                runs = run_lists.from_json(manifest, str(path))
                self._index[path] = manifest.get("pool", ""), frozenset(run.key for run in runs)
            except RunError:  # a damaged one stays: somebody may want to look at it
                self._index[path] = "damaged", frozenset()
        return self._index[path]

    def _remove(self, path: Path) -> None:
        with contextlib.suppress(OSError):  # what cannot be removed does no harm
            path.unlink()
            path.with_suffix(".safetensors").unlink(missing_ok=True)
        self._index.pop(path, None)


def manifests(folder: Path) -> list[tuple[int, Path]]:
    """The manifests in a folder with their numbers, newest first."""
    named = ((re.fullmatch(r"(\d{6,})\.json", path.name), path) for path in folder.glob("*.json"))
    return sorted(((int(match[1]), path) for match, path in named if match), reverse=True)


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest whose contents match its digest. Raises DamagedError, or RunError for another version."""
    try:
        manifest = read_json(path)
        version = manifest["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path}: damaged: it is not the manifest of a checkpoint") from error
    if version != FORMAT:
        raise RunError(
            f"{path}: a checkpoint of format {version}, but this version of asymrl reads format {FORMAT}; "
            "continue with the version that wrote it"
        )
    if manifest.get("digest") != digest_of(manifest):
        raise DamagedError(f"{path}: damaged: its contents do not match its digest")
    if problem := _manifest_problem(manifest, path):
        raise DamagedError(f"{path}: damaged: {problem}")
    return manifest


def _manifest_problem(manifest: Mapping[str, Any], path: Path) -> str | None:
    """What is wrong with a manifest whose digest matches; somebody may have forged both."""
    if manifest.get("file") != path.with_suffix(".safetensors").name:
        return "it names another file"
    kinds = {"sha256": str, "key_kind": str, "arrays": dict, "pool": str, "bytes": int, "runs": list, "seconds": list}
    for name, kind in kinds.items():
        if not isinstance(manifest.get(name), kind):
            return f"its {name} is {manifest.get(name)!r:.40}"
    seconds = manifest["seconds"]
    if len(seconds) != len(manifest["runs"]) or not all(isinstance(each, int | float) for each in seconds):
        return "its seconds are not a number for each run"
    return None


def without_tail(name: str, array: np.ndarray) -> np.ndarray:
    """An array `[run, row, ...]` of a replay without its last rows that are zero in all runs; others unchanged.

    A run seldom fills its whole replay.
    """
    if not name.startswith(REPLAY) or array.ndim < 2:
        return array
    used = array.reshape(len(array), array.shape[1], -1).any(axis=(0, 2))
    return array[:, : int(np.flatnonzero(used)[-1]) + 1 if used.any() else 0]


def with_tail(name: str, array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """An array of a replay as it was before `without_tail`. Raises ValueError if it cannot have had that shape."""
    if not name.startswith(REPLAY) or array.shape == (shape := tuple(shape)):
        return array
    if len(shape) != array.ndim or (shape[0], *shape[2:]) != (array.shape[0], *array.shape[2:]):
        raise ValueError(f"array {name} is {list(array.shape)}, expected {list(shape)}")
    whole = np.zeros(shape, array.dtype)
    whole[:, : array.shape[1]] = array
    return whole


def _read_arrays(path: Path, manifest: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of the manifest at `path`, verified by it. Raises DamagedError."""
    import safetensors
    import safetensors.numpy

    file = path.with_name(manifest["file"])
    try:
        data = read_regular(file, manifest["bytes"])
    except OSError as error:
        raise DamagedError(f"{file}: damaged: {error.strerror}") from error
    except UnreadableError as error:
        raise DamagedError(str(error).replace(": ", ": damaged: ", 1)) from error
    if hashlib.sha256(data).hexdigest() != manifest["sha256"]:
        raise DamagedError(f"{file}: damaged: its {len(data)} bytes do not match the checksum in its manifest")
    try:
        arrays = safetensors.numpy.load(data)
    except Exception as error:  # whatever the library raises for a malicious file
        raise DamagedError(f"{file}: damaged: {' '.join(str(error).split())}") from error
    try:
        shapes = {name: each["shape"] for name, each in manifest["arrays"].items()}
        arrays = restored({name: with_tail(name, array, shapes[name]) for name, array in arrays.items()})
    except (ValueError, TypeError, KeyError, MemoryError) as error:
        raise DamagedError(f"{path}: damaged: it does not describe its arrays") from error
    if problem := _arrays_problem(arrays, len(manifest["runs"])):
        raise DamagedError(f"{file}: damaged: {problem}")
    return arrays


def _arrays_problem(arrays: Mapping[str, np.ndarray], runs: int) -> str | None:
    for name in ALWAYS_THERE:
        if name not in arrays:
            return f"array {name} is missing"
    for name, array in arrays.items():
        if array.ndim < 1 or array.shape[0] != runs:
            return f"array {name} is {list(array.shape)}, not of {runs} runs"
    if arrays["curve"].ndim != 3 or any(arrays[name].ndim != 1 for name in ("timesteps", "logged")):
        return "the learning curve is not one"
    return None


def _check_length(path: Path, then: Run, now: Run) -> None:
    """Refuses the state of a run that is shorter now, or whose curve has points at other steps."""
    if now.settings.steps < then.settings.steps or now.settings.log_period != then.settings.log_period:
        raise RunError(
            f"{path}: made with {then.settings.steps} steps and {then.settings.log_points} log_points, but "
            f"settings.json says {now.settings.steps} and {now.settings.log_points}; put them back, and use asymrl "
            "resume --steps for a longer run"
        )


def _refuse_other_runs(path: Path, saved_runs: Sequence[Run], current_runs: Sequence[Run]) -> NoReturn:
    by_seed = {run.seed: run for run in current_runs}
    for then, now in ((run, by_seed[run.seed]) for run in saved_runs if run.seed in by_seed):
        for name in (name for name in run_lists.differing([then, now]) if name not in MAY_GROW):
            old, new = getattr(then.settings, name), getattr(now.settings, name)
            raise RunError(
                f"{path}: made with {name} = {old!r}, but settings.json says {new!r} for seed {then.seed}; put it "
                "back, or start a new run"
            )
    raise RunError(f"{path}: a checkpoint of seeds {[run.seed for run in saved_runs]}, not of {sorted(by_seed)}")


def digest_of(manifest: Mapping[str, Any]) -> str:
    """The digest that a manifest must carry: of everything else in it."""
    rest = {name: value for name, value in manifest.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
