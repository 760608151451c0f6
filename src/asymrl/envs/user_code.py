"""Python code of the user, imported by name: modules, and files that end in .py."""

from __future__ import annotations

import ast
import contextlib
import difflib
import hashlib
import importlib
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from asymrl.reading import read_regular
from asymrl.worlds.allowed_code import check_allowed

LARGEST_SOURCE = 2**20  # bytes of a file that is inspected without running it


class MissingSourceError(OSError):
    """A file that a name refers to is not there, or is no longer what it was."""


class Location(NamedTuple):
    """Where the file that a name refers to is."""

    path: str
    sha256: str | None = None
    """What its contents must be. None: anything."""
    copy: str | None = None
    """A file with the same contents, in case this one changes or is removed."""


class _Loaded(NamedTuple):
    sha256: str
    folder: str
    """The one that it imports other files from: that of the original, if it was loaded from a copy."""
    module: ModuleType


_WANTED: set[str] = set()  # modules that the user has named or trusts, so that they are imported
_LOCATIONS: dict[str, Location] = {}  # by the path as it is written in names
_FILES: dict[str, _Loaded] = {}  # by absolute path
_PATH_LOCK = threading.Lock()  # while the import path is changed


def locate(source: str, location: Location | None = None) -> None:
    """Records where a file that names refer to is; by default where its path leads now."""
    _LOCATIONS[source] = location or Location(os.path.abspath(source))


def location_of(source: str) -> Location:
    """Where the file that a name refers to is: as recorded, or where its path leads now."""
    return _LOCATIONS.get(source) or Location(os.path.abspath(source))


def file_version(source: str) -> str:
    """A text that differs between versions of a file."""
    location = location_of(source)
    if location.sha256 is not None:
        return location.sha256
    try:
        return f"{location.path} {os.stat(location.path).st_mtime_ns}"
    except OSError:
        return location.path


def locations() -> dict[str, Location]:
    """All recorded locations, for other processes."""
    return dict(_LOCATIONS)


def load_attribute(what: str, source: str, attribute: str) -> Any:
    """An attribute of a module, or of a file that ends in .py. Raises ValueError, beginning with `what`."""
    module = load_module(what, source)
    if not hasattr(module, attribute):
        close = difflib.get_close_matches(attribute, [name for name in dir(module) if name[0] != "_"], n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{what}: {source} has no {attribute!r}{hint}")
    return getattr(module, attribute)


def load_class(what: str, name: str) -> Any:
    """The class `MODULE:CLASS` or `FILE.py:CLASS` that a setting names. Raises ValueError, beginning with `what`."""
    check_allowed(name)
    source, _, attribute = name.rpartition(":")
    return load_attribute(f"{what} {name!r}", source, attribute)


def locate_class(name: str) -> None:
    """Records where the file of a class that the user names is."""
    source = name.rpartition(":")[0]
    if source.endswith(".py"):
        locate(source)


def load_module(what: str, source: str) -> ModuleType:
    """The module with this name, or in this file that ends in .py. Raises ValueError, beginning with `what`."""
    if not source:
        raise ValueError(f"{what}: name a module or a file before the colon, as in my_file.py:MyEnv")
    _WANTED.add(source)
    try:
        with user_path():
            return _load_file(source) if source.endswith(".py") else importlib.import_module(source)
    except MissingSourceError as error:
        raise ValueError(f"{what}: {source} cannot be imported: {error}") from error
    except Exception as error:
        from asymrl.worlds.stepped_world import UserCodeError

        is_theirs = isinstance(error, SyntaxError) or bool(_users_frames(error))
        cause = described(error) if is_theirs or not isinstance(error, ImportError | OSError) else str(error)
        raise UserCodeError(f"{what}: {source} cannot be imported: {cause}", own_traceback(error)) from error


def described(error: BaseException) -> str:
    """An error of the user's code in one line, with the last line of that code: `light.py:12: KeyError: 'a'`."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{os.path.basename(error.filename)}:{error.lineno}: {error.msg}"
    own = _users_frames(error)
    place = f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}: " if own else ""
    return f"{place}{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")


def _users_frames(error: BaseException) -> list[traceback.FrameSummary]:
    return [each for each in traceback.extract_tb(error.__traceback__) if _is_users(each.filename)]


def own_traceback(error: BaseException) -> str:
    """The traceback of an error from where it enters the user's code, without our lines; empty if it does not."""
    shown = traceback.TracebackException.from_exception(error)
    if isinstance(error, SyntaxError):
        shown.stack.clear()
        return "".join(shown.format()).rstrip()
    if not any(_is_users(frame.filename) for frame in shown.stack):
        return ""
    part: traceback.TracebackException | None = shown
    while part is not None:
        first = next((i for i, frame in enumerate(part.stack) if _is_users(frame.filename)), 0)
        part.stack[:] = [frame for frame in part.stack[first:] if not _is_ours(frame.filename)]
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    return "".join(shown.format()).rstrip()


def _is_users(filename: str) -> bool:
    """Whether this is a file of the user: not of this package, Gymnasium (whose wrappers call it) or importlib."""
    wrappers = os.path.dirname(importlib.util.find_spec("gymnasium").origin)  # pyright: ignore
    others = (wrappers + os.sep, os.path.dirname(importlib.__file__) + os.sep)
    return os.path.isfile(filename) and not (_is_ours(filename) or os.path.abspath(filename).startswith(others))


def _is_ours(filename: str) -> bool:
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return os.path.abspath(filename).startswith(package + os.sep)


def _load_file(source: str) -> ModuleType:
    location = location_of(source)
    path, data, digest = _contents(source, location)
    if path in _FILES and _FILES[path].sha256 == digest:
        return _FILES[path].module
    name = os.path.splitext(os.path.basename(path))[0]
    module = ModuleType(name)
    module.__file__ = path
    # Compiled from what was just read: a bytecode file beside it is ignored, as it may differ.
    code = compile(data, path, "exec", dont_inherit=True)
    # Other processes find the classes of this file by the name of its module.
    old_module, sys.modules[name] = sys.modules.get(name), module
    _FILES[path] = _Loaded(digest, os.path.dirname(location.path), module)
    try:
        with user_path():
            exec(code, module.__dict__)  # the user has named this file, or trusts it
    except BaseException:
        del _FILES[path]
        if old_module is None:
            del sys.modules[name]
        else:
            sys.modules[name] = old_module
        raise
    if path != location.path:
        import cloudpickle

        cloudpickle.register_pickle_by_value(module)  # other processes would find the original by its name, or nothing
    return module


def _contents(source: str, location: Location) -> tuple[str, bytes, str]:
    """The path that is read, its contents and their checksum."""
    for path in filter(None, (location.path, location.copy)):
        if not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        digest = hashlib.sha256(data).hexdigest()
        if location.sha256 in (None, digest):
            return path, data, digest
    what = "has changed" if os.path.isfile(location.path) and location.sha256 else "there is no file"
    raise MissingSourceError(f"{source} {what}" if location.sha256 else f"{what} {source}")


def importable_name(attribute: Any) -> str | None:
    """The name, MODULE:NAME or FILE.py:NAME, by which a class or function can be imported; None if it has none.

    Importing a script runs it, so definitions in the main script have a name only if the script has a `__main__` guard.
    """
    name, module = getattr(attribute, "__qualname__", ""), getattr(attribute, "__module__", "")
    holder = sys.modules.get(module)
    if not name.isidentifier() or getattr(holder, name, None) is not attribute:
        return None
    if module == "__main__":
        file = getattr(holder, "__file__", None)
        return f"{os.path.abspath(file)}:{name}" if file and file.endswith(".py") and _is_guarded(file) else None
    file = next((path for path, loaded in _FILES.items() if loaded.module is holder), None)
    return f"{file or module}:{name}"


def public_names(file: str) -> list[str]:
    """The classes and functions that a Python file defines, read without running it.

    Raises:
        OSError: if it is no regular file.
        SyntaxError, ValueError: if it is not Python.
    """
    try:
        tree = ast.parse(read_regular(Path(file), LARGEST_SOURCE), file)
    except (RecursionError, MemoryError) as error:
        raise ValueError("nested too deeply") from error
    defined = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return [name for name in defined if not name.startswith("_")]


def _is_guarded(file: str) -> bool:
    """Whether a script checks `__name__ == "__main__"`."""
    with open(file, "rb") as script:
        tree = ast.parse(script.read())
    return any(isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body)


def import_folders(*, always: bool = False) -> list[str]:
    """The folders from which the user's code is imported; see `user_path`."""
    return [*([os.getcwd()] if _WANTED or always else []), *(loaded.folder for loaded in _FILES.values())]


@contextlib.contextmanager
def user_path(*, always: bool = False) -> Iterator[None]:
    """Puts the current folder, as `python -m` does, and the folders of loaded files on the import path.

    Processes started inside this context inherit the path. The current folder may be somebody else's, with a file
    `json.py` in it: it is added only once the user's code is imported, or `always`.
    """
    folders = import_folders(always=always)
    with _PATH_LOCK:
        sys.path = [*folders, *sys.path]  # a new list: another importing thread may be iterating over the old one
    try:
        yield
    finally:
        with _PATH_LOCK:
            left = list(sys.path)
            for folder in folders:
                if folder in left:  # the user's code may have removed it
                    left.remove(folder)
            sys.path = left
