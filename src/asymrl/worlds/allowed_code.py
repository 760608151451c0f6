"""The user's own code: how settings name it, and which of it may run in this process.

Settings in a folder can come from somebody else. Code that they name is imported only if the user names or trusts it.
Classes are named `FILE.py:CLASS` or `MODULE:CLASS`; `asymrl.envs` imports them, by `load_classes_by`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_CLASS_NAME = re.compile(r"(?:.+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*")
_LOADERS: list[Callable[[str, str], Any]] = []
_ALLOWED: set[str] = set()


class UntrustedCodeError(ValueError):
    """A name would run code that the user has not named."""


def allow(*names: str) -> None:
    """Allows code that the user has named, such as `tmaze.py:TMaze:length=9`, or trusts."""
    _ALLOWED.update(names)


def is_allowed(name: str) -> bool:
    return name in _ALLOWED


def check_allowed(name: str) -> None:
    """Raises UntrustedCodeError unless this code is allowed."""
    if name not in _ALLOWED:
        raise UntrustedCodeError(
            f"{name} would run code that a file names, not you; if you trust it, say so with --trust, or trust=True in "
            "Python"
        )


def allowed_names() -> tuple[str, ...]:
    """All names that are allowed, for other processes of the same user."""
    return tuple(sorted(_ALLOWED))


def is_class_name(text: str) -> bool:
    """Whether a text has the form of a class name, `FILE.py:CLASS` or `MODULE:CLASS`."""
    return _CLASS_NAME.fullmatch(text) is not None


def load_classes_by(load: Callable[[str, str], Any]) -> None:
    """Registers the function that imports classes; its arguments are what a class is for and the name of the class."""
    _LOADERS[:] = [load]


def load_class(what: str, name: str) -> Any:
    """The class with this name. Runs the user's code.

    Raises:
        ValueError: beginning with `what`, if there is no such class.
    """
    if not _LOADERS:
        raise ValueError(f"{what} {name!r}: import asymrl first, which knows how to load it")
    return _LOADERS[0](what, name)
