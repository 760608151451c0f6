"""The numbers of a study: what the runs of each arm reached, and how arms compare."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import polars as pl
from jaxtyping import Float

from asymrl.report.intervals import improvement_interval, normalised
from asymrl.report.score_rows import improvement_row, score_row
from asymrl.runs.statistics import run_columns
from asymrl.studies.study import Arm, Choices, Setup, Study

SEPARATOR = ": "  # between a policy and a number, in the columns of an exact analysis


def arm_table(study: Study, curves: pl.DataFrame, finals: pl.DataFrame, choices: Choices) -> pl.DataFrame:
    """A row for each setup and arm.

    `mean` with its `standard_error` and `iqm` (interquartile mean, with bounds) are of final returns; `solved` is the
    share of runs whose final score is above the setup's threshold, `solved_once` the share that was above it at any
    point, and `steps_to_solve` the median of the timesteps at which they first were, if at least half of them ever
    were. What the search chose stands in front, what the study measures besides and its exact analysis behind.

    Args:
        study: whose setups and arms these are.
        curves: as `placed_curves` gives them.
        finals: as `final_scores` gives them.
        choices: of the search.
    """
    rows = []
    for setup in study.setups:
        for arm in study.arms_in(setup):
            scores = scores_of_arm(finals, setup, arm)
            if not len(scores):
                continue
            labels = {"setup": setup.name, "arm": arm.label, **(study.choice(setup, arm, choices) or {})}
            steps = study.settings(setup, arm, {}).steps
            solved = _solved(curves, scores, setup, arm)
            rows.append({**labels, "steps": steps, **score_row(scores, setup.world), **solved})
    table = pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)
    if study.measure is not None:
        table = _joined(table, study.measure(curves))
    return _joined(table, exact_table(study))


def scores_of_arm(finals: pl.DataFrame, setup: Setup, arm: Arm | str) -> Float[np.ndarray, "run 1"]:
    """The final returns of an arm."""
    label = arm if isinstance(arm, str) else arm.label
    return finals.filter(pl.col("setup") == setup.name, pl.col("arm") == label)["final"].to_numpy()[:, None]


def _solved(
    curves: pl.DataFrame, scores: Float[np.ndarray, "run 1"], setup: Setup, arm: Arm
) -> Mapping[str, float | int | None]:
    """How many runs solved the world, and after how many steps; None if nobody knows what solving it means."""
    try:
        share = float((normalised(scores, setup.world) > setup.threshold).mean())
        steps = steps_to_solve(curves, setup, arm)
    except ValueError:
        return {"solved": None, "solved_once": None, "steps_to_solve": None}
    ever, median = float(np.isfinite(steps).mean()), float(np.median(steps))
    return {"solved": share, "solved_once": ever, "steps_to_solve": round(median) if np.isfinite(median) else None}


def steps_to_solve(curves: pl.DataFrame, setup: Setup, arm: Arm) -> Float[np.ndarray, "run"]:
    """The timestep at which each run of an arm first solved the world; infinite if it never did.

    Args:
        curves: as `placed_curves` gives them.
        setup: with the world, and the score above which it is solved.
        arm: whose runs count, by its own metric.

    Raises:
        ValueError: if no reference returns of the world are known.
    """
    own = curves.filter(pl.col("setup") == setup.name, pl.col("arm") == arm.label)
    score = normalised(own[arm.metric].cast(pl.Float64).fill_null(np.nan).to_numpy(), setup.world)
    first = pl.col("timestep").filter(pl.col("score") > setup.threshold).min().cast(pl.Float64).fill_null(np.inf)
    runs = own.with_columns(score=pl.Series(score)).group_by(run_columns(own), maintain_order=True).agg(first)
    return runs["timestep"].to_numpy()


def comparison_table(study: Study, curves: pl.DataFrame, finals: pl.DataFrame) -> pl.DataFrame:
    """The study's comparisons, with bounds: how probable it is that a run of `arm` does better than one of `than`.

    `improvement` is by final returns, `sooner` by the steps until a run first solved the world. Args as for
    `arm_table`.
    """
    rows = []
    for setup in study.setups:
        arms = {arm.label: arm for arm in study.arms_in(setup)}
        for arm, than in study.comparisons:
            mine, theirs = scores_of_arm(finals, setup, arm), scores_of_arm(finals, setup, than)
            if len(mine) and len(theirs):
                runs = min(len(mine), len(theirs))
                labels = {"setup": setup.name, "arm": arm, "than": than, "runs": runs}
                sooner = _sooner(curves, setup, arms[arm], arms[than])
                rows.append({**labels, **improvement_row(mine, theirs), **sooner})
    return pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)


def _sooner(curves: pl.DataFrame, setup: Setup, arm: Arm, than: Arm) -> dict[str, float | None]:
    """The probability that a run of an arm solves the world before one of another; None where `_solved` says None."""
    try:
        mine, theirs = (-steps_to_solve(curves, setup, each)[:, None] for each in (arm, than))
    except ValueError:
        return {"sooner": None, "sooner_low": None, "sooner_high": None}
    chance = improvement_interval(mine, theirs)
    return {"sooner": chance.estimate, "sooner_low": chance.low, "sooner_high": chance.high}


def exact_table(study: Study) -> pl.DataFrame:
    """The exact analysis of all setups, with the columns `setup` and `arm` in front; empty if there is none."""
    tables = [(setup, _exact(study.exact, setup.world)) for setup in study.setups if study.exact is not None]
    parts = [table.select(pl.lit(setup.name).alias("setup"), pl.exclude("setup")) for setup, table in tables]
    return pl.concat(parts, how="diagonal_relaxed") if parts else pl.DataFrame()


def exact_parts(study: Study, setup: Setup) -> dict[str, pl.DataFrame]:
    """The exact analysis of a setup by policy: columns called `POLICY: NUMBER` have a table for each policy.

    Columns without a number are left out, and a setup without rows has no table.
    """
    if study.exact is None:
        return {}
    table = _exact(study.exact, setup.world)
    if table.is_empty():
        return {}
    table = table.select(column for column in table if column.null_count() < len(column))
    labels = [name for name in table.columns if SEPARATOR not in name]
    policies = dict.fromkeys(name.partition(SEPARATOR)[0] for name in table.columns if SEPARATOR in name)
    if not policies:
        return {"": table}
    own = {policy: [name for name in table.columns if name.startswith(policy + SEPARATOR)] for policy in policies}
    return {
        policy: table.select(*labels, pl.col(names).name.map(lambda name: name.partition(SEPARATOR)[2]))
        for policy, names in own.items()
    }


@functools.cache
def _exact(analysis: Callable[[str], pl.DataFrame], world: str) -> pl.DataFrame:
    return analysis(world)


def _joined(table: pl.DataFrame, more: pl.DataFrame) -> pl.DataFrame:
    """The table with the columns of another one; where both have one, that is called `NAME_exact`."""
    if more.is_empty() or table.is_empty():
        return table
    return table.join(more, on=["setup", "arm"], how="left", suffix="_exact", maintain_order="left")
