"""Files that bear the ending `.pomdp` but hold something else."""

from __future__ import annotations

import re

_SIGNS = (
    (re.compile(rb"\x1f\x8b|PK\x03\x04|BZh|\xfd7zXZ"), "it is a compressed archive; unpack it first"),
    (re.compile(rb"\s*<(\?xml|!--|pomdpx)", re.I), "it is XML, probably POMDPX, which is not read here; convert it"),
    (re.compile(rb"\s*<(!doctype|html)", re.I), "it is a web page; download the file itself"),
    (re.compile(rb"\s*[{\[]"), "it looks like JSON"),
    (re.compile(rb"\s*(version https://git-lfs)"), "it is a Git LFS pointer; run `git lfs pull`"),
)
_STATEMENTS = (
    ("agents", "`agents:` makes it a problem for several agents (Dec-POMDP), which is not read here"),
    ("costs", "`costs:` before the tables belongs to another dialect; write `values: cost` and R lines instead"),
)


def foreign_format(data: bytes) -> str | None:
    """What a file is instead of a `.pomdp` file, or None if nothing tells against it."""
    head = data[:4096]
    return next((what for sign, what in _SIGNS if sign.match(head)), None)


def foreign_statement(word: str) -> str | None:
    """Of which dialect a statement is that does not belong to this format."""
    return next((what for name, what in _STATEMENTS if name == word), None)
