"""The numbers on the page of the study of learners, from the runs that ship."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from asymrl.stores.description import is_store
from asymrl.stores.earlier_results import reuse
from asymrl.stores.store import Store
from asymrl.stores.wording import estimate
from asymrl.studies.answers import answer
from asymrl.studies.other_learners import STUDY

ROOT = Path(__file__).parents[2]
ROW = re.compile(
    r"^\| (?P<world>[\w-]+) \| (?P<arm>(?:ppo|dqn) [^|]+) \| (?P<mean>[^|]+) \| (?P<solved>[\d.]+) \|$", re.M
)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the study, or what other folders have of its runs."""
    if is_store(folder := ROOT / "results" / "studies" / "learners"):
        return folder
    others = [Store.open(ROOT / "results" / name) for name in ("ppo", "dqn")]
    path = tmp_path_factory.mktemp("learners")
    store = Store.create(path, [run for other in others for run in other.runs], keeps_networks=False)
    for other in others:
        reuse(store, other)
    store.release()
    return path


def test_the_page_has_the_numbers_of_the_shipped_runs(shipped: Path):
    rows = list(ROW.finditer((ROOT / "docs" / "studies" / "learners.md").read_text()))
    assert len(rows) >= 12
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    made = answer(replace(STUDY, search=None).narrowed(worlds), shipped).numbers
    numbers = {(row["setup"], row["arm"]): row for row in made.to_dicts()}
    for row in rows:
        known = numbers[row["world"], row["arm"]]
        assert known["runs"] == 20
        assert row["mean"] == estimate(known["mean"], known["standard_error"])
        assert float(row["solved"]) == pytest.approx(known["solved"], abs=0.005)
