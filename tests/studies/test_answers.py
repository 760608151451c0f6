"""The tables and figures of a study, from stores whose curves are made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from asymrl import cli
from asymrl.runs.files import RunError
from asymrl.runs.store import Store, copy_results
from asymrl.studies.answers import answer
from asymrl.studies.arm_tables import exact_parts
from asymrl.studies.catalogue import STUDIES
from asymrl.studies.choosing import choose
from asymrl.studies.study import EVERY_PANEL, Arm, PlannedRun, Setup, Study
from tests.runs.engine.stores import store_with_curves
from tests.studies.tiny import TINY, fill


def returns(planned: PlannedRun) -> float:
    """The search prefers the smallest weight; seeds 0 and 1 of V(h) reach 0 and 1, those of V(h, s) 1 and 2."""
    if planned.run.seed >= 1000:
        return -planned.chosen["entropy_weight"]
    return planned.run.seed + (planned.arm.label == "V(h, s)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study")
    searched = fill(path, TINY.search_runs(), returns)
    fill(path, TINY.final_runs(choose(TINY, searched)), returns)
    return path


def test_the_numbers_of_an_arm(folder: Path):
    made = answer(TINY, folder)
    assert made.notes == []
    assert made.numbers.select("setup", "arm", "entropy_weight", "steps", "runs").rows() == [
        (world, arm, 0.01, 200, 2) for world in ("heaven-hell-3", "heaven-hell-4") for arm in ("V(h)", "V(h, s)")
    ]
    assert made.numbers["mean"].to_list() == [0.5, 1.5] * 2
    # Two runs that are 1 apart: a standard deviation of sqrt(1/2), and its standard error 1/2.
    assert made.numbers["standard_error"].to_list() == [0.5] * 4
    # A return of 1 is the best, so that V(h, s) solves both runs from the first point on, and V(h) one of them.
    assert made.numbers["solved"].to_list() == [0.5, 1.0] * 2
    assert made.numbers["solved_once"].to_list() == [0.5, 1.0] * 2
    assert made.numbers["steps_to_solve"].to_list() == [None, 0] * 2
    # The exact analysis of the same world and arm.
    assert made.numbers["variance"].to_list() == [13.0, 2.0] * 2


def test_comparisons_and_the_search_are_tables_of_their_own(folder: Path):
    tables = answer(TINY, folder).tables
    # Of the four pairs of runs V(h, s) wins three and ties one.
    compared = tables["tiny-comparisons"]
    assert compared.select("setup", "arm", "than", "improvement").rows() == [
        (world, "V(h, s)", "V(h)", 0.875) for world in ("heaven-hell-3", "heaven-hell-4")
    ]
    # Both of V(h, s) and one of V(h) solve the world at the first point, the other one never: two wins and two ties.
    assert compared["sooner"].to_list() == [0.75, 0.75]
    search = tables["tiny-search"]
    assert (
        search.select("entropy_weight", "mean", "chosen").rows()
        == [(pytest.approx(value), pytest.approx(-value), mark) for value, mark in ((0.01, "*"), (0.3, ""), (0.1, ""))]
        * 2
    )


def test_the_command_writes_the_same_table_from_results(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(STUDIES, "tiny", TINY)
    before = sorted(folder.iterdir())
    assert cli.main(["study", "tiny", "--from-results", str(folder), "--out", str(tmp_path)]) == 0
    written = pl.read_csv(tmp_path / "tiny.csv")
    assert written["mean"].to_list() == answer(TINY, folder).numbers["mean"].to_list()
    for name in ("tiny.png", "tiny.svg", "tiny-exact.png", "tiny-comparisons.csv", "tiny-search.csv"):
        assert (tmp_path / name).stat().st_size > 0
    assert sorted(folder.iterdir()) == before


def test_runs_that_are_missing_are_named(tmp_path: Path):
    part = TINY.narrowed(["heaven-hell-3"])
    fill(tmp_path, TINY.search_runs()[:6], returns)
    with pytest.raises(RunError, match="no runs of the study tiny that are over"):
        answer(TINY, tmp_path)
    decided = choose(part, Store.open(tmp_path))
    fill(tmp_path, part.final_runs(decided)[:1], returns)
    assert answer(part, tmp_path).notes == ["heaven-hell-3: 1 of 4 runs are over; the search is not over for 1 arm"]


def test_an_arm_is_judged_by_its_own_metric(tmp_path: Path):
    arms = (Arm("a", {"method": "a2c"}), Arm("b", {"method": "a2c-asym-s"}, metric="length"))
    study = Study("t", "t", "t", "t", setups=(Setup("cleaner", 100),), arms=arms, seeds=2)
    store_with_curves(tmp_path / "store", [each.run for each in study.final_runs()])
    made = answer(study, tmp_path / "store").numbers
    # Returns are the seed plus the share of training that is over, lengths 10 more than the seed.
    assert made["mean"].to_list() == pytest.approx([0.5 + 0.925, 10.5])


def test_arms_are_drawn_in_their_panels(tmp_path: Path):
    arms = (
        Arm("paper", {"method": "a2c"}, panel=EVERY_PANEL),
        Arm("clip 1", {"method": "a2c", "clip_norm": 1.0}, panel="clip"),
        Arm("eps 1e-3", {"method": "a2c", "adam_eps": 1e-3}, panel="eps"),
    )
    study = Study("t", "t", "t", "t", setups=(Setup("cleaner", 100),), arms=arms, seeds=1)
    store_with_curves(tmp_path / "store", [each.run for each in study.final_runs()])
    panels = [ax for ax in answer(study, tmp_path / "store").figures["t"].axes if ax.axison]
    assert [ax.get_title(loc="left") for ax in panels] == ["cleaner, clip", "cleaner, eps"]
    # Each has a band for its own arm and for the one of every panel.
    assert [len(ax.collections) for ax in panels] == [2, 2]


def test_a_study_may_measure_more(folder: Path):
    def points(curves: pl.DataFrame) -> pl.DataFrame:
        return curves.group_by("setup", "arm").agg(pl.len().alias("points"))

    made = answer(replace(TINY, measure=points), folder).numbers
    assert made["points"].to_list() == [2 * 20] * 4  # runs, and points of each


def test_an_exact_analysis_has_a_table_for_each_policy():
    def exact(world: str) -> pl.DataFrame:
        return pl.DataFrame({"arm": ["a"], "random: bias": [0.5], "good: bias": [0.25]})

    study = Study("t", "t", "t", "t", setups=(Setup("cleaner", 1),), arms=(Arm("a", {"method": "a2c"}),), exact=exact)
    parts = exact_parts(study, study.setups[0])
    assert {policy: table.to_dicts() for policy, table in parts.items()} == {
        "random": [{"arm": "a", "bias": 0.5}],
        "good": [{"arm": "a", "bias": 0.25}],
    }


def test_runs_of_another_store_are_taken_over(folder: Path, tmp_path: Path):
    other = Store.open(folder)
    wanted = [*other.runs[:3], *(run._replace(seed=77) for run in other.runs[:1])]
    store = Store.create(tmp_path / "new", wanted, keeps_networks=False)
    assert copy_results(store, other) == 3
    assert copy_results(store, other) == 0
    assert store.unfinished() == [3]
    store.release()
    copied, source = Store.open(tmp_path / "new").results(), other.results()
    for number in range(3):
        np.testing.assert_array_equal(copied[number].curve, source[number].curve)
    keeping = Store.create(tmp_path / "keeping", wanted)
    with pytest.raises(RunError, match="keeps the networks of its runs"):
        copy_results(keeping, other)
    keeping.release()
