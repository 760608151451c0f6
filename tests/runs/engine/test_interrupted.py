"""A training that is stopped or killed at any moment loses nothing but time, whichever command began it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from asymrl.runs.interrupts import TOGETHER_SECONDS, StopRequests
from tests.runs.engine.conftest import OPTIONS, PACE, WORLD, Commands, Uninterrupted, assert_same_result

SMALL = ["memory_size=4", "hidden=4", "time_limit=4", "log_points=20"]
# Two shapes, each with two learning rates and two seeds: eight runs.
SWEEP = [
    *("sweep", "--env", WORLD, "--methods", "a2c-asym-s", "a2c", "--seeds", "2", *PACE),
    *("--set", *SMALL, "steps=6000", "actor_rate=0.001,0.0003"),
]
COMPARISON = [
    *("compare", WORLD, "--methods", "a2c-asym-s", "a2c", "--seeds", "2", "--steps", "6000", *PACE),
    *("--set", *SMALL),
]


def go_on(asymrl: Commands, folder: Path, begin: list[str]) -> subprocess.Popen[str]:
    """What a user would do: begin, or go on with what is there."""
    if (folder / "settings.json").exists():
        return asymrl.start("resume", str(folder), *PACE)
    return asymrl.start(*begin, "--out", str(folder))


def kill_after(process: subprocess.Popen[str], seconds: float) -> bool:
    """Whether the process was still there to be killed."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def wait_for_a_checkpoint(process: subprocess.Popen[str], folder: Path) -> None:
    """Waits until this process has written a checkpoint."""
    before = set(folder.glob("checkpoint/*.json"))
    while process.poll() is None and not set(folder.glob("checkpoint/*.json")) - before:
        time.sleep(0.005)


def kill_once_saved(asymrl: Commands, folder: Path, begin: list[str], times: int) -> list[bool]:
    """Begins or goes on so often, and kills each process a moment after its first checkpoint."""
    moments = random.Random(1)
    killed = []
    for _ in range(times):
        process = go_on(asymrl, folder, begin)
        wait_for_a_checkpoint(process, folder)
        killed.append(kill_after(process, moments.uniform(0, 0.3)))
    return killed


def finish(asymrl: Commands, folder: Path, begin: list[str]) -> str:
    process = go_on(asymrl, folder, begin)
    out, err = process.communicate(timeout=900)  # on a busy machine
    assert (process.returncode, err) == (0, "")
    return out


def test_a_killed_training_ends_like_one_that_was_not(asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path):
    folder, begin = tmp_path / "killed", ["train", WORLD, *OPTIONS]
    assert kill_once_saved(asymrl, folder, begin, 1) == [True]
    finish(asymrl, folder, begin)
    assert_same_result(folder, uninterrupted.folder)


@pytest.mark.slow
@pytest.mark.parametrize("begin", [SWEEP, COMPARISON], ids=["sweep", "compare"])
def test_one_resume_for_everything(asymrl: Commands, tmp_path: Path, begin: list[str]):
    """Several shapes: some runs are over, some are in their lanes, some have not begun when it is killed."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(asymrl, whole, begin)
    assert kill_once_saved(asymrl, killed, begin, 2) == [True] * 2
    out = finish(asymrl, killed, begin)
    assert "already complete" not in out
    assert_same_result(killed, whole)
    assert "already complete" in finish(asymrl, killed, begin)
    assert_same_result(killed, whole)


@pytest.mark.slow
def test_a_training_killed_at_twenty_random_moments_ends_like_one_that_was_not(
    asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path
):
    # Also while it starts, before there is anything to resume, and while it writes its last files.
    folder, begin, moments = tmp_path / "killed", ["train", WORLD, *OPTIONS], random.Random(2)
    started = time.monotonic()
    status, *_ = asymrl.train(tmp_path / "timed")
    lifetime = time.monotonic() - started
    assert status == 0
    killed = sum(kill_after(go_on(asymrl, folder, begin), moments.uniform(0, lifetime)) for _ in range(20))
    assert killed > 2  # once it is complete, the process ends sooner
    finish(asymrl, folder, begin)
    assert_same_result(folder, uninterrupted.folder)


@pytest.mark.parametrize(("which", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_makes_a_checkpoint_and_says_how_to_go_on(
    asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path, which: signal.Signals, status: int
):
    folder = tmp_path / "stopped"
    # With this option the only checkpoints are those that the signal causes.
    process = asymrl.start("train", WORLD, *OPTIONS, "--checkpoint-seconds", "1000", "--out", str(folder))
    while not (folder / "metrics.parquet").exists():
        assert process.poll() is None
        time.sleep(0.005)
    for _ in range(2):  # as `timeout` does: to the process, and to its group
        process.send_signal(which)
        time.sleep(0.02)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (status, "")
    assert f"{which.name}: will stop with a checkpoint" in out
    assert f"To go on: asymrl resume {folder}" in out
    assert list(folder.glob("checkpoint/*.json"))
    with Image.open(folder / "curve.png") as picture:
        assert picture.size == (1120, 700)
    assert f"learning curve so far  {folder / 'curve.png'}" in out
    if which == signal.SIGINT:  # how it was stopped makes no difference any more
        status, out, err = asymrl("resume", str(folder))
        assert (status, err) == (0, "")
        assert_same_result(folder, uninterrupted.folder)


@pytest.mark.slow
def test_a_signal_is_answered_soon_however_rarely_the_display_is_updated(asymrl: Commands, tmp_path: Path):
    folder = tmp_path / "rare"
    process = asymrl.start("train", WORLD, "--steps", "1e9", "--refresh-seconds", "1000", "--out", str(folder))
    while not (folder / "metrics.parquet").exists():
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(5)  # calls of the program grow until they take as long as they may
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert "To go on: asymrl resume" in out


BUSY = """
import hashlib
from asymrl.runs.interrupts import StopRequests
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
        time.sleep(2 * TOGETHER_SECONDS)
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
