"""`--quiet` and `--json`: what goes to stdout and what to stderr."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import pytest

from asymrl import cli
from asymrl.cli.commands import doctor
from asymrl.cli.output import busy, print_json, redirected

SMALL = ["--memory-size", "8", "--hidden", "8", "--time-limit", "10", "--log-points", "4", "--steps", "1k"]


def test_json_alone_reaches_stdout(capsys: pytest.CaptureFixture[str]):
    with redirected(quiet=False, as_json=True):
        print("on the way")
        print_json({"a": [1.5, float("nan"), (float("inf"), "text")]})
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"a": [1.5, None, [None, "text"]]}
    assert printed.err == "on the way\n"


def test_quiet_keeps_errors(capsys: pytest.CaptureFixture[str]):
    with redirected(quiet=True, as_json=False):
        print("on the way")
        warnings.warn("careful", stacklevel=1)
        print("wrong", file=sys.stderr)
    assert capsys.readouterr() == ("", "wrong\n")


@pytest.mark.usefixtures("page_at_the_end")
def test_training_answers_in_json_or_not_at_all(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    one, many = tmp_path / "one", tmp_path / "many"
    assert cli.main(["train", "tiger", *SMALL, "--seeds", "2", "--out", str(one), "--json"]) == 0
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert set(answer) == {"folder", "exit_status", "complete", "runs", "ranking", "files"}
    assert (answer["folder"], answer["exit_status"], answer["complete"]) == (str(one), 0, True)
    assert [(run["seed"], run["status"]) for run in answer["runs"]] == [(0, "complete"), (1, "complete")]
    assert all(run["timesteps"] >= 1000 and run["final_return"] < 0 for run in answer["runs"])
    assert [(kind["runs"], kind["method"]) for kind in answer["ranking"]] == [(2, "a2c-asym-hs")]
    assert set(answer["files"]) == {"metrics", "curve", "report"}
    assert all(Path(path).is_file() for path in answer["files"].values())
    assert "steps" in printed.err
    page = (one / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert 'id="data-player"' in page

    assert cli.main(["resume", str(one), "--no-report", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert cli.main(["resume", str(one), "--no-report", "--quiet", "--json"]) == 0
    printed = capsys.readouterr()
    assert (json.loads(printed.out)["runs"], printed.err) == (answer["runs"], "")

    settings = ["memory_size=8", "hidden=8", "time_limit=10", "log_points=4", "steps=1k"]
    asked = ["sweep", "--env", "tiger", "--methods", "a2c-asym-hs", "--seeds", "2", "--set", *settings]
    assert cli.main([*asked, "--out", str(many), "--no-report", "--json", "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    swept = json.loads(printed.out)
    names = ("seed", "status", "timesteps", "final_return")
    assert [[run[name] for name in names] for run in swept["runs"]] == [
        [run[name] for name in names] for run in answer["runs"]
    ]


def test_a_wrong_command_prints_no_json(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert cli.main(["train", "tiger", "--steps", "0", "--json", "--out", str(tmp_path / "runs")]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "asymrl: steps is 0; it must be a positive number\n")


def test_the_machine_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    assert cli.main(["doctor", "--quick", "--json"]) == 0
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert printed.err == ""
    assert answer["devices"][0].keys() == {"platform", "id", "kind"}
    assert (answer["speed"], answer["problems"]) == ({}, [])
    assert answer["cores"] >= 1
    assert set(answer["optional_packages"]) == set(doctor.EXTRAS)
    monkeypatch.setattr(doctor, "problems", lambda gpus: ["no heart"])
    assert cli.main(["doctor", "--quick", "--quiet"]) == 1
    assert capsys.readouterr() == ("", "problem: no heart\n")


def test_the_line_is_there_before_the_work_begins(capsys: pytest.CaptureFixture[str]):
    with busy("comparing [all] runs"):
        assert capsys.readouterr().out == "comparing [all] runs ...\n"
    assert capsys.readouterr().out == ""


def test_on_a_terminal_it_goes_away(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with busy("comparing runs"):
        pass
    shown = capsys.readouterr().out
    assert "comparing runs" in shown
    assert shown.endswith("\x1b[1A\x1b[2K")  # one line up, and erased
