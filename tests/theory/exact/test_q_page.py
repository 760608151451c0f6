"""The page about Q-learning says what is computed."""

import re
from pathlib import Path
from typing import Any

import pytest

from asymrl import theory

PAGE = (Path(__file__).parents[3] / "docs" / "explanation" / "q-learning.md").read_text()
ROWS = re.findall(r"^\| ([a-z0-9-]+), (\d+) \| ([\d.]+) \| (.*) \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
SHOPPING = re.findall(r"^\| `(a?dqn[a-z-]*)` \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)


def words(point: theory.QFixedPoint) -> str:
    """A fixed point as the page describes it."""
    low, high = (f"{value:.4f}" for value in point.greedy_returns)
    returns = f"return {low}" if low == high else f"return {low} to {high}"
    if point.period == 0:
        return f"{returns}, does not settle"
    error = "0" if point.is_optimal else f"{point.max_error:.3g}"
    return f"error {error}, {returns}" + ("" if point.period == 1 else f", cycle of {point.period}")


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row[0], marks=pytest.mark.slow if "heaven" in row[0] else ()) for row in ROWS]
)
def test_fixed_points_of_the_worlds(row: tuple[str, ...]) -> None:
    world, horizon, optimal, *cells = row
    for method in theory.Q_METHODS:
        point = theory.q_fixed_point(world, method, horizon=int(horizon))
        assert f"{point.optimal_return:.4f}" == optimal
        assert words(point) == cells[{"adqn-state": 1, "adqn-state-vr": 2}.get(method, 0)], method


def test_losses_that_count_by_episode() -> None:
    assert {name for name, _, _ in SHOPPING} == {name for name in theory.Q_METHODS if "state" not in name}
    for method, same, by_episode in SHOPPING:
        for weighting, expected in (("steps", same), ("episodes", by_episode)):
            assert words(theory.q_fixed_point("shopping-2", method, weighting=weighting)) == expected


def test_the_code_of_the_page_runs() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(compile(block, "q-learning.md", "exec"), names)
    assert names["point"].period == 2
    assert names["own"].is_optimal  # all episodes of Tiger have the same length
