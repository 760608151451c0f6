"""The numbers on the page of the study of learners, from the runs that ship."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from asymrl.stores.wording import estimate
from asymrl.studies.answers import answer
from asymrl.studies.other_learners import STUDY

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "studies" / "learners.md").read_text()
SHIPPED = ROOT / "results" / "studies" / "learners"
ROW = re.compile(
    r"^\| (?P<world>[\w-]+) \| (?P<arm>(?:ppo|dqn) [^|]+) \| (?P<mean>[^|]+) \| (?P<solved>[\d.]+) \|$", re.M
)


def test_the_page_has_the_numbers_of_the_shipped_runs():
    rows = list(ROW.finditer(PAGE))
    assert len(rows) >= 12
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    made = answer(STUDY.narrowed(worlds), SHIPPED).numbers
    numbers = {(row["setup"], row["arm"]): row for row in made.to_dicts()}
    for row in rows:
        known = numbers[row["world"], row["arm"]]
        assert known["runs"] == 20
        assert row["mean"] == estimate(known["mean"], known["standard_error"])
        assert float(row["solved"]) == pytest.approx(known["solved"], abs=0.005)


def test_the_page_has_the_search_in_car_flag():
    found = answer(STUDY.narrowed(["car-flag"]), SHIPPED).tables["learners-search"].to_dicts()
    by_settings = {(row["arm"], row["entropy_weight"], row["gae_lambda"]): row for row in found}
    rows = re.findall(r"^\| (V\([\w, ]+\)) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$", PAGE, re.M)
    assert len(rows) == 3
    for critic, *cells in rows:
        for cell, settings in zip(cells, [(0.01, 0.95), (0.01, 0.0), (0.1, 0.95), (0.1, 0.0)], strict=True):
            row = by_settings[f"ppo {critic}", *settings]
            assert float(cell.strip("*")) == pytest.approx(row["mean"], abs=0.00501)
            assert cell.startswith("**") == bool(row["chosen"])


def test_the_advice_on_critics_has_the_numbers_of_the_study():
    text = (ROOT / "docs" / "explanation" / "which-critic.md").read_text()
    means = {(row["world"], row["arm"]): row["mean"] for row in ROW.finditer(PAGE)}
    rows = re.findall(r"^\| ([\w-]+), lambda[^|]* \| ([^|]+ ± [^|]+) \| ([^|]+) \| ([^|]+) \|$", text, re.M)
    assert [world for world, *_ in rows] == ["heaven-hell-3", "heaven-hell-4", "car-flag", "shopping-5", "shopping-6"]
    for world, *cells in rows:
        assert cells == [means[world, f"ppo {critic}"] for critic in ("V(h)", "V(s)", "V(h, s)")]


def test_the_probabilities_on_the_page_are_those_of_the_shipped_runs():
    text, found = " ".join(PAGE.split()), answer(STUDY, SHIPPED).tables["learners-comparisons"].to_dicts()
    by_pair = {(row["setup"], row["arm"], row["than"]): row for row in found}

    def shown(world: str, one: str, other: str) -> str:
        row = by_pair[world, one, other]
        return f"{row['improvement']:.2f} [{row['improvement_low']:.2f}, {row['improvement_high']:.2f}]"

    for world in ("heaven-hell-3", "heaven-hell-4", "car-flag"):
        assert f"{shown(world, 'ppo V(h, s)', 'ppo V(s)')} in {world}" in text
    beats = shown("heaven-hell-4", "ppo V(h, s)", "ppo V(h)")
    assert f"in heaven-hell-4 a run of it beats one of V(h) with probability {beats}" in text


def test_q_of_the_state_solves_shopping_now_and_then():
    numbers = answer(STUDY.narrowed(["shopping-5"]), SHIPPED).numbers
    (once,) = numbers.filter(arm="dqn Q(s)")["solved_once"]
    assert f"{20 * once:.0f} of 20 runs solve the world at one evaluation" in " ".join(PAGE.split())
