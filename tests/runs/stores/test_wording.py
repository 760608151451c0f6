"""Numbers as text: exact strings."""

from __future__ import annotations

import numpy as np
import pytest

from asymrl.runs.wording import duration, estimate, listed, plural, plus_minus, short, thousands, unbroken, wrapped


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (1000, "1 000"), (1234567, "1 234 567"), (1999.7, "2 000")]
)
def test_thousands(number: float, text: str):
    assert thousands(number) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.9, "0:59"), (125, "2:05"), (3723, "1:02:03")])
def test_duration(seconds: float, text: str):
    assert duration(seconds) == text


def test_a_mean_has_an_error_only_if_there_are_several_values():
    assert plus_minus([1.0, 2.0, 6.0]) == "3.00 ± 1.53"
    assert plus_minus([1.0, np.nan], digits=1) == "1.0"
    assert estimate(0.5, 0.25, 3) == "0.500 ± 0.250"


@pytest.mark.parametrize(
    ("noun", "count", "text"),
    [("run", 1, "1 run"), ("run", 0, "0 runs"), ("batch", 2, "2 batches"), ("policy", 1200, "1 200 policies"),
     ("day", 2, "2 days")],
)  # fmt: skip
def test_plural(noun: str, count: int, text: str):
    assert plural(noun, count) == text


def test_listed():
    assert [listed(list("abc")[:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
    assert listed(["a", "b"], "or") == "a or b"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.00"), (0.01234, "0.0123"), (0.123, "0.12"), (12.345, "12.35"), (123.4, "123"), (1e-4, "1.0e-04"),
     (123456.0, "1.2e+05"), (float("nan"), "?")],
)  # fmt: skip
def test_short(value: float, text: str):
    assert short(value) == text


def test_a_number_is_not_broken_across_lines():
    assert unbroken("4 096 of 12 345 678 runs, 3 of 20 seeds").count("\N{NO-BREAK SPACE}") == 3
    assert wrapped("there are 10 000 of them", 14) == ["there are", "10 000 of them"]
