"""A sweep as its user sees it: what is missing is run, whatever happened before."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.engine.conftest import Commands
from tests.engine.sweep_fixtures import assert_same_curves, curves, sweep

AXIS = "actor_rate=0.001,0.0003"


def kill_once_in_flight(process: subprocess.Popen[str], folder: Path) -> bool:
    """Kills a sweep when it has kept something of what is in flight; says whether it was in time."""
    before = {path: path.stat().st_mtime_ns for path in folder.glob("in-flight/*.npz")}
    while process.poll() is None:
        try:
            now = {path: path.stat().st_mtime_ns for path in folder.glob("in-flight/*.npz")}
        except FileNotFoundError:  # complete, just now
            continue
        if now and now != before:
            process.kill()
        time.sleep(0.002)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def test_a_killed_sweep_goes_on_and_ends_like_one_that_was_not(asymrl: Commands, undisturbed: Path, tmp_path: Path):
    folder = tmp_path / "killed"
    killed = [kill_once_in_flight(asymrl.start(*sweep(folder, AXIS)), folder) for _ in range(2)]
    assert killed == [True, True]
    status, out, err = asymrl(*sweep(folder, AXIS))
    assert (status, err) == (0, ""), out
    assert_same_curves(curves(folder), curves(undisturbed))
    assert not list(folder.glob("in-flight/*"))


def test_a_sweep_that_is_complete_trains_nothing(asymrl: Commands, undisturbed: Path):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.glob("cells/*")}
    status, out, err = asymrl(*sweep(undisturbed, AXIS))
    assert (status, err) == (0, "")
    assert "4 of 4 cells are finished; 0 steps" in out
    assert len(curves(undisturbed)) == 4
    assert {path: path.stat().st_mtime_ns for path in undisturbed.glob("cells/*")} == before


@pytest.mark.slow
def test_only_new_cells_are_run_and_impossible_ones_are_recorded(asymrl: Commands, undisturbed: Path, tmp_path: Path):
    folder = tmp_path / "grown"
    (folder / "cells").mkdir(parents=True)
    for path in undisturbed.glob("cells/*.npz"):
        (folder / "cells" / path.name).write_bytes(path.read_bytes())
    more = sweep(folder, AXIS)
    more[more.index("--env") + 1 : more.index("--methods")] = ["nowhere-3", "tiger:episodic=true"]
    more[more.index("--seeds") + 1] = "3"
    status, out, err = asymrl(*more)
    assert (status, err) == (1, "")
    assert "6 of 12 cells are finished; 12,0" in out
    assert "unknown world 'nowhere-3'" in out
    assert {cell.seed for cell in curves(folder)} == {0, 1, 2}
    assert "nowhere-3" in (folder / "failures.json").read_text()


@pytest.mark.slow
def test_time_runs_out_with_a_checkpoint(asymrl: Commands, undisturbed: Path, tmp_path: Path):
    folder = tmp_path / "hurried"
    status, out, _ = asymrl(*sweep(folder, AXIS), "--minutes", "0.0001")
    assert status == 3
    assert "0 of 4 cells are finished" in out
    assert "Out of time" in out
    status, _, _ = asymrl(*sweep(folder, AXIS))
    assert status == 0
    assert_same_curves(curves(folder), curves(undisturbed))


def test_the_folder_has_one_writer(asymrl: Commands, undisturbed: Path):
    from asymrl.runs.files import RunError
    from asymrl.sweeps.ledger import SweepFolder

    folder = SweepFolder.take(undisturbed)
    try:
        with pytest.raises(RunError, match="in use by process"):
            SweepFolder.take(undisturbed)
    finally:
        folder.release()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "tiger", "--methods", "a2c", "--set", "actor_rate"], "NAME=VALUE"),
        (["--env", "tiger", "--methods", "a2c", "--set", "actor_rat=1"], "did you mean 'actor_rate'"),
        (["--env", "tiger", "--methods", "a2c", "--set", "steps=no"], "steps is 'no', expected a whole number"),
        (["--env", "tiger", "--methods", "sarsa"], "unknown method 'sarsa'"),
        (["--env", "tiger"], "name worlds with --env and methods with --methods"),
    ],
)
def test_mistakes_are_explained(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from asymrl.cli import main

    assert main(["sweep", *arguments, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
