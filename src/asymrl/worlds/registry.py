"""Names of worlds, and the worlds they stand for.

Importing this module is cheap: the classes of the worlds, and JAX with them, are imported when a world is made.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asymrl.worlds.allowed_code import allow, check_allowed
from asymrl.worlds.name_options import PREFIX, parse_options, parsed_options, with_options

if TYPE_CHECKING:
    from asymrl.worlds.world import World

DEFAULT_TIME_LIMIT = 100  # The paper ends every episode after 100 steps (appendix "Hyperparameters").


def corridor_time_limit(n: int) -> int:
    """The time limit of T-maze-n: the usual one, or twice the shortest way to the goal if that is longer."""
    return max(DEFAULT_TIME_LIMIT, 2 * (n + 1))


class Family(NamedTuple):
    """Worlds of this package that share a pattern of names; the numbers in a name are the class's first arguments."""

    pattern: str
    shown_as: str
    home: str
    """The module and the class."""
    members: tuple[str, ...]
    """The names that are listed; other sizes can be made as well."""
    time_limit: int | Callable[..., int] = DEFAULT_TIME_LIMIT
    """Of its worlds, unless an option says otherwise; or a function of the numbers in the name."""
    brings_discount: bool = False
    """Whether runs use the discount of the world; the others use that of the paper."""
    largest: int = 10_000
    """The largest number in a name; beyond it, the world does not fit into memory."""

    def load(self) -> Callable[..., World]:
        """The class."""
        module, _, name = self.home.partition(":")
        return getattr(importlib.import_module(module), name)


class NamedOptions(NamedTuple):
    """The options of a world from outside this package."""

    bare: dict[str, Any]
    """By name: options of asymrl, or arguments of the environment's constructor."""
    arguments: dict[str, Any]
    """Certainly arguments of the constructor: written with `env.` in front, or given as `env_kwargs`."""
    written: frozenset[str] = frozenset()
    """The keys of `bare` that were written in the name; the others come from Python."""


class Source(NamedTuple):
    """Worlds from outside this package."""

    shown_as: str
    """What such a name looks like, for error messages; empty if it need not be mentioned."""
    matches: Callable[[str], bool]
    """Whether a name, without options, belongs to this source."""
    build: Callable[[str, NamedOptions], World]
    """Makes the world, from the name without options, and the options."""
    runs_code: Callable[[str], bool] = lambda name: False
    """Whether making a world with this whole name runs code that the name, or an option in it, chooses."""
    locate: Callable[[str], None] = lambda name: None
    """Records where the files that the whole name of a world refers to are now."""
    version: Callable[[str], Hashable] = lambda name: None
    """A value that changes with the meaning of the whole name of a world, as when a file has changed."""
    options: frozenset[str] = frozenset()
    """Options of asymrl; in a name, other options are arguments of the environment's constructor."""


FAMILIES = (
    Family(
        r"heaven-hell-(\d+)",
        "heaven-hell-N",
        "asymrl.worlds.builtin.heaven_hell:HeavenHell",
        ("heaven-hell-3", "heaven-hell-4"),
    ),
    Family(
        r"shopping-(\d+)",
        "shopping-N",
        "asymrl.worlds.builtin.shopping:Shopping",
        ("shopping-5", "shopping-6"),
        largest=40,
    ),
    Family(r"car-flag", "car-flag", "asymrl.worlds.builtin.car_flag:CarFlag", ("car-flag",)),
    Family(r"cleaner", "cleaner", "asymrl.worlds.builtin.cleaner:Cleaner", ("cleaner",)),
    Family(
        r"memory-four-rooms-(\d+)x(\d+)",
        "memory-four-rooms-HxW",
        "asymrl.worlds.builtin.memory_rooms:MemoryFourRooms",
        ("memory-four-rooms-7x7", "memory-four-rooms-9x9"),
        largest=999,
    ),
    Family(r"good-bad", "good-bad", "asymrl.worlds.builtin.tiger:GoodBad", ("good-bad",)),
    Family(r"tiger", "tiger", "asymrl.worlds.builtin.tiger:Tiger", ("tiger",)),
    Family(r"cart-pole", "cart-pole", "asymrl.worlds.builtin.cart_pole:CartPole", ("cart-pole",), time_limit=500),
    Family(
        r"t-maze-(\d+)",
        "t-maze-N",
        "asymrl.worlds.builtin.t_maze:TMaze",
        ("t-maze-10",),
        time_limit=corridor_time_limit,
        brings_discount=True,
    ),
    Family(
        r"rock-sample-(\d+)-(\d+)",
        "rock-sample-N-K",
        "asymrl.worlds.builtin.rock_sample:rock_sample",
        ("rock-sample-4-4", "rock-sample-7-8", "rock-sample-11-11"),
        brings_discount=True,
    ),
)

WORLDS = tuple(name for family in FAMILIES for name in family.members)

_SOURCES: list[Source] = []


def add_source(source: Source) -> None:
    """Makes the worlds of a source known to `make`. The sources added first are asked first."""
    if source not in _SOURCES:
        _SOURCES.append(source)


def make(name: str, *, env_kwargs: Mapping[str, Any] | None = None, trust: bool = True, **options: Any) -> World:
    """The world with this name.

    Args:
        name: such as `heaven-hell-3`, the path of a `.pomdp` file, a Gymnasium id, `gymnax:NAME`, `MODULE:CLASS` or
            `FILE.py:CLASS`; options may follow, as in `cleaner:maze_seed=7,end_when_clean=true`.
        env_kwargs: arguments of the environment's constructor. In a name, they are written among the options.
        trust: whether code that the name refers to may be imported. False, for names read from a file: only if the
            user has named it in this process.
        **options: the same options from Python, such as `time_limit=50`. Every world has `time_limit`.

    Raises:
        ValueError: if there is no such world, size or option; the message lists the choices.
        TypeError: if the name is not text.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a world is text, such as 'heaven-hell-3', not {name!r}")
    base, text = split_options(name)
    written, arguments = parsed_options(name, text)
    arguments |= env_kwargs or {}
    if belongs := _family(base):
        family, sizes = belongs
        options = {**written, **arguments, **options}
        if too_large := [size for size in sizes if size > family.largest]:
            raise ValueError(f"world {base!r}: {too_large[0]} is too large; choose at most {family.largest}")
        check_options(family.shown_as, family.load(), options, given=len(sizes))
        return family.load()(*sizes, **options)
    if source := source_of(base):
        if trust:
            allow(name)
            source.locate(name)
        elif source.runs_code(name):
            check_allowed(name)
        return source.build(name, NamedOptions({**written, **options}, arguments, frozenset(written) - set(options)))
    if base and Path(base).is_dir():
        raise ValueError(f"{base!r} is a folder, not a world. A file of your own is FILE.py:CLASS or FILE.pomdp")
    raise ValueError(f"unknown world {base!r}. {_suggestion(base)}")


def full_name(name: str, env_kwargs: Mapping[str, Any] | None = None) -> str:
    """A name with more arguments of the constructor. Equal worlds get equal names: options are sorted.

    Raises:
        ValueError: if a value cannot be written as text.
    """
    base, text = split_options(name)
    source = source_of(base)
    ours = frozenset() if source is None else source.options
    options: dict[str, Any] = {}
    for key, value in [*parse_options(name, text).items(), *((PREFIX + k, v) for k, v in (env_kwargs or {}).items())]:
        argument = key.removeprefix(PREFIX)
        options[key if argument in ours else argument] = value
    return with_options(base, options)


def options_of(name: str) -> dict[str, Any]:
    """The options in a name."""
    return parse_options(name, split_options(name)[1])


def arguments_of(name: str) -> dict[str, Any]:
    """The arguments of the constructor in a name, or the options of a world of this package."""
    source = source_of(name)
    ours = frozenset() if source is None else source.options
    return {key.removeprefix(PREFIX): value for key, value in options_of(name).items() if key not in ours}


def version_of(name: str) -> Hashable:
    """A value that changes with the meaning of a name, as when the file of a world has changed. Makes no world."""
    source = source_of(name)
    return None if source is None else source.version(name)


def runs_code(name: str) -> bool:
    """Whether making this world runs code that the name chooses: a file or module, or an environment's arguments."""
    source = source_of(name)
    return source is not None and source.runs_code(name)


def source_of(name: str) -> Source | None:
    """Where a world from outside this package comes from; None for the worlds of this package and unknown names."""
    base, _ = split_options(name)
    return None if _family(base) else next((source for source in _SOURCES if source.matches(base)), None)


def is_built_in(name: str) -> bool:
    """Whether a name, without options, is that of a world of this package."""
    return _family(name) is not None


def usual_time_limit(name: str) -> int:
    """Steps after which episodes of a named world end, unless an option says otherwise. Makes no world."""
    if (belongs := _family(split_options(name)[0])) is None:
        return DEFAULT_TIME_LIMIT
    family, sizes = belongs
    return family.time_limit if isinstance(family.time_limit, int) else family.time_limit(*sizes)


def brings_discount(name: str) -> bool:
    """Whether runs in a world of this package use its own discount. Makes no world."""
    belongs = _family(split_options(name)[0])
    return belongs is not None and belongs[0].brings_discount


def split_options(name: str) -> tuple[str, str]:
    """A name without its options, which may contain colons, and the text of the options."""
    first, _, rest = name.partition(":")
    if any(re.fullmatch(family.pattern, first, re.IGNORECASE) for family in FAMILIES):
        return first, rest
    match = re.fullmatch(r"(.*?)(?::((?:[\w.]+\s*=|[^:]*,).*|))?", name, re.DOTALL)
    assert match is not None
    return match[1], match[2] or ""


def check_options(shown_as: str, build: Callable[..., World], options: dict[str, Any], *, given: int) -> None:
    """Refuses options that a world does not have or whose type is wrong.

    Args:
        shown_as: what to call the world in errors.
        build: the class or function that makes it.
        options: what the user chose.
        given: how many of the first parameters of `build` are not options, as the name already holds them.
    """
    parameters = list(inspect.signature(build).parameters)[given:]
    names = sorted(set(parameters) - {"name"})
    types = typing.get_type_hints(build if inspect.isfunction(build) else build.__init__)
    for option, value in options.items():
        if option not in names:
            raise ValueError(f"{shown_as} has no option {option!r}; its options are {', '.join(names)}")
        # To Python a boolean is a whole number, and a whole number is no float although it can serve as one.
        option_type = types[option] | int if types[option] is float else types[option]
        if not isinstance(value, option_type) or (isinstance(value, bool) and option_type is not bool):
            expected = getattr(types[option], "__name__", types[option])
            raise ValueError(f"{shown_as}: option {option} is {value!r}, expected {expected}")


def _family(base: str) -> tuple[Family, list[int]] | None:
    """The family that a name belongs to, and the numbers in the name."""
    for family in FAMILIES:
        if match := re.fullmatch(family.pattern, base):
            return family, [int(size) for size in match.groups()]
    return None


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), WORLDS, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    names = [entry.shown_as for entry in (*FAMILIES, *_SOURCES) if entry.shown_as]
    return f"{hint}Known worlds: {', '.join(names)}."
