"""How a grid search is decided: best final return, and stability before speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from asymrl.paper.results import LAST
from asymrl.paper.tuned import tuned
from asymrl.report.curves import curves
from asymrl.report.statistics import mean_and_standard_error

SEARCHED = ("actor_rate", "critic_rate", "entropy_weight")


class Candidate(NamedTuple):
    """What the runs of one of the settings did, each number with its standard error over runs."""

    setting: tuple[float, ...]
    final: float
    """Mean return over the last tenth of training."""
    final_error: float
    fall: float
    """How far the return of a run fell below its own best so far, at most: nothing for a run that only improves."""
    fall_error: float
    speed: float
    """Mean return over the whole of training: higher for those who learn sooner."""


def candidate(setting: tuple[float, ...], returns: Float[np.ndarray, "run point"]) -> Candidate:
    """The summary of learning curves at common, equally spaced timesteps."""
    last = max(1, round(LAST * returns.shape[1]))
    final, final_error = mean_and_standard_error(returns[:, -last:].mean(axis=1))
    falls = (np.maximum.accumulate(returns, axis=1) - returns).max(axis=1)
    fall, fall_error = mean_and_standard_error(falls)
    # A single run tells nothing about the spread; then only exact equals are as good.
    errors = np.nan_to_num([final_error, fall_error])
    return Candidate(setting, float(final), float(errors[0]), float(fall), float(errors[1]), float(returns.mean()))


def select(candidates: Sequence[Candidate]) -> Candidate:
    """The winner of a grid search: best final return, stability before speed.

    First those whose final return is within a standard error of the best one's; of these, those whose falls are
    within a standard error of the smallest; of these, the one that learns fastest.
    """
    if not candidates:
        raise ValueError("no candidates: a grid search needs at least one finished setting")
    best = max(candidates, key=lambda each: each.final)
    good = [each for each in candidates if each.final >= best.final - best.final_error]
    steadiest = min(good, key=lambda each: each.fall)
    steady = [each for each in good if each.fall <= steadiest.fall + steadiest.fall_error]
    return max(steady, key=lambda each: each.speed)


def candidates_of(table: pl.DataFrame) -> list[Candidate]:
    """The candidates in the results of one world and method."""
    groups = table.partition_by(list(SEARCHED), as_dict=True, maintain_order=True)
    return [candidate(tuple(float(x) for x in setting), curves(rows).values) for setting, rows in groups.items()]


def winners(table: pl.DataFrame) -> pl.DataFrame:
    """Our winner beside the paper's, for each world and method in the results of a grid."""
    rows = []
    for (world, method), part in table.partition_by(["world", "method"], as_dict=True, maintain_order=True).items():
        found = candidates_of(part)
        ours = select(found)
        theirs = tuple((tuned(world, method) or {}).values())
        paper = next((each for each in found if np.allclose(each.setting, theirs)), None) if theirs else None
        rows.append(
            {
                "world": world,
                "method": method,
                "settings": len(found),
                **dict(zip(SEARCHED, ours.setting, strict=True)),
                "final": ours.final,
                "final_error": ours.final_error,
                **{f"paper_{name}": value for name, value in zip(SEARCHED, theirs or (None,) * 3, strict=True)},
                "paper_final": paper and paper.final,
                "paper_final_error": paper and paper.final_error,
                "rank_of_paper": paper and 1 + sum(each.final > paper.final for each in found),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)
