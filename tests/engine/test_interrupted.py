"""Ctrl-C and SIGTERM end a training in an orderly way."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from asymrl.runs.signals import StopRequests

from tests.engine.conftest import OPTIONS, WORLD, Commands, Uninterrupted, assert_same_result


@pytest.mark.parametrize(("which", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_makes_a_checkpoint_and_says_how_to_go_on(
    asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path, which: signal.Signals, status: int
):
    folder = tmp_path / "stopped"
    # Without this option the only checkpoint is the one that the signal causes.
    process = asymrl.start("train", WORLD, *OPTIONS, "--checkpoint-seconds", "1000", "--out", str(folder))
    while not (folder / "metrics.parquet").exists():
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(which)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (status, "")
    assert f"{which.name}: will stop with a checkpoint" in out
    assert f"To go on: asymrl resume {folder}" in out
    assert len(list(folder.glob("checkpoint/*.json"))) == 1
    assert not (folder / "curve.png").exists()
    if which == signal.SIGINT:  # how it was stopped makes no difference any more
        status, out, err = asymrl("resume", str(folder))
        assert (status, err) == (0, "")
        assert_same_result(folder, uninterrupted.folder)


BUSY = """
import hashlib
from asymrl.runs.signals import StopRequests
with StopRequests(lambda which: print("first", which.name, flush=True)) as stop:
    print("ready", flush=True)
    # As in a compilation, no Python code runs for a long time, so Python's own handlers do not either.
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""


def test_the_second_signal_ends_the_process_even_if_it_is_busy(asymrl: Commands):
    process = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True, env=asymrl.environment)
    assert process.stdout is not None
    with process.stdout as out:
        assert out.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert out.readline() == "first SIGTERM\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def test_signal_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    heard = []
    with StopRequests(heard.append) as stop:
        signal.raise_signal(signal.SIGTERM)
        for _ in range(500):
            if heard:
                break
            time.sleep(0.01)
    assert (heard, stop.received) == ([signal.SIGTERM], signal.SIGTERM)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
