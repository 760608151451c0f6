"""Small pieces of HTML: escaped text, tables, lists of facts, pictures."""

from __future__ import annotations

import base64
import html
import io
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asymrl.runs.wording import thousands, unbroken
from asymrl.settings import SETTINGS

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

BOUNDS = ("_low", "_high")
HEADINGS = {"iqm": "IQM"}
LARGE = 10_000  # whole numbers from here on are written in groups of three digits


def escape(text: object) -> str:
    """Untrusted text as HTML, inside elements and attributes."""
    return html.escape(unbroken(str(text)), quote=True)


def table_html(table: pl.DataFrame, digits: int = 3, caption: str = "") -> str:
    """A table with its numbers aligned.

    Columns `NAME_low` and `NAME_high` become the interval after `NAME`, and `NAME_error` the error after it.
    """
    behind = {f"{name}{end}" for name in table.columns for end in (*BOUNDS, "_error")}
    names = [name for name in table.columns if name not in behind]
    numbers = [name for name in names if table[name].dtype.is_numeric()]
    head = [(HEADINGS.get(name, name.replace("_", " ")), name in numbers) for name in names]
    rows = [[(_cell(row, name, digits), name in numbers) for name in names] for row in table.to_dicts()]
    return rows_html(head, rows, caption)


def rows_html(head: Sequence[tuple[str, bool]], rows: Iterable[Sequence[tuple[str, bool]]], caption: str = "") -> str:
    """A table of plain texts, each with whether it is a number."""

    def line(cells: Sequence[tuple[str, bool]], tag: str) -> str:
        return "".join(f"<{tag}{' class=n' if is_number else ''}>{escape(text)}</{tag}>" for text, is_number in cells)

    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "".join(f"<tr>{line(cells, 'td')}</tr>\n" for cells in rows)
    return (
        f'<div class="table"><table>{above}<thead><tr>{line(head, "th")}</tr></thead>\n<tbody>\n{body}</tbody></table>'
        "</div>"
    )


def _cell(row: Mapping[str, Any], name: str, digits: int) -> str:
    value, error = row[name], row.get(f"{name}_error")
    low, high = (row.get(f"{name}{end}") for end in BOUNDS)
    if value is None:
        return ""
    text = number_text(value, digits) if name not in SETTINGS else setting_text(value)
    if error is not None:
        return f"{text} ± {number_text(error, digits)}"
    if low is None or high is None or row.get("runs") == 1:  # one run has no interval
        return text
    return f"{text} [{number_text(low, digits)}, {number_text(high, digits)}]"


def number_text(value: object, digits: int = 3) -> str:
    """A number for people to read; other values unchanged."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return thousands(value) if abs(value) >= LARGE else str(value)
    return f"{value:z.{digits}f}"


def setting_text(value: object) -> str:
    """The value of a setting as a user would write it."""
    if value is None or value == "":
        return "–"
    if isinstance(value, float):
        return thousands(int(value)) if abs(value) >= LARGE and value.is_integer() else f"{value:g}"
    return ":".join(map(str, value)) if isinstance(value, list | tuple) else number_text(value)


def facts_html(facts: Mapping[str, object]) -> str:
    """Names and their values, one under the other; values that are lists or have parts are nested."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{_fact(value)}</dd>\n" for name, value in facts.items())
    return f"<dl>\n{items}</dl>"


def _fact(value: object) -> str:
    if isinstance(value, Mapping):
        return facts_html({str(name): part for name, part in value.items()})
    if isinstance(value, list | tuple):
        return "<ul>" + "".join(f"<li>{_fact(part)}</li>" for part in value) + "</ul>"
    return escape(setting_text(value))


def details_html(summary: str, inside: str) -> str:
    """A part of a page that is folded away."""
    return f"<details><summary>{escape(summary)}</summary>\n{inside}\n</details>"


def text_html(lines: Sequence[str], width: int = 100) -> str:
    """Text that was written for a terminal of this width: paragraphs, and tables of columns two spaces apart."""
    blocks = "\n".join(lines).strip("\n").split("\n\n")
    return "\n".join(_block(block.strip("\n").split("\n"), width) for block in blocks)


def _block(lines: Sequence[str], width: int) -> str:
    cells = [re.split(r"\s{2,}", line.strip()) for line in lines]
    if len(lines) > 1 and len(cells[0]) > 2 and all(len(row) == len(cells[0]) for row in cells):
        is_number = [all(re.match(r"[-+\d]|inf$", row[i]) for row in cells[1:]) for i in range(len(cells[0]))]
        head, *rows = (list(zip(row, is_number, strict=True)) for row in cells)
        return rows_html(head, rows)
    text = escape(lines[0])
    for line, following in itertools.pairwise(lines):
        wrapped = len(line) <= width < len(line) + 1 + len(following.split(" ")[0])  # the next word did not fit
        text += (" " if wrapped else "<br>\n") + escape(following)
    return f'<p class="told">{text}</p>'


def picture_html(figure: Figure, name: str, dpi: int = 110) -> str:
    """A figure as a picture inside the page."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img alt="{escape(name)}" src="data:image/png;base64,{data}">'
