"""A process that dies at any moment loses nothing but time."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.engine.conftest import OPTIONS, WORLD, Commands, Uninterrupted, assert_same_result


def go_on(asymrl: Commands, folder: Path) -> subprocess.Popen[str]:
    """What a user would do: begin, or go on with what is there."""
    pace = ("--refresh-seconds", "0.02", "--checkpoint-seconds", "0")
    if (folder / "settings.json").exists():
        return asymrl.start("resume", str(folder), *pace)
    return asymrl.start("train", WORLD, *OPTIONS, "--out", str(folder))


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


def finish(asymrl: Commands, folder: Path) -> None:
    process = go_on(asymrl, folder)
    _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")


def test_a_run_killed_three_times_ends_like_one_that_was_not(
    asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path
):
    folder, moments = tmp_path / "killed", random.Random(1)
    killed = 0
    for _ in range(3):
        process = go_on(asymrl, folder)
        wait_for_a_checkpoint(process, folder)
        killed += kill_after(process, moments.uniform(0, 0.5))
    assert killed == 3
    finish(asymrl, folder)
    assert_same_result(folder, uninterrupted.folder)


@pytest.mark.slow
def test_a_run_killed_at_twenty_random_moments_ends_like_one_that_was_not(
    asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path
):
    # Also while it starts, before there is anything to resume, and while it writes its last files.
    folder, moments = tmp_path / "killed", random.Random(2)
    begin = time.monotonic()
    status, *_ = asymrl.train(tmp_path / "timed")
    lifetime = time.monotonic() - begin
    assert status == 0
    killed = sum(kill_after(go_on(asymrl, folder), moments.uniform(0, lifetime)) for _ in range(20))
    assert killed > 5
    finish(asymrl, folder)
    assert_same_result(folder, uninterrupted.folder)
