"""The methods: what the critic reads and how long the memory is. Nothing else tells them apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

METHODS = ("a2c", "a2c-asym-s", "a2c-asym-hs", "a2c-react-2", "a2c-react-4")


@dataclass(frozen=True)
class Method:
    """A method of the paper."""

    name: str
    reads: str
    """What the critic reads: "h" the history, "s" the privileged signal, "hs" both."""
    window: int | None = None
    """How many last action-observation pairs actor and critic remember; None means all."""


_BY_NAME = {
    "a2c": Method("a2c", "h"),
    "a2c-asym-s": Method("a2c-asym-s", "s"),
    "a2c-asym-hs": Method("a2c-asym-hs", "hs"),
}


def method(name: str) -> Method:
    """The method with this name: one of the five, or `a2c-react-k` with any other k."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if match := re.fullmatch(r"a2c-react-([1-9]\d*)", name):
        return Method(name, "h", int(match[1]))
    raise ValueError(f"unknown method {name!r}; choose one of {', '.join(METHODS)}")
