"""Reference returns: what a random policy and the best policy reach in the worlds of this package.

Episodes end at the world's usual time limit. The paper's curves show `undiscounted` returns; `discounted` ones use the
world's own discount. A score is `exact` (dynamic programming or a closed form), a pair of proven `bounds`, the return
of the best policy `found`, or a `Monte-Carlo` estimate.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources
from typing import TypeVar

import numpy as np

Returns = TypeVar("Returns", float, np.ndarray)


@dataclass(frozen=True)
class Score:
    """A return, known exactly or between two bounds."""

    low: float
    high: float
    kind: str

    def __str__(self) -> str:
        def short(x: float) -> str:
            # For tables: at most five significant digits, no exponent.
            return f"{x:.4f}".rstrip("0").rstrip(".") if abs(x) < 10 else f"{x:.2f}".rstrip("0").rstrip(".")

        if self.low == self.high:
            return short(self.low)
        return f"{short(self.low)} .. {short(self.high)}"


@dataclass(frozen=True)
class ReferenceScores:
    """Reference returns of one world, by the name of the policy: always `random` and `best`."""

    undiscounted: dict[str, Score]
    discounted: dict[str, Score]

    @property
    def random_and_best(self) -> tuple[float, float]:
        """The undiscounted returns that count as 0 and 1 of a normalised return.

        If the best return is only known by bounds, the lower one counts, which some policy reaches.
        """
        random, best = self.undiscounted["random"], self.undiscounted["best"]
        return (random.low + random.high) / 2, best.low

    @property
    def without_information(self) -> Score:
        """The best undiscounted return that needs no observation: that of the `uninformed` policy, or of a random one.

        This is the honest zero for a reader: avoiding the worst, such as opening doors at random in Tiger, is often
        much of the way from random to best. Where the best policy needs no observation either, or the uninformed one
        is unknown, it is the return of the random policy, which normalised returns always use, as in the literature.
        """
        random, best = self.random_and_best
        uninformed = self.undiscounted.get("uninformed")
        is_between = uninformed is not None and random < uninformed.low < best
        return uninformed if uninformed is not None and is_between else self.undiscounted["random"]

    @property
    def zero(self) -> float:
        """The return that counts as 0 of `reached`."""
        score = self.without_information
        return (score.low + score.high) / 2

    def reached(self, returns: Returns) -> Returns | None:
        """Undiscounted returns on a scale from `without_information`, 0, to the best known return, 1.

        None if the best known policy is no better than `without_information`.
        """
        best = self.undiscounted["best"].low
        return (returns - self.zero) / (best - self.zero) if best > self.zero else None


@functools.cache
def _table() -> dict[str, ReferenceScores]:
    text = resources.files("asymrl.worlds").joinpath("scores.json").read_text()
    return {
        world: ReferenceScores(**{g: {who: Score(**score) for who, score in by.items()} for g, by in entry.items()})
        for world, entry in json.loads(text).items()
    }


def scores(world: str) -> ReferenceScores | None:
    """The reference returns of a world, or None if none are known."""
    return _table().get(world)
