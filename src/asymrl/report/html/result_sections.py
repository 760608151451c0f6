"""Results of a command as sections of a page: the findings of a part of the paper or a study, or advice."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from asymrl.report.comparison import MethodRow
from asymrl.report.findings import Findings
from asymrl.report.html.page import Section
from asymrl.report.markup import escape, table_html


def findings_section(made: Findings, title: str = "Findings") -> Section:
    """Notes, tables and figures of a part of the paper or of a study."""
    return Section(title, "findings", made._repr_html_())


def advice_section(world: str, method: str, advice: str, rows: Sequence[MethodRow]) -> Section:
    """Which critic to use in a world, and the numbers that say so."""
    numbers = []
    for row in rows:
        cells: dict[str, object] = {"method": row.method, "runs": row.runs}
        for name, interval in (
            ("final_return", row.final),
            ("return_over_training", row.during),
            ("improvement", row.improvement),
        ):
            bounds = (None, None, None) if interval is None else interval
            cells |= dict(zip((name, f"{name}_low", f"{name}_high"), bounds, strict=True))
        numbers.append(cells)
    table = table_html(pl.DataFrame(numbers, infer_schema_length=None))
    html = f"<p><strong>{escape(method)}</strong> in {escape(world)}.</p>\n<p>{escape(advice)}</p>\n{table}"
    return Section("Which critic to use", "advice", html)
