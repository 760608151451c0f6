"""Numbers as people type them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from asymrl.runs.options import checked_values
from asymrl.settings.quantities import LARGEST, count_text, real_number, whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500", 500),
        ("-3", -3),
        ("1e6", 1_000_000),
        ("2M", 2_000_000),
        ("2m", 2_000_000),
        ("500k", 500_000),
        ("2.5K", 2500),
        (".5M", 500_000),
        ("1B", 10**9),
        ("2_000_000", 2_000_000),
        ("1e-1k", 100),
        (" 7 ", 7),
        ("9007199254740993", 9007199254740993),  # floats would lose the last digit
    ],
)
def test_whole_numbers(text: str, number: int):
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "2.5", "1e-3", "k", "2 M", "2MM", "1,000", "nan", "inf", "0x10", "1e3000", "_1"])
def test_texts_that_are_no_whole_number_are_refused(text: str):
    with pytest.raises(ValueError, match="is not a whole number; write 500, 1e6, 500k or 2M"):
        whole_number(text)


def test_numbers_that_no_array_can_hold_are_refused():
    assert whole_number(str(LARGEST)) == LARGEST
    with pytest.raises(ValueError, match="'1e19' is too large"):
        whole_number("1e19")


def test_real_numbers():
    assert [real_number(text) for text in ("0.001", "1e-3", "2M", "1.5k", "-inf", "1e400")] == [
        *(0.001, 0.001, 2e6, 1500.0, -math.inf, math.inf)
    ]
    assert math.isnan(real_number("nan"))
    with pytest.raises(ValueError, match="'high' is not a number"):
        real_number("high")


@given(st.integers(0, LARGEST))
def test_a_count_is_written_as_it_can_be_typed(count: int):
    assert whole_number(count_text(count)) == count


def test_short_forms():
    assert [*map(count_text, (128, 9999, 10_000, 2_000_000, 2_500_000, 10**9))] == [
        *("128", "9999", "10k", "2M", "2500k", "1B")
    ]


def test_settings_understand_them_from_any_source():
    given = {"steps": "2M", "entropy_steps": "500k", "window": "none", "stop_return": "1e-1"}
    assert checked_values(given, "a file") == {
        "steps": 2_000_000,
        "entropy_steps": 500_000.0,
        "window": None,
        "stop_return": 0.1,
    }
