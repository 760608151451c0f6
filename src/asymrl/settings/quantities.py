"""Numbers as people type them: `whole_number("2M")` is 2000000, `count_text(500000)` is "500k"."""

from __future__ import annotations

import re
from decimal import Decimal

UNITS = {"": 0, "k": 3, "M": 6, "B": 9}  # powers of ten: thousand, million, billion
NUMBER = re.compile(r"([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?)([kmb]?)", re.IGNORECASE | re.ASCII)
LARGEST = 2**63 - 1  # arrays hold no larger ones


def whole_number(text: str) -> int:
    """The whole number that a text such as `500`, `1e6`, `500k`, `2.5M`, `1B` or `2_000_000` stands for.

    Raises:
        ValueError: if it stands for none.
    """
    value = _decimal(text)
    if value is None or value != value.to_integral_value():
        raise ValueError(f"{text!r} is not a whole number; write 500, 1e6, 500k or 2M")
    if abs(value) > LARGEST:
        raise ValueError(f"{text!r} is too large; at most {LARGEST} can be counted")
    return int(value)


def real_number(text: str) -> float:
    """The number that a text such as `0.001`, `1e-3`, `2M`, `inf` or `nan` stands for.

    Raises:
        ValueError: if it stands for none.
    """
    value = _decimal(text)
    if value is not None:
        return float(value)
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number; write 0.001, 1e-3 or 2M") from None


def count_text(count: int) -> str:
    """A count as one types it: 2M, 500k, 128."""
    for unit, power in reversed(UNITS.items()):
        if count >= 10**4 and count % 10**power == 0 and count >= 10**power:
            return f"{count // 10**power}{unit}"
    return str(count)


def _decimal(text: str) -> Decimal | None:
    match = NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    digits, unit = match.groups()
    power = next(power for name, power in UNITS.items() if name.lower() == unit.lower())
    return Decimal(digits.replace("_", "")).scaleb(power)
