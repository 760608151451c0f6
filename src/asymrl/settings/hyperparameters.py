"""The results of the paper's grid search, and the grid itself (appendix "Hyperparameters and Grid Search")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Steps: TypeAlias = int | Mapping[str, int]
"""How many steps runs have: all of them, or by their world."""
AUTHORS = "authors"

# Both learning rates were searched over these.
RATES = (0.0001, 0.0003, 0.001)

# The initial weight of the negative entropy was searched over values that depend on the world.
_SMALL, _MIDDLE, _LARGE = (0.01, 0.03, 0.1, 0.3, 1.0), (0.03, 0.1, 0.3, 1.0, 3.0), (0.3, 1.0, 3.0, 10.0, 30.0)
_ENTROPY_WEIGHTS = {
    "heaven-hell-3": _SMALL,
    "heaven-hell-4": _SMALL,
    "shopping-5": _LARGE,
    "shopping-6": _LARGE,
    "car-flag": _MIDDLE,
    "cleaner": _MIDDLE,
    "memory-four-rooms-7x7": _SMALL,
    "memory-four-rooms-9x9": _SMALL,
}

# Steps of a run. The paper's figure has 10 million for Heaven-Hell; for the others, 2 million is the default of the
# authors' code, but car-flag, cleaner and the memory rooms are not learned by then.
_BUDGETS = {
    "heaven-hell-3": 10_000_000,
    "heaven-hell-4": 10_000_000,
    "shopping-5": 2_000_000,
    "shopping-6": 2_000_000,
    "car-flag": 10_000_000,
    "cleaner": 10_000_000,
    "memory-four-rooms-7x7": 10_000_000,
    "memory-four-rooms-9x9": 6_000_000,
}

# World -> method -> actor's rate, critic's rate, initial weight of the negative entropy: the paper's table.
_TABLE = {
    "heaven-hell-3": {
        "a2c-asym-hs": (0.001, 0.001, 0.1),
        "a2c-asym-s": (0.001, 0.001, 1.0),
        "a2c": (0.001, 0.001, 0.1),
        "a2c-react-2": (0.001, 0.0003, 1.0),
        "a2c-react-4": (0.001, 0.0003, 1.0),
    },
    "heaven-hell-4": {
        "a2c-asym-hs": (0.001, 0.001, 0.1),
        "a2c-asym-s": (0.001, 0.001, 0.1),
        "a2c": (0.001, 0.0003, 0.3),
        "a2c-react-2": (0.001, 0.0003, 0.3),
        "a2c-react-4": (0.001, 0.0003, 0.3),
    },
    "shopping-5": {
        "a2c-asym-hs": (0.001, 0.0003, 3.0),
        "a2c-asym-s": (0.001, 0.001, 10.0),
        "a2c": (0.001, 0.0003, 3.0),
        "a2c-react-2": (0.001, 0.001, 3.0),
        "a2c-react-4": (0.001, 0.001, 3.0),
    },
    "shopping-6": {
        "a2c-asym-hs": (0.001, 0.0003, 3.0),
        "a2c-asym-s": (0.001, 0.001, 10.0),
        "a2c": (0.001, 0.0003, 3.0),
        "a2c-react-2": (0.001, 0.001, 1.0),
        "a2c-react-4": (0.001, 0.0003, 10.0),
    },
    "car-flag": {
        "a2c-asym-hs": (0.001, 0.001, 0.03),
        "a2c-asym-s": (0.001, 0.001, 0.03),
        "a2c": (0.001, 0.001, 0.03),
        "a2c-react-2": (0.001, 0.001, 0.03),
        "a2c-react-4": (0.001, 0.001, 0.03),
    },
    "cleaner": {
        "a2c-asym-hs": (0.001, 0.001, 1.0),
        "a2c-asym-s": (0.001, 0.001, 1.0),
        "a2c": (0.001, 0.001, 1.0),
        "a2c-react-2": (0.001, 0.001, 3.0),
        "a2c-react-4": (0.001, 0.001, 1.0),
    },
    "memory-four-rooms-7x7": {
        "a2c-asym-hs": (0.0003, 0.001, 0.1),
        "a2c-asym-s": (0.0003, 0.001, 0.01),
        "a2c": (0.0003, 0.0001, 0.1),
        "a2c-react-2": (0.001, 0.001, 0.3),
        "a2c-react-4": (0.001, 0.001, 0.3),
    },
    "memory-four-rooms-9x9": {
        "a2c-asym-hs": (0.001, 0.0003, 0.3),
        "a2c-asym-s": (0.001, 0.0003, 0.1),
        "a2c": (0.001, 0.0003, 0.3),
        "a2c-react-2": (0.001, 0.001, 0.1),
        "a2c-react-4": (0.001, 0.001, 0.1),
    },
}

PAPER_WORLDS = tuple(_TABLE)


def tuned(world: str, method: str) -> dict[str, float] | None:
    """What the paper's grid search chose for a world and a method, by the names of `Settings`.

    None for a world or method that the paper did not search, such as another size, a world with options or
    `a2c-react-3`: what is best there is not known, so the defaults of `Settings` are as good as any.
    """
    values = _TABLE.get(world, {}).get(method)
    return None if values is None else dict(zip(("actor_rate", "critic_rate", "entropy_weight"), values, strict=True))


def budget(world: str) -> int:
    """Environment steps of a run in our version of the paper's figures: as many as its world needs to be learned."""
    _check_world(world)
    return _BUDGETS[world]


def authors_budget(world: str) -> int:
    """Environment steps of a run in the authors' scripts: 10 million in Heaven-Hell, their default elsewhere."""
    _check_world(world)
    return 10_000_000 if world.startswith("heaven-hell") else 2_000_000


def steps_of(wanted: Steps | str) -> Steps:
    """A number of steps, or of each world, which may also be given as `authors`: see `authors_budget`.

    Raises:
        ValueError: if it is another word.
    """
    if not isinstance(wanted, str):
        return wanted
    if wanted != AUTHORS:
        raise ValueError(f"steps is {wanted!r}; it must be a whole number or {AUTHORS!r}")
    return {world: authors_budget(world) for world in PAPER_WORLDS}


def steps_in(world: str, steps: Steps) -> int:
    """Those of a run in a world."""
    return steps[world] if isinstance(steps, Mapping) else steps


def grid(world: str) -> dict[str, tuple[float, ...]]:
    """The values that the paper searched for each of its three settings: 45 combinations for every method."""
    _check_world(world)
    return {"actor_rate": RATES, "critic_rate": RATES, "entropy_weight": _ENTROPY_WEIGHTS[world]}


def _check_world(world: str) -> None:
    if world not in PAPER_WORLDS:
        raise ValueError(f"{world!r} is not in the paper; its worlds are {', '.join(PAPER_WORLDS)}")
