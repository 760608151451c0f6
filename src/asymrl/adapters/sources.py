"""Worlds from outside this package, by name: registered ones, `.pomdp` files, gymnax, the user's classes, Gymnasium.

Importing this module is cheap: `import asymrl` does, to make these names known to `asymrl.make`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from asymrl.adapters.user_code import described, load_attribute, user_path
from asymrl.worlds.registry import Source, check_options, is_built_in, split_options

if TYPE_CHECKING:
    from asymrl.worlds.world import World

_POMDP_FILE = re.compile(r"(?P<path>.+\.pomdp(?:\.gz)?)(?::(?P<rest>.*))?", re.IGNORECASE | re.DOTALL)
_GYMNASIUM_ID = re.compile(r"(?:[\w.]+:|.+\.py:)?(?:[\w.-]+/)?[\w.-]+-v\d+")

_REGISTERED: dict[str, Callable[..., World]] = {}


def register(name: str, build: Callable[..., World]) -> None:
    """Makes a world known by a name in this process; `build` takes its options, at least `time_limit`.

    Raises:
        ValueError: if it is the name of a world of this package.
    """
    if is_built_in(name):
        raise ValueError(f"{name!r} is the name of a world of asymrl; give your world another name")
    _REGISTERED[name] = build


def pomdp_path(world: str) -> str | None:
    """The path of the `.pomdp` file that a world's name refers to, or None if it refers to none."""
    match = _POMDP_FILE.fullmatch(split_options(world)[0])
    return match["path"] if match else None


def _build_registered(name: str, options: dict[str, Any]) -> World:
    return _REGISTERED[name](**options)


def _build_from_file(name: str, options: dict[str, Any]) -> World:
    from asymrl.adapters.pomdp_files.reader import world_from_file

    match = _POMDP_FILE.fullmatch(name)
    assert match is not None
    path, rest = match.groups()
    if rest:
        raise ValueError(f"world {name!r}: {rest!r} is not an option; write PATH:key=value,key=value")
    check_options(path, world_from_file, options, given=1)
    return world_from_file(path, **options)


def _build_gymnax(name: str, options: dict[str, Any]) -> World:
    from asymrl.adapters.gymnax_world import make_gymnax

    return make_gymnax(name.removeprefix("gymnax:"), **options)


def _is_user_class(name: str) -> bool:
    _, colon, attribute = name.rpartition(":")
    return bool(colon) and attribute.isidentifier()


def _build_user_class(name: str, options: dict[str, Any]) -> World:
    import gymnasium

    from asymrl.worlds.world import World

    module, _, attribute = name.rpartition(":")
    made = load_attribute(f"world {name!r}", module, attribute)
    if isinstance(made, World):
        if unknown := sorted(set(options) - {"time_limit"}):
            raise ValueError(f"world {name!r} is already built; it cannot take the options {', '.join(unknown)}")
    elif not callable(made):
        raise ValueError(f"world {name!r} is a {type(made).__name__}; expected a World or a callable that makes one")
    elif isinstance(made, type) and issubclass(made, gymnasium.Env):
        return _wrap_gymnasium(name, made, options)
    else:
        make = made
        try:
            made = make(**{key: value for key, value in options.items() if key != "time_limit"})
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(f"world {name!r} cannot be made: {described(error)}") from error
        if isinstance(made, gymnasium.Env):
            return _wrap_gymnasium(name, make, options)
    if not isinstance(made, World):
        raise ValueError(f"world {name!r} makes a {type(made).__name__}; expected a World or a Gymnasium environment")
    return made.with_time_limit(options["time_limit"]) if "time_limit" in options else made


def _build_gymnasium(name: str, options: dict[str, Any]) -> World:
    return _wrap_gymnasium(name, name, options)


def _wrap_gymnasium(name: str, env: Any, options: dict[str, Any]) -> World:
    from asymrl.adapters.gym.gymnasium_world import from_gymnasium

    with user_path():
        return from_gymnasium(env, name=name, **options)


SOURCES = (
    Source("a .pomdp file", lambda name: _POMDP_FILE.fullmatch(name) is not None, _build_from_file),
    Source("", lambda name: name in _REGISTERED, _build_registered),
    Source("gymnax:NAME", lambda name: name.startswith("gymnax:"), _build_gymnax),
    Source("MODULE:CLASS or FILE.py:CLASS of your own", _is_user_class, _build_user_class),
    Source("a Gymnasium id", lambda name: _GYMNASIUM_ID.fullmatch(name) is not None, _build_gymnasium),
)
