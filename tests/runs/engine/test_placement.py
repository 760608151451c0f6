"""How many lanes a pool has."""

from __future__ import annotations

import math

import pytest

from asymrl.runs import placement
from tests.runs.engine.queued_runs import SHAPES


@pytest.mark.parametrize(
    ("platform", "places", "waiting", "of_all", "lanes"),
    [
        ("cpu", 2, 100, 100, 1),
        ("gpu", 1, 5, 5, 5),
        ("gpu", 1, 10_000, 10_000, placement.MOST_LANES),
        ("gpu", 4, 20, 100, 20),
        ("gpu", 10, 100, 100, placement.FEW_LANES),
        ("gpu", 1, 400, 400, math.ceil(400 * placement.LANES_SHARE)),  # some wait for the lanes of those that end
    ],
)
def test_how_many_lanes_a_pool_has(platform: str, places: int, waiting: int, of_all: int, lanes: int):
    assert placement.lanes_for(platform, None, places)(SHAPES[0], waiting, of_all) == lanes
    assert placement.lanes_for(platform, 3, places)(SHAPES[0], waiting, of_all) == 3
