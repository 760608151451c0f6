"""Turns what a user gave into settings: checks every value, and combines the sources in one order."""

from __future__ import annotations

import contextlib
import difflib
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

from asymrl.runs.files import RunError
from asymrl.settings import SETTINGS, SETTINGS_TYPES, A2CSettings, Settings, check_learner, settings_type
from asymrl.settings.presets import preset_named, preset_values
from asymrl.settings.quantities import real_number, whole_number
from asymrl.worlds.name_options import PREFIX
from asymrl.worlds.registry import brings_discount, full_name, make, source_of, usual_time_limit


def resolve(
    world: str, method: str, *given: Mapping[str, Any], tuned: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """The settings of a run, from all sources: the world, then what was tuned, then a preset, then what was given.

    Args:
        world: name of the world.
        method: name of the method.
        *given: what the user gave, by the names of `Settings`; later ones override earlier ones (a configuration file,
            then the options). A `preset` among them is applied before them.
        tuned: what is known to work for this world and method.

    Returns:
        Values for `Settings`; those that are missing keep their defaults.

    Raises:
        ValueError: if the world cannot be found.
        RunError: if a name is not a setting, or a value is not possible for it.
    """
    world = full_name(world)
    overrides: dict[str, Any] = {}
    for source in given:
        overrides |= checked_values(source, "settings", method)
    try:
        check_learner(method, overrides)
    except ValueError as error:
        raise RunError(str(error)) from None
    values = {**world_settings(world), **(tuned or {}), **preset_settings(overrides, method), **overrides}
    return {**values, "world": world, "method": method}


def preset_settings(given: Mapping[str, Any], method: str) -> dict[str, Any]:
    """The settings of the preset that is given, if one is.

    Raises:
        RunError: if there is no such preset, or it belongs to another learner.
    """
    try:
        return preset_values(given.get("preset"), method)
    except ValueError as error:
        raise RunError(str(error)) from None


def method_of(given: Mapping[str, Any], default: str = A2CSettings.method) -> str:
    """The method that is given, or that of the preset that is given, or the default.

    Raises:
        RunError: if there is no such preset.
    """
    if (name := given.get("method")) is not None:
        return name
    try:
        return default if (preset := given.get("preset")) is None else preset_named(preset).method
    except ValueError as error:
        raise RunError(str(error)) from None


def world_settings(world: str) -> dict[str, Any]:
    """The discount and the time limit that a world brings along, where they are not those of the paper's worlds.

    Raises:
        ValueError: if the world cannot be found or read.
    """
    if source_of(world) is None and not brings_discount(world):
        limit = usual_time_limit(world)
        return {} if limit == Settings.time_limit else {"time_limit": limit}
    env = make(world)
    return {"discount": env.discount, "time_limit": env.time_limit or Settings.time_limit}


def checked_values(values: Mapping[str, Any], where: str, method: str | None = None) -> dict[str, Any]:
    """The values with the types that `Settings` needs: lists become tuples, whole numbers floats, "none" None.

    Args:
        values: by the names of settings.
        where: they come from, for messages.
        method: whose learner's settings they are, unless they name one themselves. None: unknown.

    Raises:
        RunError: naming `where`, the setting and what it expects.
    """
    name = values.get("method", method)
    checked, hints = {}, _types(name if isinstance(name, str) else None)
    for name, value in values.items():
        if name.startswith(PREFIX):
            raise RunError(f"{where}: {name} is an argument of an environment; give it behind the name, or to a sweep")
        if name not in SETTINGS:
            close = difflib.get_close_matches(name.replace("-", "_"), SETTINGS, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(SETTINGS)}"
            raise RunError(f"{where}: unknown setting {name!r}; {hint}")
        try:
            # Other texts keep the word: a memory may be called none.
            checked[name] = None if name == "preset" and value == "none" else _converted(value, hints[name])
        except TypeError:
            raise RunError(f"{where}: {name} is {value!r}, expected {_description(hints[name])}") from None
    return checked


@functools.cache
def _types(method: str | None) -> dict[str, Any]:
    """The types of all settings; where those of learners differ, as the method's learner has them."""
    kinds = [*SETTINGS_TYPES.values()]
    with contextlib.suppress(ValueError, TypeError):  # an unknown method is refused elsewhere, by name
        kinds += [settings_type(method)] if method is not None else []
    return {name: hint for kind in kinds for name, hint in typing.get_type_hints(kind).items()}


def _converted(value: Any, target_type: Any) -> Any:
    """The value as one of this type. Raises TypeError if that is not possible."""
    origin, parts = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is types.UnionType or origin is typing.Union:
        if value is None or (value == "none" and str not in parts):
            return None
        return _converted(value, next(part for part in parts if part is not types.NoneType))
    if origin is Literal:
        if value in parts:
            return value
    elif origin is tuple:
        if isinstance(value, list | tuple):
            return tuple(_converted(part, parts[0]) for part in value)
    elif target_type in (int, float) and isinstance(value, str):
        with contextlib.suppress(ValueError):
            return whole_number(value) if target_type is int else real_number(value)
    elif target_type is float:
        if isinstance(value, float | int) and not isinstance(value, bool):
            return float(value)
    elif target_type is int:
        # 2e6 is how one writes two million in a configuration file.
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    elif isinstance(value, target_type):
        return value
    raise TypeError(target_type)


def _description(target_type: Any) -> str:
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false", types.NoneType: '"none"'}
    origin, parts = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, parts))
    if origin is tuple:
        return "a list of whole numbers"
    return words[target_type] if target_type in words else " or ".join(map(_description, parts))
