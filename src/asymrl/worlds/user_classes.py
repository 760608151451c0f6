"""Classes of the user's own, by the names that settings have for them: `FILE.py:CLASS` or `MODULE:CLASS`.

Which names there are is known here; how they are imported, by `asymrl.adapters`, which the package tells to do it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_NAME = re.compile(r"(?:.+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*")
_LOADERS: list[Callable[[str, str], Any]] = []


def is_class_name(text: str) -> bool:
    """Whether a text has the form of such a name."""
    return _NAME.fullmatch(text) is not None


def load_classes_by(load: Callable[[str, str], Any]) -> None:
    """Classes are imported by this function, given what they are for and their name."""
    _LOADERS[:] = [load]


def load_class(what: str, name: str) -> Any:
    """The class with this name. Runs the user's code.

    Raises:
        ValueError: beginning with `what`, if there is no such class.
    """
    if not _LOADERS:
        raise ValueError(f"{what} {name!r}: import asymrl first, which knows how to load it")
    return _LOADERS[0](what, name)
