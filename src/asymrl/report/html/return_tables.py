"""The results of the runs of a store as tables: final returns with intervals, probabilities of improvement."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from asymrl.report.comparison import standard_among
from asymrl.report.html.page import Section
from asymrl.report.html.run_groups import RunGroup
from asymrl.report.intervals import Interval, improvement_interval
from asymrl.report.markup import details_html, escape, rows_html, table_html
from asymrl.report.score_rows import improvement_row, power_statement, score_row
from asymrl.report.summary import comparable
from asymrl.runs.wording import listed, plural

MOST_PAIRED = 8  # groups of a world that are compared in pairs
MOST_ROWS = 60  # of a table; the rest is folded away

EXPLANATION = (
    "The final return of a run is its mean return over the last tenth of training, with the actions of training: drawn "
    "from the policy, in the DQN family with exploration. mean: with its standard error. "
    "IQM: interquartile mean, with its 95 % bootstrap interval. Best first."
)
REACHED = (
    "reached: how far the IQM is from the best policy that ignores what it sees, 0, to the best known one, 1. Where "
    "the former is not known, or is the best, 0 is a random policy."
)
NORMALISED = ("normalised", "normalised_low", "normalised_high")


def returns_section(groups: Mapping[str, Sequence[RunGroup]]) -> Section:
    """Final returns of every world, best first, and the probabilities that a run of one beats one of another."""
    tables = {world: returns_table(each) for world, each in groups.items()}
    notes = [EXPLANATION]
    if any("reached" in table.columns for table in tables.values()):
        notes.append(REACHED)
    compared = [table for table in tables.values() if "improvement" in table.columns and len(table)]
    if compared:
        standards = {each.method for of_world in groups.values() if (each := _standard(of_world)) is not None}
        which = listed(sorted(standards), "or")
        notes.append(f"improvement: the probability that a run does better than one of {which}, with its interval.")
        power = power_statement(pl.concat([table.select("runs", "improvement") for table in compared]))
        notes += [f"{power}."] if power else []
    parts = [f'<p class="note">{escape(note)}</p>' for note in notes]
    of_worlds = (
        f"<div>\n<h3>{escape(world)}</h3>\n{_shown(table)}{_pairs(groups[world])}\n</div>"
        for world, table in tables.items()
    )
    parts += ['<div class="tables returns">', *of_worlds, "</div>"]
    return Section("Final returns", "returns", "\n".join(parts))


def search_section(groups: Mapping[str, Sequence[RunGroup]]) -> Section:
    """The final returns of runs that were a search for settings, folded away."""
    count = sum(len(group.runs) for each in groups.values() for group in each)
    which = "Curves, final returns, settings and episodes on this page are those of the other runs."
    html = f'<p class="note">{plural("run", count)} that only served to choose settings. {which}</p>\n'
    html += "\n".join(details_html(world, table_html(returns_table(each))) for world, each in groups.items())
    return Section("Search for settings", "search", html)


def returns_table(groups: Sequence[RunGroup]) -> pl.DataFrame:
    """A row for each group of a world, best first: the columns of `score_row` and `improvement_row`, and `reached`.

    Columns without any value are left out; runs that failed are counted in `failed` and left out elsewhere.
    """
    standard = _standard(groups)
    rows: list[dict[str, Any]] = []
    for group in groups:
        scores = final_scores(group)
        row: dict[str, Any] = {"method": group.label, "failed": int((group.runs["status"] == "failed").sum())}
        if not len(scores):
            rows.append({**row, "runs": 0})
            continue
        row |= {name: value for name, value in score_row(scores, group.world).items() if name not in NORMALISED}
        row |= _reached(row, group)
        if standard is not None:
            row |= improvement_row(None if group is standard else scores, final_scores(standard))
        rows.append(row)
    table = pl.DataFrame(rows, infer_schema_length=None).rename({"standard_error": "mean_error"}, strict=False)
    table = table.with_columns(pl.col(pl.Float64, pl.Float32).fill_nan(None))
    if "iqm" in table.columns:
        table = table.sort("iqm", descending=True, nulls_last=True, maintain_order=True)
    empty = [name for name in table.columns if table[name].null_count() == len(table)]
    return table.drop(empty if table["failed"].sum() else [*empty, "failed"])


def _reached(row: Mapping[str, Any], group: RunGroup) -> dict[str, float | None]:
    """The IQM of a row and its bounds on the scale of `ReferenceScores.reached`; None where that does not apply."""
    from asymrl.theory.solvers.references import known_returns  # its solvers take a while to load

    reference = known_returns(group.world) if comparable(group.runs) else None
    ends = ("", "_low", "_high")
    return {f"reached{end}": reference and reference.reached(float(row[f"iqm{end}"])) for end in ends}


def final_scores(group: RunGroup) -> Float[np.ndarray, "run 1"]:
    """The final returns of the runs that did not fail."""
    return group.sound["final_return"].to_numpy()[:, None]


def _standard(groups: Sequence[RunGroup]) -> RunGroup | None:
    """The group that the others are compared with, if exactly one has the method that needs no latent state."""
    if len(groups) < 2:
        return None
    name = standard_among(group.method for group in groups)
    of_it = [group for group in groups if group.method == name]
    return of_it[0] if len(of_it) == 1 and len(of_it[0].sound) else None


def _shown(table: pl.DataFrame) -> str:
    first, rest = table.head(MOST_ROWS), table.slice(MOST_ROWS)
    more = details_html(f"{len(rest)} more", table_html(rest)) if len(rest) else ""
    return table_html(first) + more


def _pairs(groups: Sequence[RunGroup]) -> str:
    """The probability that a run of the row beats one of the column, folded away."""
    there = [group for group in groups if len(group.sound)]
    if not 2 < len(there) <= MOST_PAIRED:
        return ""
    labels, scores = [group.label for group in there], [final_scores(group) for group in there]
    better = {}
    for i, j in itertools.combinations(range(len(there)), 2):
        better[i, j] = chance = improvement_interval(scores[i], scores[j])
        better[j, i] = Interval(1 - chance.estimate, 1 - chance.high, 1 - chance.low)  # a tie counts half for both
    rows = [
        [(label, False), *(("" if i == j else better[i, j].text(2), True) for j in range(len(there)))]
        for i, label in enumerate(labels)
    ]
    table = rows_html([("", False), *((label, True) for label in labels)], rows)
    return details_html("Every pair: the probability that a run of the row beats one of the column", table)
