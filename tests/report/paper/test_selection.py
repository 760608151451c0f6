"""The rule of the grid search, on learning curves made for it."""

from __future__ import annotations

import numpy as np
import pytest

from asymrl.report.paper.selection import Candidate, candidate, select

POINTS = np.linspace(0, 1, 100)


def curves(final: float, *, rise: float = 0.3, collapse: float = 0.0, spread: float = 0.0) -> np.ndarray:
    """Four runs that rise to the final return, one by one a little better, with a collapse in between."""
    level = final * np.minimum(POINTS / rise, 1.0) - collapse * ((POINTS > 0.5) & (POINTS < 0.6))
    return level[None] + spread * np.linspace(-1, 1, 4)[:, None]


def summary(setting: float, returns: np.ndarray) -> Candidate:
    last = max(1, returns.shape[1] // 10)
    return candidate((setting,), returns, returns[:, -last:].mean(axis=1))


def winner(**settings: np.ndarray) -> str:
    names = list(settings)
    chosen = select([summary(i, settings[name]) for i, name in enumerate(names)])
    return names[int(chosen.setting[0])]


def test_the_best_final_return_wins():
    assert winner(good=curves(1.0, collapse=0.5, rise=0.9), fast=curves(0.8, rise=0.1)) == "good"


def test_of_equals_the_steady_one_wins_before_the_fast_one():
    assert winner(fast=curves(1.0, rise=0.1, collapse=0.5), steady=curves(1.0, rise=0.8)) == "steady"


def test_of_equally_steady_ones_the_fast_one_wins():
    assert winner(slow=curves(1.0, rise=0.8), fast=curves(1.0, rise=0.2)) == "fast"


def test_equal_means_within_a_standard_error_of_the_best():
    # The standard error of the best is 0.2 * 0.745 / 2 = 0.075 (four runs from 0.8 to 1.2).
    best = curves(1.0, spread=0.2, collapse=0.5)
    assert winner(best=best, steady=curves(0.95)) == "steady"
    assert winner(best=best, steady=curves(0.90)) == "best"


def test_numbers_of_a_candidate():
    found = summary(1.0, np.asarray([[0.0, 4.0, 1.0, 2.0], [0.0, 2.0, 2.0, 4.0]]))
    assert (found.final, found.fall) == (3.0, 1.5)
    assert found.final_error == pytest.approx(1.0)
    assert found.speed == pytest.approx(15 / 8)


def test_a_fall_is_one_of_means_over_a_tenth():
    """A single bad point of a hundred is chance; ten of them in a row are a collapse."""
    returns = np.ones((2, 100))
    returns[:, 50] = 0.0
    assert summary(1.0, returns).fall == pytest.approx(0.1)
    returns[:, 45:55] = 0.0
    assert summary(1.0, returns).fall == pytest.approx(1.0)


def test_nothing_can_not_win():
    with pytest.raises(ValueError, match="no candidates"):
        select([])
