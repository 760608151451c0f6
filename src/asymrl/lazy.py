"""Public names of a package that are imported when they are first used, so that importing the package is cheap."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def exports(
    package: str, names: Mapping[str, Iterable[str]], modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package.

    Args:
        package: its `__name__`.
        names: for each module, by its full name, the names that the package takes from it.
        modules: modules of the package that are public as a whole.
    """
    home = {name: module for module, taken in names.items() for name in taken}
    public = sorted([*home, *modules])

    def get(name: str) -> Any:
        if name in home:
            return getattr(importlib.import_module(home[name]), name)
        if name in public:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: public
