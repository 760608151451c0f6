"""Reading files that somebody else may have made: regular files only, of a size that is known before, and JSON."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

MOST_JSON_BYTES = 64 * 2**20  # a store of 36 000 runs has about 5 MB
MOST_DEPTH = 32  # of lists and objects inside each other


class UnreadableError(ValueError):
    """A file that is not what it should be. The message names it."""


def read_regular(path: Path, most: int) -> bytes:
    """The contents of a regular file of at most so many bytes.

    A pipe or a device, which might never end, and a larger file are refused before anything is read.

    Raises:
        OSError: if it is not there, or may not be read.
        UnreadableError: if it is something else.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # so that opening a pipe does not wait for its writer
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError(f"{path}: not a regular file")
        if status.st_size > most:
            raise UnreadableError(f"{path}: it has {status.st_size} bytes, expected at most {most}")
        data = file.read(most + 1)
    if len(data) > most:
        raise UnreadableError(f"{path}: it grows while it is read")
    return data


def read_json(path: Path) -> Any:
    """The data in a JSON file. Raises OSError or UnreadableError as `read_regular`, also if it is not sound JSON."""
    return parse_json(read_regular(path, MOST_JSON_BYTES), str(path))


def parse_json(data: bytes, where: str) -> Any:
    """The data in a text of JSON. Raises UnreadableError, naming `where`, if it is not sound, or too deep."""
    try:
        parsed = json.loads(data)
    except RecursionError:
        raise UnreadableError(f"{where}: more than {MOST_DEPTH} lists and objects inside each other") from None
    except ValueError as error:
        raise UnreadableError(f"{where}: not JSON: {error}") from None
    level = [parsed]
    for _ in range(MOST_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return parsed
    raise UnreadableError(f"{where}: more than {MOST_DEPTH} lists and objects inside each other")


def _inside(value: Any) -> list[Any]:
    """The lists and objects in a list or an object."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [part for part in parts if isinstance(part, dict | list)]
