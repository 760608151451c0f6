"""Reading `.pomdp` files."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import os
import re
import zlib
from pathlib import Path

from asymrl.envs.pomdp_files.assembly import assemble
from asymrl.envs.pomdp_files.parser import parse
from asymrl.envs.pomdp_files.problem import Problem
from asymrl.envs.pomdp_files.tokens import FileError, Limits, SourceText
from asymrl.reading import UnreadableError, read_regular
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.world import DEFAULT_TIME_LIMIT

LIMITS = Limits()
LARGEST_FILE = 1 << 32  # bytes
UNPACKED = 1 << 30  # bytes; a small archive can unpack to any size
_OTHER_FORMATS = (
    (
        re.compile(rb"\x1f\x8b|PK\x03\x04|BZh|\xfd7zXZ"),
        "it is a compressed archive; name it .pomdp.gz if it is gzip, otherwise unpack it",
    ),
    (re.compile(rb"\s*<(\?xml|!--|pomdpx)", re.I), "it is XML, probably POMDPX, which is not supported; convert it"),
    (re.compile(rb"\s*<(!doctype|html)", re.I), "it is a web page; download the file itself"),
    (re.compile(rb"\s*[{\[]"), "it looks like JSON"),
    (re.compile(rb"\s*(version https://git-lfs)"), "it is a Git LFS pointer; run `git lfs pull`"),
)


def read_pomdp(path: str | os.PathLike[str], *, limits: Limits = LIMITS, episodic: bool = True) -> Problem:
    """The problem in a `.pomdp` file, or a `.pomdp.gz` one.

    Args:
        path: the file.
        limits: how large it may be.
        episodic: whether a `reset` row ends the episode; otherwise it only returns to the start distribution.

    Raises:
        FileError: with line and column, if the file is invalid.
    """
    return _read(Path(path), _contents(Path(path)), limits, episodic)


def parse_text(text: str, name: str = "problem", *, limits: Limits = LIMITS, episodic: bool = True) -> Problem:
    """The problem that a text describes; like `read_pomdp` without a file."""
    return assemble(parse(SourceText(name, text), limits), name, limits, episodic=episodic)


def parse_bytes(
    data: bytes, name: str = "problem", *, where: str | None = None, limits: Limits = LIMITS, episodic: bool = True
) -> Problem:
    """The problem in the contents of a file; `where` is its name in errors."""
    where = name if where is None else where
    if what := other_format(data):
        raise FileError(f"{where}: not a .pomdp file: {what}")
    text = data.decode("utf-8-sig", errors="replace")
    return assemble(parse(SourceText(where, text), limits), name, limits, episodic=episodic)


def checksum(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file, to notice that it has changed."""
    return hashlib.sha256(_contents(Path(path))).hexdigest()


def _contents(path: Path) -> bytes:
    try:
        data = read_regular(path, LARGEST_FILE)
        if path.suffix.lower() != ".gz":
            return data
        with gzip.open(io.BytesIO(data)) as file:
            data = file.read(UNPACKED + 1)
    except UnreadableError as error:
        raise FileError(str(error)) from error
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > UNPACKED:
        raise FileError(f"{path}: more than {UNPACKED >> 20} MB when unpacked; unpack it and give the .pomdp file")
    return data


# Training, evaluation and rendering each make the world again; a large file should be read once.
@functools.lru_cache(maxsize=2)
def _read(path: Path, data: bytes, limits: Limits, episodic: bool) -> Problem:
    name = Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem
    return parse_bytes(data, name, where=str(path), limits=limits, episodic=episodic)


def world_from_file(
    path: str,
    *,
    discount: float | int | None = None,
    episodic: bool = True,
    time_limit: int | None = DEFAULT_TIME_LIMIT,
) -> FiniteWorld:
    """The world in a `.pomdp` file.

    Args:
        path: the file.
        discount: replaces the one in the file.
        episodic: whether a `reset` row ends the episode; otherwise it only returns to the start distribution.
        time_limit: steps after which an episode is truncated.

    Raises:
        FileError: with line and column, if the file is invalid.
    """
    return read_pomdp(path, episodic=episodic).world(discount=discount, time_limit=time_limit)


def other_format(data: bytes) -> str | None:
    """What a file named `.pomdp` holds instead, or None if there is no sign of another format."""
    head = data[:4096]
    return next((what for sign, what in _OTHER_FORMATS if sign.match(head)), None)
