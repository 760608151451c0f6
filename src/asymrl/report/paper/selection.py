"""How a grid search is decided: best final return, and stability before speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from asymrl.report.curves import curves
from asymrl.runs.files import RunError
from asymrl.runs.statistics import final_returns, mean_and_error, tenth_means
from asymrl.settings.hyperparameters import grid, tuned

SEARCHED = ("actor_rate", "critic_rate", "entropy_weight")


class Candidate(NamedTuple):
    """The results of the runs with one setting; `final` and `fall` have standard errors over runs."""

    setting: tuple[float, ...]
    final: float
    """Mean return over the last tenth of training."""
    final_error: float
    fall: float
    """The largest fall of a run's return below its own best so far, on average: 0 for a run that only improves.
    Returns are means over a tenth of training here, too: those of a hundred episodes fall by chance alone."""
    fall_error: float
    speed: float
    """Mean return over the whole of training: higher for runs that learn sooner."""


def candidate(
    setting: tuple[float, ...], returns: Float[np.ndarray, "run point"], finals: Float[np.ndarray, "run"]
) -> Candidate:
    """The summary of learning curves at common, equally spaced timesteps, and of the final return of each run."""
    smooth = tenth_means(returns)
    final, final_error = mean_and_error(finals)
    fall, fall_error = mean_and_error((np.maximum.accumulate(smooth, axis=1) - smooth).max(axis=1))
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
    return [
        candidate(tuple(float(x) for x in setting), curves(rows).values, final_returns(rows)["final"].to_numpy())
        for setting, rows in groups.items()
    ]


def searched(table: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The rows of worlds and methods that were run with several settings. Also which of the grids are incomplete.

    Raises:
        RunError: if there are none: then there is nothing to choose from.
    """
    count, parts, missing = pl.struct(SEARCHED).n_unique().alias("count"), [], []
    for world, method, settings in table.group_by("world", "method", maintain_order=True).agg(count).rows():
        whole = math.prod(map(len, grid(world).values()))
        if settings > 1:
            parts.append(table.filter(pl.col("world") == world, pl.col("method") == method))
        if settings < whole:
            missing.append(f"{world} {method}: {settings} of {whole} settings")
    if not parts:
        raise RunError("every world and method was run with one setting; `asymrl reproduce grid` trains 45")
    return pl.concat(parts), missing


def ranking(table: pl.DataFrame) -> pl.DataFrame:
    """Every setting in the results of a grid, best final return first, with our choice and the paper's marked.

    Rows are ordered by world, method and `rank`; `chosen_by` is "us", "the paper", "both" or empty.
    """
    rows = []
    for (world, method), part in table.partition_by(["world", "method"], as_dict=True, maintain_order=True).items():
        candidates = candidates_of(part)
        ours = select(candidates)
        theirs = tuple((tuned(world, method) or {}).values())
        for each in sorted(candidates, key=lambda each: (-each.final, each.setting)):
            rank = 1 + sum(other.final > each.final for other in candidates)
            by_paper = bool(theirs) and np.allclose(each.setting, theirs)
            choices = {(True, True): "both", (True, False): "us", (False, True): "the paper"}
            chooser = choices.get((each is ours, by_paper))
            numbers = {name: value for name, value in each._asdict().items() if name != "setting"}
            settings = dict(zip(SEARCHED, each.setting, strict=True))
            rows.append({"world": world, "method": method, "rank": rank, **settings, **numbers, "chosen_by": chooser})
    return pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"chosen_by": pl.String})


def leaders(ranks: pl.DataFrame, count: int = 5) -> pl.DataFrame:
    """The first settings of a ranking for each world and method, and the chosen ones at any rank."""
    return ranks.filter((pl.col("rank") <= count) | pl.col("chosen_by").is_not_null())
