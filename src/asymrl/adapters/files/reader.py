"""Reading `.pomdp` files."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from asymrl.adapters.files.assembly import assemble
from asymrl.adapters.files.errors import FileError, Limits, Source
from asymrl.adapters.files.foreign import foreign_format
from asymrl.adapters.files.parser import parse
from asymrl.adapters.files.problem import Problem

LIMITS = Limits()


def read(path: str | os.PathLike[str], *, limits: Limits = LIMITS, episodic: bool = True) -> Problem:
    """The problem in a `.pomdp` file.

    Args:
        path: the file.
        limits: how large it may be.
        episodic: whether a `reset` row ends the episode; otherwise it only goes back to the start.

    Raises:
        FileError: with line and column, if it is no such file.
    """
    return _read(Path(path), _contents(Path(path)), limits, episodic)


def parse_text(text: str, name: str = "problem", *, limits: Limits = LIMITS, episodic: bool = True) -> Problem:
    """The problem that a text describes; like `read`, without a file."""
    return assemble(parse(Source(name, text), limits), name, limits, episodic=episodic)


def parse_bytes(
    data: bytes, name: str = "problem", *, where: str | None = None, limits: Limits = LIMITS, episodic: bool = True
) -> Problem:
    """The problem in the contents of a file; `where` is what errors call it."""
    where = name if where is None else where
    if what := foreign_format(data):
        raise FileError(f"{where}: is not a .pomdp file: {what}")
    text = data.decode("utf-8-sig", errors="replace")
    return assemble(parse(Source(where, text), limits), name, limits, episodic=episodic)


def checksum(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file, by which a changed one is noticed."""
    return hashlib.sha256(_contents(Path(path))).hexdigest()


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"{path}: can not be read: {error.strerror or error}") from error


# Training, evaluating and drawing each make the world anew; a large file should be read once.
@functools.lru_cache(maxsize=2)
def _read(path: Path, data: bytes, limits: Limits, episodic: bool) -> Problem:
    return parse_bytes(data, path.stem, where=str(path), limits=limits, episodic=episodic)
