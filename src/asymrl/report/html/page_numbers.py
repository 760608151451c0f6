"""Numbers as a page has them: short, and None where JSON has no number."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

DIGITS = 6


def rounded(value: Any, digits: int = DIGITS) -> float | None:
    """A number with so many significant digits, or with all before its point; None if it is not finite."""
    value = float(value)
    if not math.isfinite(value):
        return None
    value = round(value) if abs(value) >= 10**digits else float(f"{value:.{digits}g}")
    return int(value) if value == int(value) else value


def numbers(values: Iterable[Any], digits: int = DIGITS) -> list[float | None]:
    """Each of these numbers, rounded."""
    return [rounded(value, digits) for value in values]
