"""Public names of a package that are imported when they are first used, so that importing the package is cheap."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any


def exports(
    package: str, names: Mapping[str, Iterable[str]] | None = None, modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package.

    Args:
        package: its `__name__`.
        names: for each module, by its full name, the names that the package takes from it. None: those that its
            `__init__.py` imports below `if TYPE_CHECKING:`.
        modules: modules of the package that are public as a whole.
    """
    names = imported_for_types(package) if names is None else names
    home = {name: module for module, taken in names.items() for name in taken}
    public = sorted([*home, *modules])

    def get(name: str) -> Any:
        if name in home and home[name] != package:
            return getattr(importlib.import_module(home[name]), name)
        if name in public:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: public


def imported_for_types(package: str) -> dict[str, list[str]]:
    """What a package imports for type checkers: for each module the names."""
    tree = ast.parse(Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {str(node.module): [alias.name for alias in node.names] for node in imports}
