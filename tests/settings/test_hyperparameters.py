from __future__ import annotations

import pytest

from asymrl.report.paper import budget, grid, tuned
from asymrl.settings.hyperparameters import PAPER_WORLDS
from asymrl.settings.methods import PAPER_METHODS


@pytest.mark.parametrize("world", PAPER_WORLDS)
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_what_the_search_found_lies_on_the_grid(world: str, method: str):
    found = tuned(world, method)
    assert found is not None
    for name, value in found.items():
        assert value in grid(world)[name]


@pytest.mark.parametrize("world", PAPER_WORLDS)
def test_the_grid_has_forty_five_cells(world: str):
    cells = 1
    for values in grid(world).values():
        cells *= len(values)
    assert cells == 45


def test_budgets():
    assert [budget(world) // 1_000_000 for world in PAPER_WORLDS] == [10, 10, 2, 2, 10, 10, 10, 6]
    with pytest.raises(ValueError, match="'tiger' is not in the paper"):
        budget("tiger")


def test_what_was_not_searched_is_not_known():
    assert tuned("tiger", "a2c") is None
    assert tuned("heaven-hell-3", "a2c-react-3") is None
