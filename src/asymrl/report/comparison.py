"""Which critic to use, from the learning curves of several methods in one world."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from asymrl.report.statistics import Interval, bootstrap, improvement_interval

STANDARD = "a2c"  # the method that every other is compared with: it needs no latent state
# What to take where the runs do not tell methods apart: what needs least, then what is known to be unbiased.
SIMPLEST_FIRST = ("a2c", "a2c-asym-hs", "a2c-react-4", "a2c-react-2", "a2c-asym-s")
SURE = 0.5  # a probability of improvement whose whole interval lies above this is one that can be relied on


class Scores(NamedTuple):
    """What the runs of a method have reached."""

    final: Float[np.ndarray, "run"]
    """The return at the end of training."""
    during: Float[np.ndarray, "run"]
    """The mean return over all of training, which is higher the sooner a run learns."""


class Row(NamedTuple):
    """A method among others. Intervals hold with 95 % confidence."""

    method: str
    runs: int
    final: Interval
    during: Interval
    improvement: Interval | None
    """How likely a run beats one of the standard method at the end; None for that method itself."""


def scores_of(metrics: pl.DataFrame) -> dict[str, Scores]:
    """The scores of each method in a table of metrics of one world."""
    found = {}
    for (method,), rows in metrics.group_by("method", maintain_order=True):
        runs = [run["return"].to_numpy() for run in rows.partition_by("seed", maintain_order=True)]
        final, during = (np.asarray([part(run) for run in runs], np.float64) for part in (_last, np.nanmean))
        found[str(method)] = Scores(final, during)
    return found


def _last(run: np.ndarray) -> float:
    return run[-1]


def rows_of(scores: Mapping[str, Scores]) -> list[Row]:
    """A row for each method, with interquartile means."""
    standard = scores.get(STANDARD)
    rows = []
    for method, (final, during) in scores.items():
        better = None
        if standard is not None and method != STANDARD:
            better = improvement_interval(_column(final), _column(standard.final))
        rows.append(Row(method, len(final), bootstrap(_column(final)), bootstrap(_column(during)), better))
    return rows


def _column(values: Float[np.ndarray, "run"]) -> Float[np.ndarray, "run 1"]:
    return values[:, None]


class Choice(NamedTuple):
    """The method to use, and the reason in words."""

    method: str
    reason: str


def choose(scores: Mapping[str, Scores]) -> Choice:
    """The method with the best return at the end; among those as good, the one that learns soonest, or the simplest."""
    best = max(scores, key=lambda method: _middle(scores[method].final))
    rest = [method for method in scores if method != best]
    if not rest:
        return Choice(best, f"Use {best}: there is no other to choose from.")
    rivals = [method for method in rest if not _beats(scores[best].final, scores[method].final)]
    if not rivals:
        second = max(rest, key=lambda method: _middle(scores[method].final))
        chance = improvement_interval(_column(scores[best].final), _column(scores[second].final))
        return Choice(
            best,
            f"Use {best}: at the end of training a run of it beats a run of {second}, the next best, with probability "
            f"{_short(chance)}.",
        )
    equals = [best, *rivals]
    listed = _listed(sorted(equals, key=SIMPLEST_FIRST.index))
    soonest = max(equals, key=lambda method: _middle(scores[method].during))
    if all(_beats(scores[soonest].during, scores[method].during) for method in equals if method != soonest):
        gained = bootstrap(_column(scores[soonest].during))
        return Choice(
            soonest,
            f"Use {soonest}: at the end of training the runs do not tell {listed} apart, but it learns soonest (mean "
            f"return over training {_short(gained)}).",
        )
    simplest = min(equals, key=SIMPLEST_FIRST.index)
    runs = min(len(each.final) for each in scores.values())
    more = "more --seeds or more --steps" if could_tell(runs, runs) else "at least 4 --seeds: fewer prove nothing"
    return Choice(
        simplest,
        f"The runs do not tell {listed} apart. Use {simplest}, which asks for least, or find out with {more}.",
    )


def on_privilege(scores: Mapping[str, Scores]) -> str | None:
    """Whether the critic V(h, s) does better than V(h), in a sentence; None if one of them was not trained."""
    if STANDARD not in scores or "a2c-asym-hs" not in scores:
        return None
    chance = improvement_interval(_column(scores["a2c-asym-hs"].final), _column(scores[STANDARD].final))
    told = "Telling the critic the state, V(h, s) instead of V(h),"
    verdict = f"{told} has no effect that these runs could show"
    enough = could_tell(len(scores["a2c-asym-hs"].final), len(scores[STANDARD].final))
    if enough and chance.low > SURE:
        verdict = f"{told} helps here"
    elif enough and chance.high < SURE:
        verdict = f"{told} does harm here"
    return f"{verdict}: a run of a2c-asym-hs beats one of a2c with probability {_short(chance)}."


def _middle(values: Float[np.ndarray, "run"]) -> float:
    return bootstrap(_column(values), repetitions=1).estimate


def _beats(values: Float[np.ndarray, "run"], others: Float[np.ndarray, "other"]) -> bool:
    return could_tell(len(values), len(others)) and improvement_interval(_column(values), _column(others)).low > SURE


def could_tell(runs: int, others: int) -> bool:
    """Whether so many runs can show a difference at all.

    Chance alone puts every run of one method above every run of the other in one of `comb(runs + others, runs)` orders,
    and the bootstrap, which knows only these runs, would be sure of it.
    """
    return 1 / math.comb(runs + others, runs) <= 0.025


def _short(interval: Interval) -> str:
    return f"{interval.estimate:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]])


def table(rows: list[Row]) -> str:
    """The rows as text."""
    cells = [("method", "runs", "return at the end", "return over training", f"beats {STANDARD}")]
    for row in rows:
        better = "" if row.improvement is None else _short(row.improvement)
        cells.append((row.method, str(row.runs), _short(row.final), _short(row.during), better))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(line.rstrip() for line in lines)
