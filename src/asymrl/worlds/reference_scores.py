"""Reference returns: what a random and the best policy get in the worlds that have a name.

The numbers are for at most 100 actions. `undiscounted` is what the paper's curves show; `discounted` uses the
world's own discount. They come from dynamic programming or closed forms ("exact"), from proven lower and upper
bounds ("bounds"), from the best policy found ("found"), or from simulation ("Monte-Carlo").
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Score:
    """A return, known exactly or between two bounds."""

    low: float
    high: float
    kind: str

    def __str__(self) -> str:
        def short(x: float) -> str:
            # Five significant digits at most, and no exponent: these stand in tables.
            return f"{x:.4f}".rstrip("0").rstrip(".") if abs(x) < 10 else f"{x:.2f}".rstrip("0").rstrip(".")

        if self.low == self.high:
            return short(self.low)
        return f"{short(self.low)} .. {short(self.high)}"


@dataclass(frozen=True)
class Scores:
    """Reference returns of one world, by the name of the policy: always `random` and `best`."""

    undiscounted: dict[str, Score]
    discounted: dict[str, Score]


@functools.cache
def _table() -> dict[str, Scores]:
    text = resources.files("asymrl.worlds").joinpath("scores.json").read_text()
    return {
        world: Scores(**{g: {who: Score(**score) for who, score in by.items()} for g, by in entry.items()})
        for world, entry in json.loads(text).items()
    }


def scores(world: str) -> Scores | None:
    """The reference returns of a world, or None where none are known."""
    return _table().get(world)
