"""Worlds from outside this package, by name: registered ones, `.pomdp` files, gymnax, the user's classes, Gymnasium.

Importing this module is cheap: `import asymrl` does, to make these names known to `asymrl.make`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from asymrl.envs.user_code import (
    described,
    file_version,
    load_attribute,
    locate,
    location_of,
    own_traceback,
    public_names,
    user_path,
)
from asymrl.worlds.registry import NamedOptions, Source, check_options, is_built_in, options_of, split_options

if TYPE_CHECKING:
    from asymrl.worlds.world import World

_POMDP_FILE = re.compile(r"(?P<path>.+\.pomdp(?:\.gz)?)(?::(?P<rest>.*))?", re.IGNORECASE | re.DOTALL)
_GYMNASIUM_ID = re.compile(r"(?:[\w.]+:|.+\.py:)?(?:[\w.-]+/)?[\w.-]+-v\d+")

_REGISTERED: dict[str, Callable[..., World]] = {}
_OBJECTS: dict[str, World] = {}  # the registered worlds that were made in Python


def register(name: str, build: Callable[..., World]) -> None:
    """Makes a world known by a name in this process; `build` takes its options, at least `time_limit`.

    Raises:
        ValueError: if it is the name of a world of this package.
    """
    if is_built_in(name):
        raise ValueError(f"{name!r} is the name of a world of asymrl; give your world another name")
    _REGISTERED[name] = build
    _OBJECTS.pop(name, None)


def register_object(world: World) -> None:
    """Makes a world known by its own name in this process. Raises ValueError as `register` does."""
    if _OBJECTS.get(world.name) is not world:
        register(world.name, lambda time_limit=world.time_limit: world.with_time_limit(time_limit))
        _OBJECTS[world.name] = world


def recipe_of(name: str) -> str | None:
    """The name by which a world that was made in Python can be made again, or None."""
    return getattr(_OBJECTS.get(split_options(name)[0]), "recipe", None)


def pomdp_path(world: str) -> str | None:
    """The path of the `.pomdp` file that a world's name refers to, or None if it refers to none."""
    match = _POMDP_FILE.fullmatch(split_options(world)[0])
    return match["path"] if match else None


def is_registered(name: str) -> bool:
    """Whether a world has this name in this process, with whatever options."""
    return split_options(name)[0] in _REGISTERED


def registered(name: str) -> Callable[..., World]:
    """The function that makes the world that has this name in this process."""
    return _REGISTERED[split_options(name)[0]]


def code_sources(name: str) -> tuple[str, ...]:
    """The files and modules that the name of a world refers to, including its options."""
    base, _ = split_options(name)
    if is_registered(base) or base.startswith("gymnax:") or pomdp_path(name) is not None:
        return ()
    latent = options_of(name).get("latent")
    named = [base, *([latent] if isinstance(latent, str) else [])]
    return tuple(dict.fromkeys(each.rpartition(":")[0] for each in named if ":" in each))


def _locate_files(name: str) -> None:
    for source in code_sources(name):
        if source.endswith(".py"):
            locate(source)
    if (path := pomdp_path(name)) is not None:
        locate(path)


def _build_registered(name: str, options: NamedOptions) -> World:
    from asymrl.envs.constructors import checked_arguments

    build = registered(name)
    return build(**checked_arguments(split_options(name)[0], build, {**options.bare, **options.arguments}))


def _build_from_file(name: str, options: NamedOptions) -> World:
    from asymrl.envs.pomdp_files.reader import world_from_file

    base, _ = split_options(name)
    match = _POMDP_FILE.fullmatch(base)
    assert match is not None
    path, rest = match.groups()
    if rest:
        raise ValueError(f"world {name!r}: {rest!r} is not an option; write PATH:key=value,key=value")
    keywords = {**options.bare, **options.arguments}
    check_options(path, world_from_file, keywords, given=1)
    return world_from_file(_readable(path), **keywords)


def _readable(path: str) -> str:
    """The path to read a `.pomdp` file from: a copy, if it has changed or is gone."""
    from asymrl.envs.pomdp_files.reader import checksum

    location = location_of(path)
    if location.sha256 is None or location.copy is None:
        return path if os.path.abspath(path) == location.path else location.path  # errors show the path as written
    is_same = os.path.isfile(location.path) and checksum(location.path) == location.sha256
    return location.path if is_same else location.copy


def _version(name: str) -> Hashable:
    """Changes with what a name means: the contents of files, or a world made in Python."""
    if is_registered(name):
        return id(registered(name))
    files = [source for source in code_sources(name) if source.endswith(".py")]
    if (path := pomdp_path(name)) is not None:
        files.append(path)
    return tuple(map(file_version, files))


def _build_gymnax(name: str, options: NamedOptions) -> World:
    from asymrl.envs.gymnax_world import make_gymnax

    base, _ = split_options(name)
    ours, arguments = split_arguments(options, GYMNAX_OPTIONS)
    return make_gymnax(base.removeprefix("gymnax:"), arguments, name=name, **ours)


def split_arguments(options: NamedOptions, ours: frozenset[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of asymrl, and the arguments of the constructor."""
    own = {name: value for name, value in options.bare.items() if name in ours}
    return own, {name: value for name, value in options.bare.items() if name not in ours} | options.arguments


def _is_user_class(name: str) -> bool:
    _, colon, attribute = name.rpartition(":")
    return bool(colon) and attribute.isidentifier()


def _build_user_class(name: str, options: NamedOptions) -> World:
    import gymnasium

    from asymrl.envs.constructors import checked_arguments
    from asymrl.worlds.world import World

    base, _ = split_options(name)
    module, _, attribute = base.rpartition(":")
    target = load_attribute(f"world {base!r}", module, attribute)
    is_world_class = isinstance(target, type) and issubclass(target, World)
    # A class of worlds sets its own time limit and discount.
    ours, arguments = split_arguments(options, frozenset({"time_limit"}) if is_world_class else GYMNASIUM_OPTIONS)
    if isinstance(target, World):
        if unknown := sorted({*ours, *arguments} - {"time_limit"}):
            raise ValueError(f"world {base!r} is already built; it cannot take the options {', '.join(unknown)}")
    elif not callable(target):
        expected = "expected a World, a Gymnasium environment, or a class or function that makes one"
        raise ValueError(f"world {base!r} is of type {type(target).__name__}; {expected}")
    else:
        if not is_world_class:
            check_written(base, target, options, GYMNASIUM_OPTIONS)
        arguments = checked_arguments(base, target, arguments)
        if isinstance(target, type) and issubclass(target, gymnasium.Env):
            return _wrap_gymnasium(name, target, ours, arguments)
        make = target
        target = _called(base, make, arguments)
        if isinstance(target, gymnasium.Env):
            target.close()
            return _wrap_gymnasium(name, make, ours, arguments)
    if not isinstance(target, World):
        raise ValueError(f"world {base!r} makes a {type(target).__name__}; expected a World or a Gymnasium environment")
    if unknown := sorted(set(ours) - {"time_limit"}):
        raise ValueError(f"world {base!r} is compiled; it has no option {unknown[0]!r}")
    return target.with_time_limit(ours["time_limit"]) if "time_limit" in ours else target


def _refuse_file(name: str, options: NamedOptions) -> World:
    base, _ = split_options(name)
    try:
        names = public_names(base)
    except (OSError, SyntaxError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else described(error)
        raise ValueError(f"world {base!r}: {base} cannot be read: {cause}") from error
    which = ", ".join(f"{base}:{each}" for each in names) or f"{base}:CLASS"
    raise ValueError(f"world {base!r} is a file; name the class or function in it that makes the environment: {which}")


def check_written(base: str, build: Callable[..., Any], options: NamedOptions, ours: frozenset[str]) -> None:
    """Raises ValueError if an option in the name could be one of asymrl or an argument of the constructor."""
    from asymrl.envs.constructors import parameters_of

    parameters, _ = parameters_of(build)
    for option in sorted(options.written & ours & set(parameters)):
        raise ValueError(
            f"world {base!r}: {option} is an option of asymrl and an argument of the constructor; write env.{option} "
            f"for the argument" + (f", or --{option.replace('_', '-')} for the run" if option in SETTINGS_TOO else "")
        )


def _called(base: str, make: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        with user_path():
            return make(**arguments)
    except ValueError:
        raise
    except Exception as error:
        from asymrl.worlds.stepped_world import UserCodeError

        raise UserCodeError(f"world {base!r} cannot be made: {described(error)}", own_traceback(error)) from error


def _build_gymnasium(name: str, options: NamedOptions) -> World:
    base, _ = split_options(name)
    ours, arguments = split_arguments(options, GYMNASIUM_OPTIONS)
    return _wrap_gymnasium(name, base, ours, arguments, options)


def _wrap_gymnasium(
    name: str, env: Any, ours: dict[str, Any], arguments: dict[str, Any], options: NamedOptions | None = None
) -> World:
    from asymrl.envs.gymnasium_world import constructor_named, from_gymnasium

    with user_path():
        if options is not None:
            check_written(env, constructor_named(env), options, GYMNASIUM_OPTIONS)
        return from_gymnasium(env, name=name, env_kwargs=arguments, **ours)


def _chooses_code(name: str) -> bool:
    """Whether the name of a Gymnasium environment names a file, a module or arguments besides an installed id."""
    return bool(code_sources(name)) or bool(set(options_of(name)) - NUMBERS_OF_OURS)


GYMNASIUM_OPTIONS = frozenset({"latent", "stepping", "step_timeout", "time_limit", "discount"})
GYMNAX_OPTIONS = frozenset({"time_limit", "discount"})
SETTINGS_TOO = frozenset({"time_limit", "discount"})
NUMBERS_OF_OURS = GYMNASIUM_OPTIONS - {"latent"}

SOURCES = (
    Source(
        "a .pomdp file",
        lambda name: _POMDP_FILE.fullmatch(name) is not None,
        _build_from_file,
        locate=_locate_files,
        version=_version,
    ),
    Source("", lambda name: name.endswith(".py") and ":" not in name, _refuse_file),
    Source("", lambda name: name in _REGISTERED, _build_registered, version=_version),
    Source(
        "gymnax:NAME",
        lambda name: name.startswith("gymnax:"),
        _build_gymnax,
        runs_code=lambda name: bool(set(options_of(name)) - GYMNAX_OPTIONS),
        options=GYMNAX_OPTIONS,
    ),
    Source(
        "MODULE:CLASS or FILE.py:CLASS of your own",
        _is_user_class,
        _build_user_class,
        runs_code=lambda name: True,
        locate=_locate_files,
        version=_version,
        options=GYMNASIUM_OPTIONS,
    ),
    Source(
        "a Gymnasium id",
        lambda name: _GYMNASIUM_ID.fullmatch(name) is not None,
        _build_gymnasium,
        runs_code=_chooses_code,
        locate=_locate_files,
        version=_version,
        options=GYMNASIUM_OPTIONS,
    ),
)
