"""Numbers as text for people. Everything that is printed or written for a reader gets its numbers from here.

`thousands(120000)` is "120 000", `duration(3723)` is "1:02:03", `plus_minus([1, 2, 6])` is "3.00 ± 1.53",
`plural("batch", 2)` is "2 batches", `listed(["a", "b", "c"])` is "a, b and c", `short(0.01234)` is "0.0123".
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from asymrl.runs.statistics import mean_and_error

NO_BREAK = "\N{NO-BREAK SPACE}"
GROUPED = re.compile(r"(?<=\d) (?=\d{3}(?!\d))")


def thousands(number: float) -> str:
    """A number rounded to a whole one, in groups of three digits."""
    return f"{round(number):,}".replace(",", " ")


def unbroken(text: str) -> str:
    """Text whose numbers in groups of three digits, such as 4 096, are never broken across lines."""
    return GROUPED.sub(NO_BREAK, text)


def wrapped(text: str, width: int, **options: Any) -> list[str]:
    """Lines of a text, as from `textwrap.wrap`, that break no number."""
    return [line.replace(NO_BREAK, " ") for line in textwrap.wrap(unbroken(text), width, **options)]


def duration(seconds: float) -> str:
    """Minutes and seconds, `2:05`, or with hours `1:02:05`; rounded down."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def plus_minus(values: np.ndarray | Sequence[float], digits: int = 2) -> str:
    """The mean of values over runs, with its standard error if there are several."""
    mean, error = mean_and_error(np.asarray(values))
    return estimate(float(mean), float(error), digits)


def estimate(mean: float, error: float, digits: int = 2) -> str:
    """A mean and its standard error, which is left out if it is NaN. A mean that is rounded to zero has no sign."""
    shown = f"{round(mean, digits) + 0.0:.{digits}f}"
    return shown if np.isnan(error) else f"{shown} ± {error:.{digits}f}"


def plural(noun: str, count: int) -> str:
    """A count and its noun, `1 run` or `2 runs`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return f"{thousands(count)} {noun}es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{thousands(count)} {noun[:-1]}ies"
    return f"{thousands(count)} {noun}s"


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names in a sentence: `a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def first_line(text: str) -> str:
    """The line that says what happened, without the traceback under it."""
    return text.partition("\n")[0]


def short(value: float) -> str:
    """About three digits, with an exponent only where zeros would hide them; `?` for NaN."""
    if np.isnan(value):
        return "?"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.1e}"
    digits = 0 if abs(value) >= 100 else 2 if abs(value) >= 0.1 or value == 0 else 4
    return f"{value:.{digits}f}"


def size_text(size: int) -> str:
    """Bytes for people to read: 512 kB, 9.1 MB, 3.65 GB."""
    for unit, count in (("kB", 1e3), ("MB", 1e6)):
        if size / count < 999.5:
            return f"{size / count:.3g} {unit}"
    return f"{size / 1e9:.3g} GB"
