"""`asymrl study`: trains a search and the final runs, resumes, and reports from results that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from asymrl import cli
from asymrl.api.studied import wanted_study
from asymrl.runs.store import Store
from asymrl.studies.catalogue import STUDIES
from asymrl.studies.choosing import choose
from tests.studies.tiny import TINY


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(STUDIES, "tiny", TINY)


def test_lists_the_studies(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["study"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in STUDIES)
    assert "Does it run?" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "nonsense: the studies are "),
        (["tiny", "--env", "tiger"], "tiger: the study tiny has heaven-hell-3, heaven-hell-4"),
        (["tiny", "--seeds", "0"], "0 seeds: choose 1 to 1000"),
        (["tiny", "--phase", "final"], "the search is not over for heaven-hell-3 V(h) and 3 more"),
        (["tiny", "--phase", "search", "--quick"], "this version of the study tiny has no search"),
        (["tiny", "--quick", "--env", "heaven-hell-3", "heaven-hell-4"], "the quick version of a study has one world"),
        (["tiny", "--reuse", "nowhere"], "nowhere: no runs here"),
        (["tiny", "--from-results", "nowhere"], "nowhere: no runs here"),
    ],
)
def test_errors_are_one_line_and_nothing_is_trained(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.main(["study", *arguments, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_quick_version_is_in_the_world_that_is_named():
    assert [setup.name for setup in wanted_study("tiny", ["heaven-hell-4"], quick=True).setups] == ["heaven-hell-4"]
    assert [setup.name for setup in wanted_study("tiny", quick=True).setups] == ["heaven-hell-3"]


def test_a_world_without_an_exact_analysis_says_so(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["study", "learners", "--exact-only", "--env", "car-flag", "cleaner"]) == 0
    said = capsys.readouterr().out
    assert "car-flag: no exact analysis" in said
    assert "cleaner: no exact analysis" in said


@pytest.mark.slow
def test_a_study_is_searched_then_trained_then_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out"
    command = ["study", "tiny", "--out", str(out), "--no-draw", "--checkpoint", "none"]
    assert cli.main([*command, "--phase", "search"]) == 0
    assert len(Store.open(out)) == 12
    assert cli.main(command) == 0
    store = Store.open(out)
    choices = choose(TINY, store)
    wanted = [*TINY.search_runs(), *TINY.final_runs(choices)]
    assert {run.key for run in store.runs} == {each.run.key for each in wanted}
    assert not store.unfinished()
    before = (out / "metrics.parquet").read_bytes()
    capsys.readouterr()
    assert cli.main(command) == 0
    assert "already complete" in capsys.readouterr().out
    assert (out / "metrics.parquet").read_bytes() == before
    # Another folder takes the runs over and trains only one seed more.
    again = tmp_path / "again"
    more = [*command[:3], str(again), *command[4:], "--reuse", str(out), "--env", "heaven-hell-3"]
    assert cli.main(more) == 0
    assert "already complete" in capsys.readouterr().out
    assert len(Store.open(again)) == 12 + 4
