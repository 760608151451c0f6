"""How often a solved task is lost again: the falls of learning curves.

A run has solved its task at the first point of its curve above `SOLVED`, and *falls* at the first point below `LOST`
after that. It can fall again when it has been above `SOLVED` again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float, Num

from asymrl.learners.state import RECENT
from asymrl.runs.statistics import run_columns

SOLVED, LOST = 0.9, 0.5  # mean returns of 100 episodes


class Falls(NamedTuple):
    """The falls of one run after it had solved its task. Steps are counted between points of its curve."""

    solved: float
    """Timestep of the first point above `SOLVED`; NaN: never."""
    at: tuple[float, ...]
    """Timesteps of its falls."""
    solved_steps: float
    """Steps during which it could fall: from a point above `SOLVED` to the next below `LOST`."""
    lost_steps: float
    """Steps that it spent below `LOST` after it had solved the task for the first time."""


def falls_of(
    timesteps: Num[np.ndarray, "point"],
    returns: Float[np.ndarray, "point"],
    *,
    solved: float = SOLVED,
    lost: float = LOST,
) -> Falls:
    """The falls of one learning curve, whose points are in order."""
    first, falls, solved_steps, lost_steps = float("nan"), [], 0.0, 0.0
    up, previous = False, 0.0
    for step, value in zip(timesteps.tolist(), returns.tolist(), strict=True):
        # A point is taken to hold since the point before it.
        solved_steps += (step - previous) * up
        if value > solved:
            first = step if np.isnan(first) else first
            up = True
        elif value < lost:
            lost_steps += 0.0 if np.isnan(first) else step - previous
            if up:
                falls.append(float(step))
            up = False
        previous = step
    return Falls(float(first), tuple(falls), solved_steps, lost_steps)


def falls_table(table: pl.DataFrame, *, solved: float = SOLVED, lost: float = LOST) -> pl.DataFrame:
    """The falls of each run, a row per run: the columns that identify it, then those of `Falls`.

    Args:
        table: learning curves, with the columns that say which run a row belongs to before `timestep`, then `episode`
            and `return`. Points of fewer than 100 episodes are left out: the return of the first two may well be 1.
        solved: a return above this is a solved task.
        lost: a return below this, after that, is a lost one.
    """
    columns = run_columns(table)
    rows = []
    for key, curve in table.sort("timestep").group_by(columns, maintain_order=True):
        whole = curve.filter(pl.col("episode") >= RECENT)
        falls = falls_of(whole["timestep"].to_numpy(), whole["return"].to_numpy(), solved=solved, lost=lost)
        values = {"solved": None if np.isnan(falls.solved) else falls.solved, "at": list(falls.at)}
        steps = {"falls": len(falls.at), "solved_steps": falls.solved_steps, "lost_steps": falls.lost_steps}
        rows.append(dict(zip(columns, key, strict=True)) | values | steps)
    kinds = {"solved": pl.Float64, "at": pl.List(pl.Float64), "falls": pl.Int64}
    return pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None).sort(columns)
