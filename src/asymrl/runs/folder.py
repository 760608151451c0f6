"""The folder of a batch of runs: what is trained, the learning curves, and checkpoints to go on from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asymrl.adapters.sources import pomdp_path
from asymrl.runs import checkpoint
from asymrl.runs.batch import Batch
from asymrl.runs.files import UNFINISHED, Lock, RunError, write_whole

if TYPE_CHECKING:
    import polars as pl

    from asymrl.learning.state import RunState

FORMAT = 1


class RunFolder:
    """A folder with `settings.json`, `metrics.parquet` and `checkpoint/`.

    Reading needs nothing more. To write, the folder must be taken first: `create` and `take` lock it until `release`
    or the end of the process.
    """

    def __init__(self, path: Path, batch: Batch, lock: Lock | None = None, world_file: str | None = None):
        self.path, self.batch, self._lock = path, batch, lock
        self._world_file = world_file  # the checksum of the file that the world comes from, if it does

    @classmethod
    def create(cls, path: Path, batch: Batch) -> RunFolder:
        """A new run in this folder, which may exist but must not hold a run.

        Raises:
            RunError: if it does, or can not be written.
            StorageError: if there is no room.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"{path}: can not be made a folder: {error.strerror}") from error
        lock = Lock(path)
        try:
            if _holds_run(path):
                raise RunError(
                    f"{path}: already holds a run. Go on with it by `asymrl resume {path}`, or choose another --out"
                )
            folder = cls(path, batch, lock, file_checksum(batch.first.world))
            folder.checkpoints.mkdir(exist_ok=True)
            folder._remove_unfinished()
            folder._write_settings()
        except BaseException:
            lock.release()
            raise
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run in this folder, to read. Raises RunError if there is none, or it is of another version."""
        batch, world_file = _read_settings(path)
        return cls(path, batch, world_file=world_file)

    @classmethod
    def take(cls, path: Path) -> RunFolder:
        """The run in this folder, to go on with it. Raises RunError, also if another process has it."""
        _read_settings(path)
        lock = Lock(path)
        batch, world_file = _read_settings(path)
        folder = cls(path, batch, lock, world_file)
        folder._remove_unfinished()
        return folder

    def release(self) -> None:
        if self._lock:
            self._lock.release()

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoint"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.parquet"

    def extend(self, steps: int) -> None:
        """Makes the runs longer; see `Batch.extended`."""
        longer = self.batch.extended(steps)
        if longer != self.batch:
            self.batch = longer
            self._write_settings()

    def load(self, say: Callable[[str], None] = print) -> RunState | None:
        """The runs as the newest sound checkpoint has them, or None before the first one.

        Raises:
            RunError: if none is sound, or the file that the world comes from has changed.
        """
        world = self.batch.first.world
        if self._world_file != file_checksum(world):
            raise RunError(f"{self.path}: {world} has changed since the runs began; bring back the file as it was then")
        return checkpoint.load(self.checkpoints, self.batch, say)

    def save(self, runs: RunState) -> None:
        """Writes a checkpoint."""
        checkpoint.save(self.checkpoints, self.batch, runs)

    def metrics(self) -> pl.DataFrame:
        """The learning curves so far: one row per run and point."""
        import polars as pl

        if not self.metrics_file.exists():
            raise RunError(f"{self.metrics_file}: not there yet; has the run begun?")
        return pl.read_parquet(self.metrics_file)

    def write_metrics(self, table: pl.DataFrame) -> None:
        from asymrl.runs.metrics import to_parquet

        write_whole(self.metrics_file, to_parquet(table))

    def _write_settings(self) -> None:
        import jax

        from asymrl import __version__

        description = {
            "format": FORMAT,
            "versions": {"asymrl": __version__, "jax": jax.__version__},
            **self.batch.to_json(),
        }
        if self._world_file is not None:
            description["world_file"] = {"sha256": self._world_file}
        write_whole(self.path / "settings.json", (json.dumps(description, indent=1) + "\n").encode())

    def _remove_unfinished(self) -> None:
        """Clears away what a process that was killed left half written."""
        for folder in (self.path, self.checkpoints):
            for path in folder.glob(f"*{UNFINISHED}"):
                path.unlink(missing_ok=True)


def _holds_run(path: Path) -> bool:
    return (path / "settings.json").exists() or (path / "metrics.parquet").exists()


def file_checksum(world: str) -> str | None:
    """The SHA-256 of the file that a world comes from, or None for a world with a name."""
    if (file := pomdp_path(world)) is None:
        return None
    from asymrl.adapters.pomdp_files import FileError, checksum

    try:
        return checksum(file)
    except FileError as error:
        raise RunError(str(error)) from error


def _read_settings(path: Path) -> tuple[Batch, str | None]:
    """What is trained in a folder, and the checksum of the file that its world comes from, if it does."""
    file = path / "settings.json"
    if not file.is_file():
        raise RunError(f"{path}: no run here: there is no {file.name} in it")
    try:
        data: dict[str, Any] = json.loads(file.read_text())
        version, world_file = data["format"], data.get("world_file", {}).get("sha256")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{file}: damaged: {error}") from error
    if version != FORMAT:
        raise RunError(
            f"{file}: a run folder of format {version}, but this version of asymrl reads format {FORMAT}; "
            "use the version that wrote it"
        )
    return Batch.from_json(data, str(file)), world_file


def free_folder(world: str, method: str, base: Path = Path("runs")) -> Path:
    """A folder for a run of this world and method that no run has yet: `runs/WORLD-METHOD`, or with a number."""
    name = re.sub(r"[^\w.-]+", "-", f"{world}-{method}")
    path, number = base / name, 1
    while path.exists():
        number += 1
        path = base / f"{name}-{number}"
    return path
