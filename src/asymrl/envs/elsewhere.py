"""Worlds that are not part of this package: of the user, of Gymnasium, of gymnax."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from asymrl.envs.world import World

_OWN: dict[str, Callable[..., World]] = {}

GYMNASIUM_ID = r"(?:[\w.]+:)?(?:[\w.-]+/)?[\w.-]+-v\d+"


def register(name: str, build: Callable[..., World]) -> None:
    """Makes a world known by a name in this process; `build` takes its options, at least `time_limit`."""
    _OWN[name] = build


def make_elsewhere(name: str, options: dict[str, Any]) -> World | None:
    """The world that a name means outside of this package, or None if it means none.

    A name that was registered, `gymnax:NAME`, `module:Name` or `file.py:Name` for a world (or a Gymnasium environment)
    of the user's own, and the ids of Gymnasium, with the module that registers them if need be.
    """
    if name in _OWN:
        return _OWN[name](**options)
    if name.startswith("gymnax:"):
        from asymrl.envs.gymnax import make_gymnax

        return make_gymnax(name.removeprefix("gymnax:"), **options)
    module, colon, attribute = name.rpartition(":")
    if colon and attribute.isidentifier():
        return _build(name, _found(name, module, attribute), options)
    if re.fullmatch(GYMNASIUM_ID, name):
        return _gymnasium(name, name, options)
    return None


def _found(name: str, module: str, attribute: str) -> Any:
    try:
        with _here_first():
            source = _from_file(module) if module.endswith(".py") else importlib.import_module(module)
    except (ImportError, OSError) as error:
        raise ValueError(f"world {name!r}: {module} can not be imported: {error}") from error
    if not hasattr(source, attribute):
        raise ValueError(f"world {name!r}: {module} has no {attribute!r}")
    return getattr(source, attribute)


def _from_file(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise OSError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    # Known under its name, so that classes in it can be found again by other processes.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _here_first() -> Iterator[None]:
    """Modules in the current folder can be imported, as `python -m` would have it."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


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
    foreign = importlib.import_module("asymrl.gym.foreign")
    with _here_first():
        return foreign.from_gymnasium(env, name=name, **options)
