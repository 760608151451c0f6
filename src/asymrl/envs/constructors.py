"""Arguments of an environment's constructor, checked against its signature before it is called."""

from __future__ import annotations

import difflib
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal

from asymrl.worlds.name_options import with_options

WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", list: "a list", dict: "a table"}
NUMBERS = (bool, int, float)


def parameters_of(build: Callable[..., Any]) -> tuple[dict[str, inspect.Parameter], bool]:
    """The parameters of a class or function by name, and whether it takes any others.

    A class that passes on `**kwargs` has those of its base classes as well.
    """
    parameters: dict[str, inspect.Parameter] = {}
    takes_any = False
    for each in _layers(build):
        try:
            signature = inspect.signature(each)
        except (TypeError, ValueError):
            return parameters, True
        own = [parameter for parameter in signature.parameters.values() if parameter.name != "self"]
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        parameters = {parameter.name: parameter for parameter in own if parameter.kind in named} | parameters
        takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in own)
        if not takes_any:
            break
    return parameters, takes_any


def _layers(build: Callable[..., Any]) -> list[Callable[..., Any]]:
    if not isinstance(build, type):
        return [build]
    return [each.__dict__["__init__"] for each in build.__mro__[:-1] if "__init__" in each.__dict__] or [build]


def checked_arguments(
    title: str, build: Callable[..., Any], arguments: Mapping[str, Any], given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The arguments with the types that the constructor expects: whole numbers become floats, lists tuples.

    Args:
        title: what to call the environment in errors.
        build: the class or function.
        arguments: what the user chose.
        given: others that it always gets.

    Raises:
        ValueError: if there is no such argument, its type is wrong, or one is missing.
    """
    parameters, takes_any = parameters_of(build)
    hints = _hints(build)
    checked = {}
    for name, value in arguments.items():
        if name not in parameters and not takes_any:
            close = difflib.get_close_matches(name, parameters, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}? " if close else ""
            there = f"it has {', '.join(parameters)}" if parameters else "it has none"
            raise ValueError(f"{title}: its constructor has no argument {name!r}; {hint}{there}")
        checked[name] = _checked(title, name, value, hints.get(name), parameters.get(name))
    empty = inspect.Parameter.empty
    missing = [n for n, p in parameters.items() if p.default is empty and n not in checked and n not in (given or {})]
    if missing:
        needed = ",".join(f"{name}=VALUE" for name in missing)
        how = f"write {_name_so_far(title, arguments)}{needed}, or use --env-args (env_kwargs in Python)"
        raise ValueError(f"{title}: its constructor needs {' and '.join(missing)}; {how}")
    return checked


def _name_so_far(title: str, arguments: Mapping[str, Any]) -> str:
    """The name with the known arguments, up to where the next begins; without those if one cannot be written."""
    try:
        return f"{with_options(title, arguments)}," if arguments else f"{title}:"
    except ValueError:
        return f"{title}:"


def _hints(build: Callable[..., Any]) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for each in reversed(_layers(build)):
        try:
            hints |= typing.get_type_hints(each)
        except Exception:  # names that exist for type checkers only
            hints |= {k: v for k, v in getattr(each, "__annotations__", {}).items() if not isinstance(v, str)}
    return hints


def _checked(title: str, name: str, value: Any, hint: Any, parameter: inspect.Parameter | None) -> Any:
    default = inspect.Parameter.empty if parameter is None else parameter.default
    if hint is None:
        # Without an annotation, only a text in place of a number is certainly a mistake.
        if isinstance(default, NUMBERS) and isinstance(value, str):
            raise ValueError(f"{title}: the argument {name} is {value!r}, expected a number, as its default {default}")
        return value
    try:
        return _converted(value, hint)
    except TypeError:
        remedy = f'; write {name}="{value}"' if str in (hint, *typing.get_args(hint)) else ""
        raise ValueError(f"{title}: the argument {name} is {value!r}, expected {_expected(hint)}{remedy}") from None


def _converted(value: Any, hint: Any) -> Any:
    """The value as one of the type. Raises TypeError if it certainly does not fit; unknown types accept any value."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _converted(value, parts[0])
    if origin in (types.UnionType, typing.Union):
        for part in sorted(parts, key=lambda part: part is not type(value)):  # an exact type first
            try:
                return _converted(value, part)
            except TypeError:
                continue
        raise TypeError(hint)
    if hint is types.NoneType or hint is None:
        if value is None:
            return None
        raise TypeError(hint)
    if origin is Literal:
        if any(value == part and type(value) is type(part) for part in parts):
            return value
        raise TypeError(hint)
    kind = origin or hint
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is tuple and isinstance(value, list):
        return tuple(value)
    if kind in (int, float, str, bool, list, dict, tuple):
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            return value
        raise TypeError(hint)
    return value


def _expected(hint: Any) -> str:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, parts))
    if origin in (types.UnionType, typing.Union):
        return " or ".join(map(_expected, parts))
    if hint is types.NoneType:
        return "none"
    return WORDS.get(origin or hint, "a list" if (origin or hint) is tuple else str(hint))
