"""What other processes need to make the same worlds: files, code that may run, and worlds made in Python."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from asymrl.envs.child_processes import packed, unpacked
from asymrl.envs.sources import is_registered, pomdp_path, register, registered
from asymrl.envs.user_code import Location, import_folders, locate, locations
from asymrl.reading import UnreadableError, read_regular
from asymrl.worlds.allowed_code import allow, allowed_names
from asymrl.worlds.registry import split_options

LARGEST_FILE = 16 * 2**20  # bytes of a file that is sent along


class SentFile(NamedTuple):
    """A file that names refer to, for a process that may be on a machine without it."""

    source: str
    """Its path as it is written in names."""
    location: Location
    contents: bytes | None = None
    """None: it was not there, or is too large."""

    def set_up(self) -> None:
        """Records where the file is: where it was, or in a copy if it is missing or different there."""
        location = self.location
        if self.contents is not None and not _holds(location.path, self.contents):
            location = location._replace(copy=_copy(os.path.basename(location.path), self.contents))
        locate(self.source, location)


class Surroundings(NamedTuple):
    """What this process knows besides its settings. It can be sent to another process of the same user."""

    allowed: tuple[str, ...] = ()
    """Names of code that may run."""
    files: tuple[SentFile, ...] = ()
    worlds: tuple[tuple[str, bytes], ...] = ()
    """Worlds made in Python, by name."""
    folders: tuple[str, ...] = ()
    """Where the modules of these worlds are."""

    def set_up(self) -> None:
        """Makes all of it known in this process."""
        allow(*self.allowed)
        sys.path = [*(folder for folder in self.folders if folder not in sys.path), *sys.path]
        for file in self.files:
            file.set_up()
        for name, data in self.worlds:
            if not is_registered(name):
                register(name, unpacked(data))


def surroundings_of(worlds: Collection[str]) -> Surroundings:
    """What other processes need for the worlds with these names.

    Raises:
        ValueError: if a world was made in Python and cannot be sent.
    """
    sent = {}
    for name in {split_options(world)[0] for world in worlds if is_registered(world)}:
        try:
            sent[name] = packed(registered(name))
        except Exception as error:
            raise ValueError(
                f"{name} was made in Python and cannot be sent to other processes ({type(error).__name__}: {error}); "
                "train it without --processes and Ray, or by a name that they can import, FILE.py:CLASS"
            ) from error
    files = tuple(_sent(source, location) for source, location in locations().items())
    folders = import_folders() if sent else []
    return Surroundings(allowed_names(), files, tuple(sorted(sent.items())), tuple(folders))


def _sent(source: str, location: Location) -> SentFile:
    for path in filter(None, (location.path, location.copy)):
        with contextlib.suppress(OSError, UnreadableError):
            contents = read_regular(Path(path), LARGEST_FILE)
            digest = _checksum(source, path, contents)
            if location.sha256 in (None, digest):
                return SentFile(source, location._replace(sha256=digest), contents)
    return SentFile(source, location)


def _checksum(source: str, path: str, contents: bytes) -> str:
    if pomdp_path(source) is not None:
        from asymrl.envs.pomdp_files.reader import checksum

        return checksum(path)  # of the uncompressed contents
    return hashlib.sha256(contents).hexdigest()


def _holds(path: str, contents: bytes) -> bool:
    try:
        return read_regular(Path(path), len(contents)) == contents
    except (OSError, UnreadableError):
        return False


@functools.cache
def _copy(name: str, contents: bytes) -> str:
    """The path of a file with these contents, which exists as long as this process."""
    folder = Path(_copies().name) / hashlib.sha256(contents).hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(contents)
    return str(folder / name)


@functools.cache
def _copies() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="asymrl-files-", ignore_cleanup_errors=True)
