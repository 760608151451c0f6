"""The page of presets shows the recorded runs, and these have the settings of the presets."""

from __future__ import annotations

import pytest
from scripts.preset_tasks import TASKS
from scripts.presets_page import OTHER, PAGE, cell, preset_of, records, with_tables

from asymrl.settings.presets import PRESETS


def test_the_tables_of_the_page_are_made_of_the_record():
    page = PAGE.read_text()
    assert with_tables(page, records()) == page
    assert "| `ppo-small` |" in page


def test_a_run_of_a_preset_has_its_settings():
    ours = [run for run in records() if run["arm"] != OTHER]
    assert {run["arm"] for run in ours} & set(PRESETS)
    for run in ours:
        assert preset_of(run) == (run["arm"] if run["arm"] in PRESETS else None), run
        assert run["task"] in TASKS


def test_a_cell_has_a_mean_and_its_interval():
    assert cell([]) == ""
    assert cell([{"return": 0.5}]) == "0.50 (1 run)"
    assert cell([{"return": 1.0}, {"return": 0.0}]) == "0.00 and 1.00"
    # Three values with the standard error 1, and Student's factor with two degrees of freedom, 4.303.
    assert cell([{"return": 3.0**0.5 * k} for k in (-1, 0, 1)]) == "0.00 [-4.30, 4.30] (3)"


@pytest.mark.parametrize("name", TASKS)
def test_a_task_belongs_to_a_preset(name: str):
    assert TASKS[name].preset in PRESETS
    assert TASKS[name].random < TASKS[name].best
