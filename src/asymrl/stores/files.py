"""Files that are there whole or not at all, and a lock on a folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

UNFINISHED = ".unfinished"  # the ending of files that are being written


class RunError(ValueError):
    """Something about a store that its user can put right; the message says how."""


class StorageError(OSError):
    """A file could not be written. What was there before is still there."""


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file so that at any moment, also after a crash, either the old or the new one is there, whole.

    Raises:
        StorageError: if that is not possible, such as on a full disk; the old file is untouched.
    """
    unfinished = path.with_name(path.name + UNFINISHED)
    try:
        with open(unfinished, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error


def _sync_folder(folder: Path) -> None:
    # A rename is safe against a loss of power only once the folder itself is on the disk.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Lock:
    """A folder held by one living process; released when that process ends, however it ends."""

    def __init__(self, folder: Path):
        """Raises RunError if another process, or another training in this process, holds the folder."""
        path = folder / ".lock"
        try:
            self._file = open(path, "a+")  # noqa: SIM115  held as long as the lock
        except OSError as error:
            raise RunError(f"{folder}: cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            owner = self._file.read().strip() or "unknown"
            self._file.close()
            raise RunError(f"{folder}: in use by process {owner}; wait for it to end, or stop it") from error
        with contextlib.suppress(OSError):  # on a full disk the lock works all the same
            self._file.truncate(0)
            self._file.write(str(os.getpid()))
            self._file.flush()

    def release(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
