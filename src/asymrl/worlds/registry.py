"""Names of worlds, and the worlds they stand for."""

from __future__ import annotations

import difflib
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from asymrl.adapters.elsewhere import make_elsewhere
from asymrl.worlds.car_flag import CarFlag
from asymrl.worlds.classics import GoodBad, Tiger
from asymrl.worlds.cleaner import Cleaner
from asymrl.worlds.heaven_hell import HeavenHell
from asymrl.worlds.memory_rooms import MemoryFourRooms
from asymrl.worlds.names import WORLDS, split_file, split_options
from asymrl.worlds.shopping import Shopping
from asymrl.worlds.world import World


class Family(NamedTuple):
    """Worlds that share a pattern of names; the numbers in a name are the first arguments of `build`."""

    pattern: str
    shown_as: str
    build: Callable[..., World]


FAMILIES = (
    Family(r"heaven-hell-(\d+)", "heaven-hell-N", HeavenHell),
    Family(r"shopping-(\d+)", "shopping-N", Shopping),
    Family(r"car-flag", "car-flag", CarFlag),
    Family(r"cleaner", "cleaner", Cleaner),
    Family(r"memory-four-rooms-(\d+)x(\d+)", "memory-four-rooms-HxW", MemoryFourRooms),
    Family(r"good-bad", "good-bad", GoodBad),
    Family(r"tiger", "tiger", Tiger),
)


def make(name: str, **options: Any) -> World:
    """The world with this name.

    Args:
        name: such as `heaven-hell-3`, or the path of a `.pomdp` file; options may follow, as in
            `cleaner:maze_seed=7,end_when_clean=true`.
        **options: the same options from Python, such as `time_limit=50`. Every world has `time_limit`.

    Raises:
        ValueError: if there is no such world, size or option; the message says what there is.
    """
    if file := split_file(name):
        return _from_file(name, *file, options)
    base, text = split_options(name)
    options = {**_parse_options(name, text), **options}
    for family in FAMILIES:
        if match := re.fullmatch(family.pattern, base):
            _check_options(family, len(match.groups()), options)
            return family.build(*map(int, match.groups()), **options)
    if found := make_elsewhere(base, options):
        return found
    raise ValueError(f"unknown world {base!r}. {_suggestion(base)}")


def _from_file(name: str, path: str, text: str, options: dict[str, Any]) -> World:
    from asymrl.adapters.files.worlds import world_from_file

    options = {**_parse_options(name, text), **options}
    _check_options(Family("", path, world_from_file), 1, options)
    return world_from_file(path, **options)


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), WORLDS, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return (
        hint
        + "Known worlds: "
        + ", ".join(family.shown_as for family in FAMILIES)
        + (", a .pomdp file, a Gymnasium id, gymnax:NAME, or MODULE:CLASS or FILE.py:CLASS of your own.")
    )


def _check_options(family: Family, numbers: int, options: dict[str, Any]) -> None:
    """Refuses options that the world does not have, and those which its name already gives."""
    parameters = list(inspect.signature(family.build).parameters)[numbers:]
    known = sorted(set(parameters) - {"name"})
    types = typing.get_type_hints(family.build if inspect.isfunction(family.build) else family.build.__init__)
    for option, value in options.items():
        if option not in known:
            raise ValueError(f"{family.shown_as} has no option {option!r}; its options are {', '.join(known)}")
        # Python counts booleans as whole numbers, and whole numbers are not floats, but good enough for one.
        wanted = types[option] | int if types[option] is float else types[option]
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            shown = getattr(types[option], "__name__", types[option])
            raise ValueError(f"{family.shown_as}: option {option} is {value!r}, expected {shown}")


def _parse_options(name: str, text: str) -> dict[str, Any]:
    """The options written behind a name: `key=value,key=value`, with numbers, true, false or none as values."""
    options: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"world {name!r}: {part!r} is not an option; write NAME:key=value,key=value")
        options[key.strip()] = _parse_value(value.strip())
    return options


def _parse_value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
