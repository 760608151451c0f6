"""Final returns as rows of a table: the same numbers in the paper's tables and in those of studies."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import polars as pl
from jaxtyping import Float

from asymrl.report.intervals import (
    bootstrap,
    detectable_difference,
    detectable_improvement,
    improvement_interval,
    interquartile_mean,
    normalised,
)
from asymrl.runs.statistics import mean_and_error
from asymrl.runs.wording import plural


def score_row(scores: Float[np.ndarray, "run 1"], world: str) -> dict[str, float | int | None]:
    """Final returns of runs that differ in the seed only: mean, standard error and interquartile means with bounds.

    `normalised` is None if no reference returns of the world are known.
    """
    mean, error = mean_and_error(scores)
    middle, scaled = bootstrap(scores, interquartile_mean), None
    with contextlib.suppress(ValueError):
        scaled = bootstrap(normalised(scores, world), interquartile_mean)
    return {
        "runs": len(scores),
        "mean": float(mean[0]),
        "standard_error": float(error[0]),
        "iqm": middle.estimate,
        "iqm_low": middle.low,
        "iqm_high": middle.high,
        "normalised": scaled and scaled.estimate,
        "normalised_low": scaled and scaled.low,
        "normalised_high": scaled and scaled.high,
    }


def improvement_row(
    scores: Float[np.ndarray, "run 1"] | None, others: Float[np.ndarray, "other 1"]
) -> dict[str, float | None]:
    """The probability that a run of one beats one of the others; `detectable` is the difference of the means that
    these runs show with 80 % power. None where there is nothing to compare.
    """
    better = None if scores is None else improvement_interval(scores, others)
    return {
        "improvement": better and better.estimate,
        "improvement_low": better and better.low,
        "improvement_high": better and better.high,
        "detectable": None if scores is None else detectable_difference(scores, others),
    }


def power_statement(numbers: pl.DataFrame) -> str | None:
    """What runs can show, in a sentence, from columns `runs` and `improvement`; None if they compare nothing."""
    compared = numbers.filter(pl.col("improvement").is_not_null())
    if compared.is_empty():
        return None
    runs = int(min(numbers["runs"]))
    smallest = detectable_improvement(runs)
    if math.isnan(smallest):
        return f"{plural('run', runs)} of each method cannot show a difference; train at least 4"
    all_better = "only 1: every run of one better than every run of the other"
    shown = all_better if smallest == 1 else f"{smallest:.2f} and more"
    return (
        f"detectable: the difference of the means that these runs show with 80 % power at the 5 % level, given their "
        f"spread; of probabilities of improvement, {runs} runs against {runs} show {shown}"
    )
