"""Python code of the user, imported by name: modules, and files that end in .py."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_FILES: dict[str, tuple[int, ModuleType]] = {}  # by absolute path: time of the last change, and the module


def load_attribute(what: str, source: str, attribute: str) -> Any:
    """An attribute of a module, or of a file that ends in .py. Raises ValueError, beginning with `what`."""
    module = load_module(what, source)
    if not hasattr(module, attribute):
        raise ValueError(f"{what}: {source} has no {attribute!r}")
    return getattr(module, attribute)


def load_module(what: str, source: str) -> ModuleType:
    """The module with this name, or in this file that ends in .py. Raises ValueError, beginning with `what`."""
    try:
        with user_path():
            return _load_file(source) if source.endswith(".py") else importlib.import_module(source)
    except (ImportError, OSError) as error:
        raise ValueError(f"{what}: {source} cannot be imported: {error}") from error
    except Exception as error:
        raise ValueError(f"{what}: {source} cannot be imported: {described(error)}") from error


def described(error: BaseException) -> str:
    """An error of the user's code in a line, with its last place there: `light.py:12: KeyError: 'a'`."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{os.path.basename(error.filename)}:{error.lineno}: {error.msg}"
    own = [each for each in traceback.extract_tb(error.__traceback__) if _is_users(each.filename)]
    place = f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}: " if own else ""
    return f"{place}{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")


def own_traceback(error: BaseException) -> str:
    """The traceback of an error from where it enters the user's code; empty if it does not."""
    shown = traceback.TracebackException.from_exception(error)
    if isinstance(error, SyntaxError):
        shown.stack.clear()
        return "".join(shown.format()).rstrip()
    if not any(_is_users(frame.filename) for frame in shown.stack):
        return ""
    part: traceback.TracebackException | None = shown
    while part is not None:
        first = next((i for i, frame in enumerate(part.stack) if _is_users(frame.filename)), 0)
        del part.stack[:first]
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    return "".join(shown.format()).rstrip()


def _is_users(filename: str) -> bool:
    """Whether this is a file of the user, rather than of this package or of Gymnasium, whose wrappers call it."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    others = (package, os.path.dirname(importlib.util.find_spec("gymnasium").origin))  # pyright: ignore
    return os.path.isfile(filename) and not os.path.abspath(filename).startswith(others)


def _load_file(path: str) -> ModuleType:
    if not os.path.exists(path):
        raise OSError(f"there is no file {path}")
    absolute, changed = os.path.abspath(path), os.stat(path).st_mtime_ns
    if absolute in _FILES and _FILES[absolute][0] == changed:
        return _FILES[absolute][1]
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    assert spec is not None  # as the name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Other processes find the classes of this file by the name of its module.
    sys.modules[spec.name] = module
    _FILES[absolute] = changed, module
    try:
        with user_path():
            spec.loader.exec_module(module)
    except BaseException:
        del _FILES[absolute]
        raise
    return module


@contextlib.contextmanager
def user_path() -> Iterator[None]:
    """Puts the current folder, as `python -m` does, and the folders of loaded files on the import path.

    Processes started inside this context inherit the path.
    """
    folders = [os.getcwd(), *map(os.path.dirname, _FILES)]
    sys.path[:0] = folders
    try:
        yield
    finally:
        for folder in folders:
            sys.path.remove(folder)
