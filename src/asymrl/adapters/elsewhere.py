"""Worlds that are not part of this package: of the user, of Gymnasium, of gymnax."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from asymrl.worlds.world import World

_OWN: dict[str, Callable[..., World]] = {}
_FILES: dict[str, tuple[int, ModuleType]] = {}  # the user's: when they were changed, and what is in them

GYMNASIUM_ID = r"(?:[\w.]+:|.+\.py:)?(?:[\w.-]+/)?[\w.-]+-v\d+"


def register(name: str, build: Callable[..., World]) -> None:
    """Makes a world known by a name in this process; `build` takes its options, at least `time_limit`."""
    _OWN[name] = build


def make_elsewhere(name: str, options: dict[str, Any]) -> World | None:
    """The world that a name means outside of this package, or None if it means none.

    A name that was registered, `gymnax:NAME`, `module:Name` or `file.py:Name` for a world (or a Gymnasium environment)
    of the user's own, and the ids of Gymnasium, with the module or file that registers them if need be.
    """
    if name in _OWN:
        return _OWN[name](**options)
    if name.startswith("gymnax:"):
        from asymrl.adapters.gymnax import make_gymnax

        return make_gymnax(name.removeprefix("gymnax:"), **options)
    module, colon, attribute = name.rpartition(":")
    if colon and attribute.isidentifier():
        return _build(name, fetch(f"world {name!r}", module, attribute), options)
    if re.fullmatch(GYMNASIUM_ID, name):
        return _gymnasium(name, name, options)
    return None


def fetch(what: str, source: str, attribute: str) -> Any:
    """What a module, or a file that ends in .py, calls `attribute`. Raises ValueError, beginning with `what`."""
    module = imported(what, source)
    if not hasattr(module, attribute):
        raise ValueError(f"{what}: {source} has no {attribute!r}")
    return getattr(module, attribute)


def imported(what: str, source: str) -> ModuleType:
    """The module of this name, or in this file that ends in .py. Raises ValueError, beginning with `what`."""
    try:
        with users_modules():
            return _from_file(source) if source.endswith(".py") else importlib.import_module(source)
    except (ImportError, OSError) as error:
        raise ValueError(f"{what}: {source} can not be imported: {error}") from error


def _from_file(path: str) -> ModuleType:
    if not os.path.exists(path):
        raise OSError(f"there is no file {path}")
    whole, changed = os.path.abspath(path), os.stat(path).st_mtime_ns
    if whole in _FILES and _FILES[whole][0] == changed:
        return _FILES[whole][1]
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    assert spec is not None  # as the name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Known under its name, so that classes in it can be found again by other processes.
    sys.modules[spec.name] = module
    _FILES[whole] = changed, module
    try:
        with users_modules():
            spec.loader.exec_module(module)
    except BaseException:
        del _FILES[whole]
        raise
    return module


@contextlib.contextmanager
def users_modules() -> Iterator[None]:
    """Modules in the current folder can be imported, as `python -m` would have it, and those beside files with worlds.

    Processes that are started meanwhile can import them, too.
    """
    folders = [os.getcwd(), *map(os.path.dirname, _FILES)]
    sys.path[:0] = folders
    try:
        yield
    finally:
        for folder in folders:
            sys.path.remove(folder)


def _build(name: str, found: Any, options: dict[str, Any]) -> World:
    if isinstance(found, World):
        if unknown := sorted(set(options) - {"time_limit"}):
            raise ValueError(f"world {name!r} is built already; it can not have the options {', '.join(unknown)}")
        return with_limit(found, options["time_limit"]) if options else found
    if not callable(found):
        raise ValueError(f"world {name!r} is a {type(found).__name__}; expected a World or something that makes one")
    import gymnasium

    if isinstance(found, type) and issubclass(found, gymnasium.Env):
        return _gymnasium(name, found, options)
    accepted = {key: value for key, value in options.items() if key != "time_limit"}
    built = found(**accepted)
    if isinstance(built, gymnasium.Env):
        return _gymnasium(name, found, options)
    if not isinstance(built, World):
        raise ValueError(f"world {name!r} makes a {type(built).__name__}; expected a World or a Gymnasium environment")
    return with_limit(built, options["time_limit"]) if "time_limit" in options else built


def with_limit(world: World, time_limit: int | None) -> World:
    """The same world with another time limit; None for no limit."""
    import copy

    changed = copy.copy(world)
    # Worlds are frozen, and their constructors differ too much to call them again.
    object.__setattr__(changed, "time_limit", time_limit)
    changed.__check_init__()
    return changed


def _gymnasium(name: str, env: Any, options: dict[str, Any]) -> World:
    # Gymnasium's side of this package builds on this one, so it is imported when it is needed.
    foreign = importlib.import_module("asymrl.adapters.gym.foreign")
    with users_modules():
        return foreign.from_gymnasium(env, name=name, **options)
