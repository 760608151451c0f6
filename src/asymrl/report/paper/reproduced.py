"""A part of the paper, made from our own runs: its table and its figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import polars as pl

from asymrl.report.findings import Findings
from asymrl.report.paper import figures
from asymrl.report.paper.claims import judged
from asymrl.report.paper.evidence import read_evidence
from asymrl.report.paper.markdown_tables import claims_table
from asymrl.report.paper.parts import Extent, Part, extent
from asymrl.report.paper.results import (
    aggregate_rows,
    chosen,
    comparison,
    final_values,
    read_results,
    scores_together,
    up_to,
    with_paper_settings,
)
from asymrl.report.paper.selection import leaders, ranking, searched
from asymrl.report.paper.world_tables import world_tables
from asymrl.report.score_rows import power_statement
from asymrl.runs.wording import thousands
from asymrl.settings.hyperparameters import PAPER_WORLDS, Steps, steps_of

ROOMS_COLUMNS = ". length, earned: steps of an episode, and what runs earn at the exits, in the last tenth of training"


def reproduction(
    part: Part, folder: str | os.PathLike[str], wanted: Extent | None = None, *, until: int | None = None
) -> Findings:
    """The table and the figures of a part of the paper, from a store.

    Args:
        part: "curves" (figure 3), "critics" (figure 4) or "grid" (the search for settings).
        folder: of the store.
        wanted: which of its runs. None: those of the paper.
        until: for curves, look at the runs as they were after this many steps.

    Raises:
        RunError: if there are no such runs in the store.
        ValueError: if `until` is given for another part.
    """
    if until is not None and part != "curves":
        raise ValueError(f"--until: for curves only, not for {part}")
    source, wanted = Path(folder), wanted or extent(part)
    if part == "critics":
        return _critics(chosen(read_results(source, "probes"), *wanted))
    metrics = chosen(read_results(source), *wanted)
    return _grid(metrics) if part == "grid" else _curves(metrics, until)


def claims_reproduction(
    folder: str | os.PathLike[str],
    worlds: Sequence[str] | None = None,
    seeds: int | None = None,
    steps: Steps | Literal["authors"] | None = None,
) -> Findings:
    """The paper's claims and our findings: a verdict for each claim, and a table of each world.

    Args:
        folder: of the store with the runs of figures 3 and 4; a grid search beside it counts, too.
        worlds: only these. None: all.
        seeds: how many, counted from the first. None: all.
        steps: look at the runs as they were after this many, for all or by world, or after those of the authors.

    Raises:
        RunError: if there are no such runs in the store.
    """
    lengths = None if steps is None else steps_of(steps)
    evidence = read_evidence(Path(folder), worlds or PAPER_WORLDS, seeds, lengths)
    claims = [each for each in judged(evidence) if worlds is None or each.claim.where in worlds]
    numbers = claims_table(claims)
    tables = pl.concat(world_tables(evidence).values(), how="diagonal")
    shown = numbers.filter(pl.col("verdict") != "no runs")
    judged_in, missing = set(shown["where"]), dict[str, None]()
    for where, claim in numbers.filter(pl.col("verdict") == "no runs").select("where", "claim").rows():
        missing[f"{where} ({claim})" if where in judged_in else where] = None
    notes = [f"not judged, as runs are missing: {', '.join(missing)}"] if missing else []
    reading = (
        "open: the runs end too early to tell; the rules are in docs/explanation/statistics.md. "
        "first: million steps until a run had solved the world, in the median [earliest, latest]"
        f"{ROOMS_COLUMNS if 'earned' in tables.columns else ''}"
    )
    further = {"worlds": tables}
    return Findings("claims", numbers, shown, {}, notes, reading, further, shown=("worlds",), folded=("worlds",))


def _curves(metrics: pl.DataFrame, until: int | None) -> Findings:
    metrics, notes = with_paper_settings(metrics), []
    if until is not None:
        metrics, short = up_to(metrics, until)
        for (world, method), steps in short.items():
            notes.append(f"left out: {world} {method}, trained for {thousands(steps)} steps only")
    numbers = comparison(metrics)
    drawn, tables = {"curves": figures.learning_curves(metrics)}, {}
    if (scores := scores_together(metrics)) is not None:
        drawn["aggregates"], tables["aggregates"] = figures.aggregates(scores), aggregate_rows(scores)
    return Findings("curves", numbers, numbers, drawn, notes, power_statement(numbers), tables, tuple(tables))


def _critics(probes: pl.DataFrame) -> Findings:
    probes = with_paper_settings(probes)
    numbers = final_values(probes)
    return Findings("critics", numbers, numbers, {"critics": figures.critic_values(probes)}, [])


def _grid(metrics: pl.DataFrame) -> Findings:
    metrics, missing = searched(metrics)
    numbers = ranking(metrics)
    return Findings("grid", numbers, leaders(numbers), {"grid": figures.grid_overview(numbers)}, missing)
