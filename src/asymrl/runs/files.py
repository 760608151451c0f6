"""Files that are written whole or not at all, and a lock on a folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterable
from pathlib import Path

UNFINISHED = ".unfinished"  # the ending of files that are being written


class RunError(ValueError):
    """A problem with a store that its user can fix; the message says how."""


class StorageError(OSError):
    """A file could not be written. What was there before is still there."""


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file so that at any moment, even after a crash, either the old or the new one is there, whole.

    Raises:
        StorageError: if that is not possible, such as on a full disk; the old file is untouched.
    """
    unfinished = path.with_name(path.name + UNFINISHED)
    try:
        unfinished.unlink(missing_ok=True)
        # A link of this name, in a folder from somebody else, must not redirect the contents to another file.
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error


SUBFOLDERS = ("checkpoint", "sources", "study", "tensorboard", "wandb")  # of a store, which a training writes into


def check_links(folder: Path) -> None:
    """Raises RunError if something in a store is a link that leads out of it, where a training would then write.

    Also if something in its subfolders is neither a file nor a folder. Folders that are not the store's, such as a
    linked `.venv`, are not checked.
    """
    check_no_way_out(folder, sorted(path for path in folder.iterdir() if not path.is_dir()))
    check_subfolders(folder)


def check_subfolders(folder: Path) -> None:
    """`check_links` for the subfolders of a store only: the folder of a new store may hold other things."""
    for subfolder in (folder / name for name in SUBFOLDERS):
        check_no_way_out(folder, [subfolder])
        for path in sorted(subfolder.rglob("*")):
            check_no_way_out(folder, [path])
            if not path.is_symlink() and not path.is_file() and not path.is_dir():
                raise RunError(f"{path}: not a regular file; remove it")


def check_no_way_out(folder: Path, paths: Iterable[Path]) -> None:
    """Raises RunError if one of these paths in a store is a link that leads out of it."""
    for path in paths:
        if path.is_symlink() and not _target(path).is_relative_to(folder.resolve()):
            raise RunError(
                f"{path}: a link to {path.readlink()}, outside of the store; put what it leads to in its place, or "
                "remove it"
            )


def _target(link: Path) -> Path:
    try:
        return link.resolve()
    except (OSError, RuntimeError):  # links that lead to each other
        return Path("/")


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
            # Neither a link, whose target would be emptied, nor a pipe, which would wait for a reader.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError as error:
            reason = "it is a link" if error.errno == errno.ELOOP else error.strerror
            raise RunError(f"{path if path.is_symlink() else folder}: cannot be written: {reason}") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise RunError(f"{path}: not a regular file; remove it")
        self._file = open(descriptor, "r+")  # noqa: SIM115  held as long as the lock
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
