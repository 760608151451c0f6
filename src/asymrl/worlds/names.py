"""The worlds that have a name of their own, without importing anything heavy."""

from __future__ import annotations

import re

# Name here -> name in Gymnasium, in the paper's order.
GYMNASIUM_NAMES = {
    "heaven-hell-3": "HeavenHell-3",
    "heaven-hell-4": "HeavenHell-4",
    "shopping-5": "Shopping-5",
    "shopping-6": "Shopping-6",
    "car-flag": "CarFlag",
    "cleaner": "Cleaner",
    "memory-four-rooms-7x7": "MemoryFourRooms-7x7",
    "memory-four-rooms-9x9": "MemoryFourRooms-9x9",
    "good-bad": "GoodBad",
    "tiger": "Tiger",
}

WORLDS = tuple(GYMNASIUM_NAMES)
PAPER_WORLDS = WORLDS[:8]

_OURS = re.compile(
    r"heaven-hell-\d+|shopping-\d+|car-flag|cleaner|memory-four-rooms-\d+x\d+|good-bad|tiger", re.IGNORECASE
)

# The path of a file, and options behind it, as in problems/maze.pomdp:time_limit=50.
_FILE = re.compile(r"(?P<path>.+\.pomdp)(?::(?P<options>.*))?", re.IGNORECASE | re.DOTALL)


def split_file(world: str) -> tuple[str, str] | None:
    """The path of the file that a world comes from and the text of its options; None for a world with a name."""
    found = _FILE.fullmatch(world)
    return (found["path"], found["options"] or "") if found else None


METHODS = ("a2c", "a2c-asym-s", "a2c-asym-hs", "a2c-react-2", "a2c-react-4")


def split_options(name: str) -> tuple[str, str]:
    """The name of a world itself, which may have a colon in it, and the options behind it."""
    first, _, rest = name.partition(":")
    if _OURS.fullmatch(first):
        return first, rest
    match = re.fullmatch(r"(.*?)(?::((?:\w+\s*=|[^:]*,).*|))?", name, re.DOTALL)
    assert match is not None
    return match[1], match[2] or ""


def is_from_elsewhere(name: str) -> bool:
    """Whether a name means a world of the user's, of Gymnasium or of gymnax, rather than one of ours."""
    base, _ = split_options(name)
    return ":" in base or re.search(r"-v\d+$", base) is not None
