"""The rules by which claims of the paper are judged. The first paragraph of each docstring is the rule in words.

A method *learns* if it gains more than a quarter of what the best known policy gains over random actions, and *fails*
if it gains less, each with the whole 95 % interval of its mean. Methods are *as good* up to 5 % of that distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float
from scipy import stats

from asymrl.report.intervals import (
    Interval,
    bootstrap,
    difference_interval,
    improvement_interval,
    mean,
    pooled_interval,
)
from asymrl.report.paper.evidence import Evidence, scale
from asymrl.report.paper.selection import SEARCHED, ranking
from asymrl.runs.files import RunError
from asymrl.runs.statistics import final_points, final_returns
from asymrl.settings.hyperparameters import PAPER_WORLDS

LEARNED = 0.25  # of the way from random actions to the best known policy
MARGIN = 0.05  # of the same distance: smaller differences do not count
EQUAL = 1e-4  # values of a critic that differ by rounding only

Verdict = Literal["holds", "in part", "does not hold", "open", "no runs"]
READS = {
    "a2c": "V(h)",
    "a2c-asym-s": "V(s)",
    "a2c-asym-hs": "V(h, s)",
    "a2c-react-2": "window 2",
    "a2c-react-4": "window 4",
}
WORSE_FIRST: tuple[Verdict, ...] = ("does not hold", "open", "in part", "holds")


class Judgement(NamedTuple):
    """What runs say about a claim."""

    verdict: Verdict
    measure: str
    """What the number is."""
    number: Interval | None
    """With its 95 % interval."""
    steps: int | None
    """After which the claim is judged. None if that differs between worlds, or there are no runs."""


def _learns(gain: Interval) -> bool:
    return gain.low > LEARNED


def _fails(gain: Interval) -> bool:
    return gain.high < LEARNED


def only(evidence: Evidence, world: str, method: str, others: Sequence[str]) -> Judgement:
    """Holds if the method learns and all others fail; in part if others do not fail, but are worse."""
    steps = evidence.steps(world, method, *others)
    gain, gains = evidence.gain(world, method, steps), [evidence.gain(world, other, steps) for other in others]
    differences = [evidence.difference(world, method, other, steps) for other in others]
    if not any(map(_learns, [gain, *gains])):
        verdict: Verdict = "open"
    elif _learns(gain):
        is_ahead = all(each.low > 0 for each in differences)
        verdict = "holds" if all(map(_fails, gains)) else "in part" if is_ahead else "does not hold"
    else:
        verdict = "does not hold"
    return Judgement(verdict, f"{READS[method]} − the next best", min(differences), steps)


def as_good(evidence: Evidence, world: str, method: str, other: str) -> Judgement:
    """Holds if the final return is not lower by more than the margin, with the whole interval; does not hold if it is,
    likewise; in part if the interval contains the margin; open if neither of the two learns.
    """
    steps, margin = evidence.steps(world, method, other), MARGIN * scale(world)
    number = evidence.difference(world, method, other, steps)
    verdict: Verdict = "holds" if number.low > -margin else "does not hold" if number.high < -margin else "in part"
    if not any(_learns(evidence.gain(world, each, steps)) for each in (method, other)):
        verdict = "open"
    return Judgement(verdict, f"{READS[method]} − {READS[other]}", number, steps)


def worse(evidence: Evidence, world: str, method: str, other: str) -> Judgement:
    """Holds if the method learns but its final return is lower by more than the margin; in part if it is lower by less;
    open if the method has not learned.
    """
    steps, margin = evidence.steps(world, method, other), MARGIN * scale(world)
    number = evidence.difference(world, method, other, steps)
    verdict: Verdict = "holds" if number.high < -margin else "in part" if number.high < 0 else "does not hold"
    if not _learns(evidence.gain(world, method, steps)):
        verdict = "open"
    return Judgement(verdict, f"{READS[method]} − {READS[other]}", number, steps)


def ahead(evidence: Evidence, world: str, method: str, others: Sequence[str]) -> Judgement:
    """Holds if the method is better than both others, in the final return or in the mean over all of training; in part
    if it is better than one of them.
    """
    steps = evidence.steps(world, method, *others)
    leads = [evidence.lead(world, method, other, steps) for other in others]
    ends = [evidence.difference(world, method, other, steps) for other in others]
    better = [lead.low > 0 or end.low > 0 for lead, end in zip(leads, ends, strict=True)]
    verdict: Verdict = "holds" if all(better) else "in part" if any(better) else "does not hold"
    closest = min(range(len(others)), key=lambda i: leads[i].estimate)
    measure = f"{READS[method]} − {READS[others[closest]]}, mean over training"
    return Judgement(verdict, measure, leads[closest], steps)


def catches_up(evidence: Evidence, world: str, method: str, other: str) -> Judgement:
    """Holds if the final return is as good and the mean over all of training is lower; in part if one of the two."""
    end, steps = as_good(evidence, world, method, other), evidence.steps(world, method, other)
    parts = [end.verdict == "holds", evidence.lead(world, method, other, steps).high < 0]
    verdict: Verdict = "holds" if all(parts) else "in part" if any(parts) else "does not hold"
    return end._replace(verdict=verdict)


def fails(evidence: Evidence, world: str, methods: Sequence[str], others: Sequence[str]) -> Judgement:
    """Holds if the methods fail and another method learns, judged after the number of steps that both have; open if no
    other learns.
    """
    shared = {other: evidence.steps(world, other, *methods) for other in others}
    steps = max(shared.values())
    gains = [evidence.gain(world, method, steps) for method in methods]
    highest = max(range(len(methods)), key=lambda i: gains[i].high)
    verdict: Verdict = "holds" if all(map(_fails, gains)) else "in part"
    if any(map(_learns, gains)):
        verdict = "does not hold"
    elif not any(_learns(evidence.gain(world, other, steps)) for other in others if shared[other] == steps):
        verdict = "open"
    return Judgement(verdict, f"{READS[methods[highest]]}, share of the possible gain", gains[highest], steps)


def collapses(evidence: Evidence, world: str, method: str) -> Judgement:
    """Holds if the mean over runs ends below its best tenth of training by more than the margin, with the whole
    interval; in part if it ends below it by less; open if it does not fall.
    """
    number, margin = evidence.fall(world, method), MARGIN * scale(world)
    verdict: Verdict = "holds" if number.high < -margin else "in part" if number.high < 0 else "open"
    return Judgement(verdict, f"{READS[method]}, end − best tenth", number, evidence.steps(world, method))


def better_everywhere(evidence: Evidence, worlds: Sequence[str], method: str, others: Sequence[str]) -> Judgement:
    """Holds if the method has the higher final return in all of these worlds, against each of the others; in part if
    in some.
    """
    steps = {world: evidence.steps(world, method, *others) for world in worlds}
    better = [
        all(evidence.difference(world, method, other, steps[world]).low > 0 for other in others) for world in worlds
    ]
    verdict: Verdict = "holds" if all(better) else "in part" if any(better) else "does not hold"
    columns = [[evidence.finals(world, each, steps[world])[:, 0] for world in worlds] for each in (method, *others)]
    count = min(len(column) for each in columns for column in each)
    mine, *theirs = (np.stack([column[:count] for column in each], axis=1) for each in columns)
    number = improvement_interval(mine, np.concatenate(theirs))
    measure = f"P({READS[method]} beats a window); shown in {sum(better)} of {len(worlds)}"
    lengths = set(steps.values())
    return Judgement(verdict, measure, number, lengths.pop() if len(lengths) == 1 else None)


def _values(evidence: Evidence, method: str) -> tuple[Float[np.ndarray, "run pair"], int]:
    """The critics' values in the last tenth of training, and the number of steps."""
    if evidence.probes is None:
        raise RunError("the critics' values were not measured")
    rows = evidence.probes.filter(pl.col("method") == method).with_columns(pl.col("probe").cast(pl.String))
    if rows.is_empty():
        raise RunError(f"the values of {method} were not measured")
    table = final_points(rows).group_by("seed", "probe").agg(pl.col("value").cast(pl.Float64).mean())
    wide = table.pivot("probe", index="seed", values="value").sort("seed")
    return wide.select("left", "right", "left-priest", "right-priest").to_numpy(), int(rows["steps"].to_numpy().min())


def values_follow(evidence: Evidence) -> Judgement:
    """Holds if the rank correlation of the critic's values and the final return over all runs is positive, with the
    whole interval.
    """
    parts, steps = [], 0
    for method in ("a2c", "a2c-asym-s", "a2c-asym-hs"):
        values, steps = _values(evidence, method)
        parts.append(np.stack([values.mean(axis=1), evidence.finals("heaven-hell-4", method)[:, 0]], axis=1))
    number = pooled_interval(parts, _rank_correlation)
    verdict: Verdict = "holds" if number.low > 0 else "in part" if number.estimate > 0 else "does not hold"
    return Judgement(verdict, "rank correlation, value and return", number, steps)


def _rank_correlation(pairs: Float[np.ndarray, "*more run 2"]) -> Float[np.ndarray, "*more"]:
    ranks = stats.rankdata(pairs, axis=-2)
    values, returns = np.moveaxis(ranks - ranks.mean(axis=-2, keepdims=True), -1, 0)
    return (values * returns).sum(-1) / np.sqrt((values**2).sum(-1) * (returns**2).sum(-1))


def _equal(evidence: Evidence, method: str, pairs: Sequence[tuple[int, int]]) -> Judgement:
    values, steps = _values(evidence, method)
    gaps = np.concatenate([values[:, i] - values[:, j] for i, j in pairs])
    verdict: Verdict = "holds" if np.abs(gaps).max() < EQUAL else "does not hold"
    return Judgement(verdict, f"{READS[method]}, difference", bootstrap(gaps[:, None], mean), steps)


def history_values_equal(evidence: Evidence) -> Judgement:
    """Holds if no run's V(h) differs by more than rounding between heaven on the left and on the right."""
    return _equal(evidence, "a2c", [(0, 1)])


def state_values_equal(evidence: Evidence) -> Judgement:
    """Holds if no run's V(s) differs by more than rounding with and without the priest."""
    return _equal(evidence, "a2c-asym-s", [(0, 2), (1, 3)])


def priest_raises(evidence: Evidence) -> Judgement:
    """Holds if V(h, s) is higher with the priest than without, with the whole interval."""
    values, steps = _values(evidence, "a2c-asym-hs")
    number = bootstrap((values[:, 2:].mean(axis=1) - values[:, :2].mean(axis=1))[:, None], mean)
    verdict: Verdict = "holds" if number.low > 0 else "in part" if number.estimate > 0 else "does not hold"
    return Judgement(verdict, "V(h, s), with − without", number, steps)


def tuned_wins(evidence: Evidence) -> Judgement:
    """Holds if the paper's settings have the highest final return of the grid, in every world and method searched; in
    part if the runs do not separate them from the best.
    """
    if evidence.grid is None:
        raise RunError("no grid search")
    findings = []
    for (world, method), part in evidence.grid.group_by("world", "method", maintain_order=True):
        if world not in PAPER_WORLDS or part.select(SEARCHED).n_unique() < 2:
            continue
        ranks = ranking(part)
        paper = ranks.filter(pl.col("chosen_by").is_in(["the paper", "both"])).to_dicts()
        if not paper:
            raise RunError(f"{world} {method}: the grid lacks the paper's settings")
        others = ranks.filter(pl.col("chosen_by").is_null() | ~pl.col("chosen_by").is_in(["the paper", "both"]))
        best = others.sort("rank").to_dicts()[0]
        number = difference_interval(_with(part, paper[0]), _with(part, best))
        verdict: Verdict = "holds" if paper[0]["rank"] == 1 else "in part" if number.high >= 0 else "does not hold"
        measure = f"tuned − best other; rank {paper[0]['rank']} of {len(ranks)}"
        findings.append(Judgement(verdict, measure, number, int(part["steps"].to_numpy().min())))
    if not findings:
        raise RunError("no grid search")
    return min(findings, key=lambda each: WORSE_FIRST.index(each.verdict))


def _with(rows: pl.DataFrame, setting: dict[str, float]) -> Float[np.ndarray, "run 1"]:
    """Final returns with the settings of a row of a ranking."""
    same = rows.filter(pl.all_horizontal((pl.col(name) - setting[name]).abs() < 1e-9 for name in SEARCHED))
    return final_returns(same)["final"].to_numpy()[:, None]
