"""A command that computes for long says what."""

from __future__ import annotations

import pytest

from asymrl.cli.waiting import busy


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
