"""The tables of the page about the reproduction, as Markdown."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import polars as pl

from asymrl.report.intervals import Interval
from asymrl.report.paper import claim_rules as rules
from asymrl.report.paper.claims import CLAIMS, JudgedClaim
from asymrl.report.paper.evidence import is_rooms
from asymrl.report.paper.world_tables import MARKS, MILLION

SECTIONS = {"five worlds": "the-worlds", "grid": "the-search-for-settings"}  # all others are their own names


def claims_table(found: Sequence[JudgedClaim]) -> pl.DataFrame:
    """The claims with their verdicts, one row each, for people and for CSV."""
    return pl.DataFrame(
        [
            {
                "where": claim.where,
                "claim": claim.text,
                "verdict": finding.verdict,
                "measured": finding.measure,
                "number": finding.number and finding.number.estimate,
                "number_low": finding.number and finding.number.low,
                "number_high": finding.number and finding.number.high,
                "steps": finding.steps,
                "rule": claim.rule,
            }
            for claim, finding in found
        ],
        infer_schema_length=None,
    )


def claims_markdown(found: Sequence[JudgedClaim]) -> str:
    """The table of claims, each linked to its section of the page."""
    lines = []
    for claim, finding in found:
        anchor = SECTIONS.get(claim.where, claim.where.replace(" ", "-"))
        number = "" if finding.number is None else text_of(finding.number)
        steps = "" if finding.steps is None else f"{finding.steps / MILLION:g}"
        lines.append((f"[{claim.where}](#{anchor})", claim.text, finding.verdict, finding.measure, number, steps))
    heading = ("where", "claim of the paper", "verdict", "measured", "95 % interval", "M steps")
    return _table(heading, "---|---|---|---|---:|---:", lines)


def rules_markdown() -> str:
    """The rules in words, one line each."""
    used = dict.fromkeys(claim.rule for claim in CLAIMS)
    lines = [(name.replace("_", " "), _sentence(getattr(rules, name))) for name in used]
    return _table(("rule", "the claim"), "---|---", lines)


def _sentence(rule: object) -> str:
    text = " ".join((inspect.getdoc(rule) or "").split("\n\n")[0].split())
    return text[0].lower() + text[1:].rstrip(".")


def world_markdown(table: pl.DataFrame) -> str:
    """The table of a world that `world_table` makes."""
    world, marks = table["world"][0], MARKS[table["world"][0]]
    runs, steps = table["runs"].to_numpy().min(), table["steps"].to_numpy() / MILLION
    is_even = len(set(steps)) == 1
    is_solved = bool((table["solved"] > 0).any())
    heading = [f"{runs} runs" + (f", {steps[0]:g} M steps" if is_even else ""), "final return", "V(h, s) better"]
    heading += [f"solved (> {marks.solved:g})", *(["first, M steps", f"lost (< {marks.lost:g})"] if is_solved else [])]
    heading += ["earned at exits", "steps"] if is_rooms(world) else []
    lines = []
    for row in table.to_dicts():
        name = row["method"] if is_even else f"{row['method']}, {row['steps'] / MILLION:g} M steps"
        cells = [name, _cell(row, "final"), _cell(row, "improvement", 2), str(row["solved"])]
        if is_solved:
            cells += [_cell(row, "first", 2), str(row["lost"]) if row["solved"] else ""]
        if is_rooms(world):
            cells += [_cell(row, "earned"), f"{row['length']:.1f}"]
        lines.append(cells)
    return _table(tuple(heading), "|".join(["---", *["---:"] * (len(heading) - 1)]), lines)


def ranking_markdown(leaders: pl.DataFrame) -> str:
    """The first settings of a grid search, as `leaders` returns them."""
    heading = (
        "rank",
        "actor's rate",
        "critic's rate",
        "entropy weight",
        "final return",
        "over training",
        "largest fall",
        "chosen by",
    )
    lines = [
        (
            str(row["rank"]),
            *(f"{row[name]:g}" for name in ("actor_rate", "critic_rate", "entropy_weight")),
            f"{row['final']:.3f} ± {row['final_error']:.3f}",
            f"{row['speed']:.3f}",
            f"{row['fall']:.2f} ± {row['fall_error']:.2f}",
            row["chosen_by"] or "",
        )
        for row in leaders.to_dicts()
    ]
    return _table(heading, "---:|---:|---:|---:|---:|---:|---:|---", lines)


def text_of(interval: Interval) -> str:
    """An interval with as many decimals as its width needs."""
    width = interval.high - interval.low
    return interval.text(interval.digits(3 if width < 0.1 else 2 if width < 10 else 1))


def _cell(row: dict[str, float | None], name: str, digits: int | None = None) -> str:
    estimate, low, high = (row[key] for key in (name, f"{name}_low", f"{name}_high"))
    if estimate is None or low is None or high is None:
        return ""
    interval = Interval(estimate, low, high)
    return text_of(interval) if digits is None else interval.text(digits)


def _table(heading: Sequence[str], under: str, lines: Sequence[Sequence[str]]) -> str:
    rows = [f"| {' | '.join(heading)} |", f"|{under}|", *(f"| {' | '.join(line)} |" for line in lines)]
    return "\n".join(row.replace("|  |", "| |").replace("|  |", "| |") for row in rows)
