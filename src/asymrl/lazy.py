"""Public names of a package that are imported when they are first used, so that importing the package is cheap."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package with this name, for what it imports for type checkers only."""
    home = {name: module for module, names in imported_for_types(package).items() for name in names}
    public = sorted(home)

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home[name] == package:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(home[name]), name)

    return get, lambda: public


def imported_for_types(package: str) -> dict[str, list[str]]:
    """For each module, the names that a package imports from it below `if TYPE_CHECKING:`."""
    tree = ast.parse(Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {str(node.module): [alias.name for alias in node.names] for node in imports}
