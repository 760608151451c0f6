"""Invalid input is refused with a message that names it."""

from typing import Any

import pytest

from asymrl import theory


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 0}, "tiger: horizon is 0"),
        ({"horizon": 2.5}, "tiger: horizon is 2.5, expected a whole number"),
        ({"discount": 1.1}, "tiger: discount is 1.1"),
        ({"mass": 2}, "tiger: mass is 2"),
        ({"mass": float("nan")}, "tiger: mass is nan"),
        ({"merge": "all"}, "merge='all': choose"),
        ({"truncation": "cut"}, "truncation='cut': choose"),
    ],
)
def test_options(options: Any, message: str) -> None:
    given: Any = {"horizon": 3} | options
    with pytest.raises(ValueError, match=message):
        theory.analyse("tiger", **given)


@pytest.mark.parametrize(
    ("h", "message"),
    [
        ((0, 1), r"\(0, 1\) is not a history; give a tuple of pairs"),
        ([(0, 1)], "is not a history"),
        (((9, 0),), r"pair 0 of the history is \(9, 0\)"),
        (((0, 0), (0, 2)), r"pair 1 of the history is \(0, 2\)"),
        (((0, 0),) * 3, "the history has 3 actions, the horizon is 3"),
    ],
)
def test_histories(h: Any, message: str) -> None:
    analysis = theory.analyse("tiger", horizon=3)
    with pytest.raises(ValueError, match=message):
        analysis.V(h)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0.5, 0.5, float("nan")], r"gives \[0.5, 0.5, nan\] after listen→obs-left"),
        ([0.5, 0.5], "gives 2 probabilities after listen→obs-left"),
        ([1.5, -0.5, 0.0], r"gives \[1.5, -0.5, 0.0\] after listen→obs-left"),
    ],
)
def test_policies(given: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        theory.analyse("tiger", lambda h: given if h else [1.0, 0.0, 0.0], horizon=3)
