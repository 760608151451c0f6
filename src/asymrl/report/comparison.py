"""Which critic to use, from the learning curves of several methods in one world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from asymrl.report.intervals import (
    Interval,
    bootstrap,
    can_separate,
    detectable_difference,
    improvement_interval,
)
from asymrl.report.summary import MORE_STEPS
from asymrl.runs.files import RunError
from asymrl.runs.statistics import final_returns, run_columns
from asymrl.runs.wording import listed, plural, short
from asymrl.settings.methods import method as method_named
from asymrl.worlds.critic_inputs import critic_symbol

# For each learner, the method that needs no latent state, and the unbiased one that reads it besides the history.
PAIRS = (("a2c", "a2c-asym-hs"), ("ppo", "ppo-asym-hs"), ("dqn", "adqn-vr"))
SURE = 0.5  # an improvement counts if the whole interval of its probability lies above this


def safety_rank(name: str) -> tuple[int, int]:
    """The rank of a method among methods that the runs do not separate: lower is better.

    V(h) comes first, as it needs no state, then V(h, s), which is unbiased, then short memories, the longest first, and
    last V(s), which may be biased.
    """
    reads, window = method_named(name).reads, method_named(name).window
    return ("h", "hs", "window", "s").index("window" if window else reads), -(window or 0)


class MethodScores(NamedTuple):
    """The scores of the runs of a method."""

    final: Float[np.ndarray, "run"]
    """The final return: the mean over the last tenth of training."""
    during: Float[np.ndarray, "run"]
    """The mean return over all of training: the faster a run learns, the higher."""


class MethodRow(NamedTuple):
    """A method among others. Intervals hold with 95 % confidence."""

    method: str
    runs: int
    final: Interval
    during: Interval
    improvement: Interval | None
    """The probability that a run beats one of the standard method by its final return; None for that method."""


def scores_of(metrics: pl.DataFrame) -> dict[str, MethodScores]:
    """The scores of each method, from learning curves in one world with a column `steps`; see `final_returns`.

    Runs in which no episode has ended are left out.

    Raises:
        RunError: if no run is left.
    """
    value = pl.col("return").cast(pl.Float64)
    over_training = value.filter(value.is_finite()).mean().alias("during")
    means = metrics.group_by(run_columns(metrics)).agg(over_training)
    runs = final_returns(metrics).join(means, on=run_columns(metrics), nulls_equal=True, maintain_order="left")
    runs = runs.drop_nulls("final")
    if runs.is_empty():
        raise RunError(f"no method can be compared: no episode was over in any run; {MORE_STEPS}")
    return {
        str(method): MethodScores(rows["final"].to_numpy(), rows["during"].to_numpy())
        for (method,), rows in runs.group_by("method", maintain_order=True)
    }


def standard_among(methods: Iterable[str]) -> str | None:
    """The method that the others are compared with: the first one in `PAIRS` that needs no latent state."""
    names = set(methods)
    return next((standard for standard, _ in PAIRS if standard in names), None)


def rows_of(scores: Mapping[str, MethodScores]) -> list[MethodRow]:
    """A row for each method, with interquartile means."""
    standard = standard_among(scores)
    rows = []
    for method, (final, during) in scores.items():
        better = None
        if standard is not None and method != standard:
            better = improvement_interval(_column(final), _column(scores[standard].final))
        rows.append(MethodRow(method, len(final), bootstrap(_column(final)), bootstrap(_column(during)), better))
    return rows


def _column(values: Float[np.ndarray, "run"]) -> Float[np.ndarray, "run 1"]:
    return values[:, None]


class Choice(NamedTuple):
    """The method to use, in one sentence, and the reason in another."""

    method: str
    verdict: str
    reason: str


def choose(scores: Mapping[str, MethodScores], sees: str = "state") -> Choice:
    """The method with the best final return; among equals the one that learns fastest, or else the safest.

    `sees`: what privileged critics read, in the words of the settings.
    """
    best = max(scores, key=lambda method: _middle(scores[method].final))
    rest = [method for method in scores if method != best]
    if not rest:
        return Choice(best, f"Use {best}, the only method here.", f"It {needs(best, sees)}.")
    rivals = [method for method in rest if not _beats(scores[best].final, scores[method].final)]
    if not rivals:
        second = max(rest, key=lambda method: _middle(scores[method].final))
        chance = improvement_interval(_column(scores[best].final), _column(scores[second].final))
        reason = f"Its final return beats that of {second}, the next best, with probability {chance.text(2)}."
        return Choice(best, f"Use {best}; it {needs(best, sees)}.", reason)
    equals = [best, *rivals]
    names = listed(sorted(equals, key=safety_rank))
    fastest = max(equals, key=lambda method: _middle(scores[method].during))
    if all(_beats(scores[fastest].during, scores[method].during) for method in equals if method != fastest):
        gained = bootstrap(_column(scores[fastest].during))
        return Choice(
            fastest,
            f"Use {fastest}, which learns fastest; it {needs(fastest, sees)}.",
            f"The final returns do not separate {names}; its mean return over training is {gained.text(2)}.",
        )
    safest = min(equals, key=safety_rank)
    runs = min(len(each.final) for each in scores.values())
    more = "more --seeds or more --steps" if can_separate(runs, runs) else "at least 4 --seeds, as fewer prove nothing"
    return Choice(
        safest,
        f"No method is shown to be best; use {safest}, which {needs(safest, sees)}.",
        f"The runs do not separate {names}; decide with {more}.",
    )


def needs(name: str, sees: str = "state") -> str:
    """What a method needs, and what to know about it, as the end of a sentence: "needs no state"."""
    how, sees = method_named(name), sees.replace("+", " and the ")
    if how.window:
        return f"needs no {sees}, but remembers {plural('observation', how.window)} only"
    if how.reads == "h":
        return f"needs no {sees}"
    unbiased = how.reads == "hs"
    return f"needs the {sees} while it trains, " + ("not afterwards" if unbiased else "and may be biased")


def on_privilege(scores: Mapping[str, MethodScores], sees: str = "state") -> str | None:
    """Whether critics that read the history and `sees` do better than V(h); None if no learner has both."""
    there = [pair for pair in PAIRS if set(pair) <= set(scores)]
    return " ".join(_effect(scores, *pair, sees) for pair in there) or None


def _effect(scores: Mapping[str, MethodScores], standard: str, privileged: str, sees: str) -> str:
    with_state, without = scores[privileged].final, scores[standard].final
    chance = improvement_interval(_column(with_state), _column(without))
    enough = can_separate(len(with_state), len(without))
    effect = "has no effect that these runs could show"
    if enough:
        needed = detectable_difference(_column(with_state), _column(without))
        effect += f" (of the final return, they would show a difference of {short(needed)} with 80 % power)"
    if enough and chance.low > SURE:
        effect = "helps here"
    elif enough and chance.high < SURE:
        effect = "does harm here"
    value = "Q" if standard == "dqn" else "V"
    symbol = critic_symbol(sees, True).replace("V", value)
    return (
        f"Showing the critic the {sees}, {symbol} instead of {value}(h), {effect}: "
        f"a run of {privileged} beats one of {standard} with probability {chance.text(2)}."
    )


def _middle(values: Float[np.ndarray, "run"]) -> float:
    return bootstrap(_column(values), repetitions=1).estimate


def _beats(values: Float[np.ndarray, "run"], others: Float[np.ndarray, "other"]) -> bool:
    return can_separate(len(values), len(others)) and improvement_interval(_column(values), _column(others)).low > SURE


def table(rows: list[MethodRow]) -> str:
    """The rows as text."""
    standard = standard_among(row.method for row in rows)
    against = () if standard is None else (f"beats {standard}",)
    cells = [("method", "runs", "final return", "return over training", *against)]
    for row in rows:
        better = "" if row.improvement is None else row.improvement.text(2)
        cells.append((row.method, str(row.runs), row.final.text(2), row.during.text(2), *([better] if against else [])))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(line.rstrip() for line in lines)
