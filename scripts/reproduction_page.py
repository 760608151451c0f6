"""Writes the tables of docs/reproduction.md, and the rules in docs/explanation/statistics.md, from the shipped runs.

Each table replaces the first one under its heading; the text around them stays as it is.
"""

from __future__ import annotations

import re
from pathlib import Path

from asymrl.report.paper.claims import judged
from asymrl.report.paper.evidence import Evidence, read_evidence
from asymrl.report.paper.markdown_tables import claims_markdown, ranking_markdown, rules_markdown, world_markdown
from asymrl.report.paper.selection import leaders, ranking
from asymrl.report.paper.world_tables import world_tables

ROOT = Path(__file__).parents[1]
PAGE, RULES = ROOT / "docs" / "reproduction.md", ROOT / "docs" / "explanation" / "statistics.md"


def page(evidence: Evidence) -> str:
    """The page about the reproduction with its tables as these runs have them."""
    text = with_table(PAGE.read_text(), "The claims", claims_markdown(judged(evidence)))
    for world, table in world_tables(evidence).items():
        text = with_table(text, world, world_markdown(table))
    if evidence.grid is not None:
        text = with_table(text, "The search for settings", ranking_markdown(leaders(ranking(evidence.grid))))
    return text


def rules_page() -> str:
    """The page about statistics with the rules as they are."""
    return with_table(RULES.read_text(), "How claims are judged", rules_markdown())


def with_table(text: str, heading: str, table: str) -> str:
    """A page in which the first table under a heading is this one. Raises ValueError if there is none."""
    found = re.search(rf"(?<=\n)##+ {re.escape(heading)}\n(?:[^|#\n].*\n|\n)*((?:\|.*\n)+)", text)
    if found is None:
        raise ValueError(f"no table under the heading {heading!r}")
    return text[: found.start(1)] + table + "\n" + text[found.end(1) :]


def main() -> None:
    PAGE.write_text(page(read_evidence(ROOT / "results" / "curves")))
    RULES.write_text(rules_page())


if __name__ == "__main__":
    main()
