"""`asymrl report` writes a page, and says what is wrong before any work is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from asymrl.api.wanted import settings_for
from asymrl.cli import main
from asymrl.cli.commands.report_command import claims_sections
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.settings import A2CSettings
from asymrl.settings.methods import PAPER_METHODS
from tests.runs.engine.stores import store_with_curves


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kinds = [settings_for("shopping-5", method) for method in ("a2c", "a2c-asym-hs")]  # as the paper tuned them
    runs = [Run(kind, seed) for kind in kinds for seed in (0, 1)]
    return store_with_curves(tmp_path_factory.mktemp("runs") / "mine", runs)


def test_a_page_is_written(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "new" / "page.html"
    assert main(["report", str(folder), "-o", str(path)]) == 0
    assert f"{path} (4 runs, " in capsys.readouterr().out
    page = path.read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "<title>mine</title>" in page


def test_runs_of_the_paper_have_its_claims(tmp_path: Path):
    kinds = [settings_for("shopping-5", method) for method in PAPER_METHODS]
    (section,) = claims_sections(
        Store.open(store_with_curves(tmp_path / "s", [Run(kind, n) for kind in kinds for n in (0, 1)]))
    )
    assert section.title == "The paper's claims"
    assert "V(s) ends up suboptimal" in section.html


def test_runs_that_the_paper_says_nothing_about_have_no_claims(tmp_path: Path):
    one_method = store_with_curves(tmp_path / "one", [Run(settings_for("shopping-5", "a2c"), seed) for seed in (0, 1)])
    kinds = [settings_for("tiger", method) for method in ("a2c", "a2c-asym-hs")]
    other_world = store_with_curves(tmp_path / "other", [Run(kind, 0) for kind in kinds])
    assert claims_sections(Store.open(one_method)) == claims_sections(Store.open(other_world)) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "FOLDER", "-o", "page.pdf"], "page.pdf: unknown file ending '.pdf'"),
        (["reproduce", "--from-results", "FOLDER", "--report", "p.md"], "p.md: unknown file ending"),
    ],
)
def test_mistakes_are_told_before_the_work(
    arguments: list[str], said: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([str(folder) if each == "FOLDER" else each for each in arguments]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_runs_that_have_not_begun_have_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    Store.create(tmp_path / "runs", [Run(A2CSettings("tiger", "a2c"), 0)]).release()
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "page.html")]) == 2
    assert "not there yet; have the runs begun?" in capsys.readouterr().err


def test_the_page_of_a_reproduction_has_its_findings(folder: Path, tmp_path: Path):
    where = ["--from-results", str(folder), "--env", "shopping-5", "--out", str(tmp_path)]
    assert main(["reproduce", "curves", *where, "--report", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert not (tmp_path / "report.html").exists()
    assert '<section id="section-findings">' in page
    assert 'src="data:image/png;base64,' in page


@pytest.mark.usefixtures("page_at_the_end")
def test_a_page_that_nobody_asked_for_is_beside_the_results_and_never_fails(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    where = ["reproduce", "curves", "--from-results", str(folder), "--env", "shopping-5", "--out", str(tmp_path)]
    assert main([*where, "--no-report"]) == 0
    assert not (tmp_path / "report.html").exists()
    assert main(where) == 0
    assert f"report          {tmp_path / 'report.html'} (4 runs, " in capsys.readouterr().out
    monkeypatch.setattr("asymrl.cli.running.save_page", lambda *_: 1 / 0)
    assert main(where) == 0
    assert "the page about the runs could not be written: division by zero" in capsys.readouterr().err
