"""The folder of a sweep. The files in it are the ledger: what is finished is there, what is not there is to be run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from asymrl.learning.settings import Settings
from asymrl.runs.batch import Batch
from asymrl.runs.files import UNFINISHED, Lock, RunError, write_whole
from asymrl.runs.options import SETTINGS
from asymrl.sweeps.cells import Cell, cells_of
from asymrl.sweeps.in_flight import Saved
from asymrl.sweeps.results import Results, describe


class SweepFolder:
    """A folder with `cells/` (finished), `in-flight/` (checkpoints), `failures.json` and, once collected, tables.

    Reading needs nothing more; to write, the folder must be taken, which locks it until `release`.
    """

    def __init__(self, path: Path, lock: Lock | None = None):
        self.path, self._lock = path, lock

    @classmethod
    def take(cls, path: Path) -> SweepFolder:
        """The folder, to write in it. Raises RunError if it can't be made, or another process has it."""
        folder = cls(path)
        try:
            for each in (folder.cells, folder.in_flight):
                each.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"{path}: can not be made a folder: {error.strerror}") from error
        folder._lock = Lock(path)
        for each in (folder.cells, folder.in_flight, path):
            for left in each.glob(f"*{UNFINISHED}"):
                left.unlink(missing_ok=True)
        return folder

    def release(self) -> None:
        if self._lock:
            self._lock.release()

    @property
    def cells(self) -> Path:
        return self.path / "cells"

    @property
    def in_flight(self) -> Path:
        return self.path / "in-flight"

    @property
    def table_file(self) -> Path:
        return self.path / "results.parquet"

    def result_files(self) -> list[Path]:
        return sorted(self.cells.glob("*.npz"))

    def finished(self) -> set[Cell]:
        """The cells that need not be run again: complete ones, and those whose own numbers broke them."""
        found: set[Cell] = set()
        for path in self.result_files():
            found.update(cells_of(Batch.from_json(describe(path), str(path))))
        return found

    def results(self) -> Iterator[Results]:
        for path in self.result_files():
            yield Results.read(path)

    def write(self, results: Results) -> None:
        """Keeps finished cells; what was in flight of them, and what failed before, is over."""
        write_whole(self.cells / f"{_name(results.batch)}.npz", results.to_bytes())
        self.forget(results.batch)
        if self.failures().keys() & set(map(label, cells_of(results.batch))):
            self._write_failures(self._failures_without(cells_of(results.batch)))

    def save(self, saved: Saved) -> None:
        """Keeps a batch in flight."""
        write_whole(self._in_flight(saved.batch), saved.to_bytes())

    def forget(self, batch: Batch) -> None:
        self._in_flight(batch).unlink(missing_ok=True)

    def saved(self, wanted: Iterable[Cell], finished: set[Cell], say: Callable[[str], None]) -> Iterator[Saved]:
        """Batches in flight, or what of them is wanted. A damaged one is removed: its cells begin again."""
        left = set(wanted) - finished
        newest_first = sorted(self.in_flight.glob("*.npz"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in newest_first:
            try:
                saved = Saved.read(path)
            except RunError as error:
                say(f"{error}; its cells begin again")
                path.unlink(missing_ok=True)
                continue
            cells = cells_of(saved.batch)
            if finished.issuperset(cells):
                path.unlink(missing_ok=True)
            rows = [i for i, cell in enumerate(cells) if cell in left]
            left.difference_update(cells)
            if rows:
                yield saved if len(rows) == len(cells) else saved.only(rows)

    def failures(self) -> dict[str, str]:
        """Why cells could not be run, by what they are."""
        file = self.path / "failures.json"
        try:
            return dict(json.loads(file.read_text())) if file.exists() else {}
        except (OSError, ValueError) as error:
            raise RunError(f"{file}: damaged: {error}; remove it") from error

    def record_failure(self, batch: Batch, reason: str) -> None:
        """Notes why the cells of a batch could not be run; the next sweep tries them again."""
        self._write_failures({**self.failures(), **{label(cell): reason for cell in cells_of(batch)}})

    def _failures_without(self, cells: Iterable[Cell]) -> dict[str, str]:
        over = set(map(label, cells))
        return {label: reason for label, reason in self.failures().items() if label not in over}

    def _write_failures(self, failures: Mapping[str, str]) -> None:
        write_whole(self.path / "failures.json", (json.dumps(failures, indent=1) + "\n").encode())

    def _in_flight(self, batch: Batch) -> Path:
        return self.in_flight / f"{_name(batch)}.npz"


def _name(batch: Batch) -> str:
    """A name for the file of a batch that no other batch has."""
    digest = hashlib.sha256(json.dumps(batch.to_json(), sort_keys=True).encode()).hexdigest()[:12]
    return re.sub(r"[^\w.-]+", "-", f"{batch.first.world}_{batch.first.method}_{digest}")


def label(cell: Cell) -> str:
    """What a cell is, in words: all settings that differ from the usual ones."""
    usual = Settings()
    own = [n for n in SETTINGS if n not in ("world", "method") and getattr(cell.settings, n) != getattr(usual, n)]
    described = [f"{name}={getattr(cell.settings, name)}" for name in own]
    return " ".join([cell.settings.world, cell.settings.method, *described, f"seed={cell.seed}"])
