"""`asymrl watch`: prints its address, answers there, and ends at once on Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from asymrl import cli
from asymrl.report.html.live import Document, PageServer
from asymrl.runs.runs import Run
from tests.runs.engine.stores import small, store_with_curves


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_with_curves(tmp_path_factory.mktemp("watch") / "runs", [Run(small(steps=1000), 0)])


def test_it_serves_the_page_until_it_is_interrupted(folder: Path):
    command = [sys.executable, "-m", "asymrl", "watch", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url, _, rest = process.stdout.readline().partition("  ")
            assert url.startswith("http://127.0.0.1:")
            assert rest == f"follows {folder}; Ctrl-C ends it\n"
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert b"startLive" in answer.read()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, "")


def test_mistakes_are_told_in_a_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with PageServer(lambda: Document(b"", "")) as server:
        cases = {
            (str(tmp_path / "none"),): "no runs here, there is no such folder",
            (str(folder), "--port", "0"): "--port 0: choose a number from 1 to 65535",
            (str(folder), "--port", str(server.server_port)): f"--port {server.server_port}: address already in use; ",
        }
        for arguments, message in cases.items():
            status = cli.main(["watch", *arguments])
            out, err = capsys.readouterr()
            assert (status, out, err.count("\n")) == (2, "", 1)
            assert message in err
