"""A whole training by the command and from Python: what it leaves behind, and how it goes wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from asymrl import api, cli
from asymrl.learners.state import METRICS
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from tests.runs.engine.conftest import (
    OPTIONS,
    WORLD,
    Commands,
    Recorder,
    Uninterrupted,
    assert_same_result,
    final_states,
    tiny,
)
from tests.runs.engine.stores import store_with_curves


def test_the_store_holds_settings_metrics_networks_and_a_picture(uninterrupted: Uninterrupted):
    folder = uninterrupted.folder
    store = Store.open(folder)
    assert store.runs == (Run(tiny(), 0), Run(tiny(), 1))
    assert store.unfinished() == []
    metrics = store.metrics()
    shown = [
        "steps",
        "time_limit",
        "memory_size",
        "hidden",
        "log_points",
        "actor_rate",
        "critic_rate",
        "entropy_weight",
        "env.episodic",
    ]
    assert metrics.columns == ["run", "world", "method", *shown, "seed", *METRICS]
    for (seed,), run in metrics.group_by("seed", maintain_order=True):
        # A point is due every 400 steps and written with the next update, of two episodes of at most 4 steps.
        steps = run["timestep"].to_numpy()
        assert seed in (0, 1)
        assert steps[0] == 0
        assert 11_400 <= steps[-1] < 12_000
        assert ((np.diff(steps) >= 400) & (np.diff(steps) < 408)).all()
    assert metrics["evaluation_return"].null_count() == len(metrics)
    assert set(final_states(folder)) == set(store.runs)
    with Image.open(folder / "curve.png") as picture:
        assert picture.size == (1120, 700)
    assert not list(folder.rglob("*.unfinished"))
    written = json.loads((folder / "settings.json").read_text())
    assert set(written["versions"]) == {"asymrl", "jax"}


def test_the_output_says_what_was_reached_and_what_to_do_next(uninterrupted: Uninterrupted):
    folder, out = uninterrupted.folder, uninterrupted.out
    states = final_states(folder)
    first, second = (states[run]["recent_returns"].mean() for run in Store.open(folder).runs)
    assert f"last episodes   return {(first + second) / 2:.2f} ± {abs(first - second) / 2:.2f}" in out
    finals = api.load(folder).table["final_return"]
    assert f"each run        {finals[0]:.2f}  {finals[1]:.2f}" in out
    assert "(the paper has no settings for this world and method)" in out
    for command in ("evaluate", "render", "resume"):
        assert f"asymrl {command} {folder}" in out
    steps = sum(int(state["timesteps"]) for state in states.values())
    assert f"100%  {f'{steps:,}'.replace(',', ' ')} steps  2 of 2 runs over" in out
    # Both cores use one program; where compiling takes long, further lines say for how many seconds.
    assert len(re.findall(r"compiling(?!.*, \d+ s$)", out, re.MULTILINE)) == 1


def test_tensorboard_gets_the_same_points(uninterrupted: Uninterrupted):
    events = pytest.importorskip("tensorboardX.proto.event_pb2")
    records = pytest.importorskip("tensorboardX.record_writer")
    (file,) = (uninterrupted.folder / "tensorboard" / "seed-1").iterdir()
    data, points = file.read_bytes(), []
    while data:  # records: length, its checksum, the event, its checksum
        length = int.from_bytes(data[:8], "little")
        record, check = data[12 : 12 + length], data[12 + length : 16 + length]
        assert records.masked_crc32c(record) == int.from_bytes(check, "little")
        event = events.Event.FromString(record)
        points += [(event.step, value.simple_value) for value in event.summary.value if value.tag == "return"]
        data = data[16 + length :]
    expected = pl.read_parquet(uninterrupted.folder / "metrics.parquet").filter(seed=1)
    assert points == list(expected.select("timestep", "return").iter_rows())


def test_a_complete_store_has_nothing_left_to_do(asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path):
    copy = shutil.copytree(uninterrupted.folder, tmp_path / "copy")
    for name in (".lock", "curve.png"):  # as in a folder that was copied without them
        (copy / name).unlink()
    before = contents(copy)
    status, out, err = asymrl("resume", str(copy))
    assert (status, err) == (0, "")
    assert out.startswith(f"{copy}: already complete\n")
    assert "compiling" not in out
    assert "final return" in out
    api.resume(copy, display=Recorder())
    assert contents(copy) == before


@pytest.mark.parametrize("arguments", [[], ["--steps", "1000"], ["--json", "--quiet"]])
def test_resume_leaves_the_folder_of_complete_runs_without_networks_as_it_is(tmp_path: Path, arguments: list[str]):
    folder = store_with_curves(tmp_path / "runs", [Run(tiny(steps=1000), seed) for seed in (0, 1)])
    (folder / ".lock").unlink()
    before = contents(folder)
    page = tmp_path / "page.html"
    assert cli.main(["resume", str(folder), *arguments, "--report", str(page)]) == 0
    assert page.is_file()
    assert contents(folder) == before


def test_resume_clears_checkpoints_away_that_complete_runs_do_not_need(tmp_path: Path):
    folder = store_with_curves(tmp_path / "runs", [Run(tiny(steps=1000), 0)])
    (left := folder / "checkpoint" / "000001.json").write_text("{}")
    assert cli.main(["resume", str(folder), "--no-report"]) == 0
    assert not left.exists()


def contents(folder: Path) -> dict[Path, bytes | None]:
    """All files and folders below a folder, and what the files hold."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_damaged_tables_are_written_anew(uninterrupted: Uninterrupted, tmp_path: Path):
    copy = shutil.copytree(uninterrupted.folder, tmp_path / "copy")
    (copy / "runs.parquet").write_bytes(b"PAR1")
    api.resume(copy, display=Recorder())
    assert_same_result(copy, uninterrupted.folder)
    columns = ["run", "status", "timesteps", "episodes_played", "updates", "final_return", "recent_return", "seconds"]
    tables = (pl.read_parquet(folder / "runs.parquet").select(columns) for folder in (copy, uninterrupted.folder))
    assert next(tables).equals(next(tables))


@pytest.mark.slow
def test_a_run_that_was_made_longer_equals_one_started_with_that_length(uninterrupted: Uninterrupted, tmp_path: Path):
    runs = api.train(tiny(steps=4000, log_points=10), seeds=2, out=tmp_path / "longer", display=Recorder())
    runs.resume(steps=12_000, display=Recorder())
    assert_same_result(tmp_path / "longer", uninterrupted.folder)


def test_a_run_that_fails_is_named_and_leaves_the_others_alone(
    asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path
):
    recorder, folder = Recorder(), tmp_path / "failed"
    runs = api.train([tiny(), tiny(critic_rate=1e30)], seeds=[0], out=folder, display=recorder)
    assert runs.failed == [1]
    sound, failed = (final_states(folder)[run] for run in runs.runs)
    update, step = int(failed["updates"]), int(failed["timesteps"])
    assert update < 100
    reason = f"a loss, a gradient or a parameter was not finite at update {update} (step {step})"
    (said,) = recorder.said
    assert "critic_rate=1e+30" in said
    assert f"stopped: {reason}" in said
    assert "failed          seed 0, critic_rate=1e+30" in runs.summary()
    # It keeps the last numbers that were finite.
    assert all(np.isfinite(array).all() for name, array in failed.items() if name != "curve")
    alone = final_states(uninterrupted.folder)[Run(tiny(), 0)]
    assert all(np.array_equal(sound[name], array, equal_nan=True) for name, array in alone.items())
    status, _, err = asymrl("resume", str(folder))
    assert status == 1
    assert reason in err


@pytest.mark.parametrize(
    "command",
    [
        ["train", WORLD, "--memory-size", "3", "--seeds", "2"],
        ["compare", WORLD, "--methods", "a2c", "--set", "memory_size=3", "--seeds", "2"],
    ],
    ids=["train", "compare"],
)
def test_runs_that_cannot_be_trained_are_explained(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    why = "these networks cannot be made"

    def fail(*_: object) -> None:
        raise ValueError(why)

    monkeypatch.setattr("asymrl.learners.a2c.new_networks", fail)
    assert cli.main([*command, "--out", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out.count(f"seed 0 and seed 1 failed: {why}") == 1
    assert f"failed: {WORLD} a2c" in err
    assert "next:" not in out  # nothing was reached, so there is nothing to report


WITH_WANDB = """
import sys
from pathlib import Path
import asymrl
from asymrl.runs.trackers import WeightsAndBiases
from tests.runs.engine.conftest import tiny

folder = Path(sys.argv[1])
folder.mkdir()
asymrl.train(tiny(), seeds=2, out=folder, display=WeightsAndBiases(folder))
"""


@pytest.mark.slow
def test_weights_and_biases_gets_the_same_points(asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path):
    pytest.importorskip("wandb")
    asymrl.python(WITH_WANDB, str(tmp_path / "runs"), WANDB_MODE="offline")
    assert len(list((tmp_path / "runs" / "wandb").glob("offline-run-*/*.wandb"))) == 2
    assert_same_result(tmp_path / "runs", uninterrupted.folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can make a small file system here")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.slow
def test_on_a_full_disk_the_training_stops_and_can_go_on(
    asymrl: Commands, uninterrupted: Uninterrupted, small_disk: Path
):
    folder, ballast = small_disk / "runs", small_disk / "ballast"
    checkpoint = max(path.stat().st_size for path in uninterrupted.folder.glob("checkpoint/*"))
    room = 2 * checkpoint + 40 * 1024  # enough to begin with, but not for two checkpoints of each run and one more
    ballast.write_bytes(b"x" * (1024 * 1024 - room))
    status, out, err = asymrl.train(folder)
    assert status == 1
    assert err.startswith(f"asymrl: {folder}/")
    assert "cannot be written: No space left on device. The training stopped" in err
    assert f"go on with `asymrl resume {folder}`" in err
    assert err.count("\n") == 1
    assert "final return" not in out
    assert list(folder.glob("checkpoint/*.json"))
    ballast.unlink()
    status, out, err = asymrl("resume", str(folder), "--checkpoint-seconds", "1000")
    assert (status, err) == (0, "")
    assert_same_result(folder, uninterrupted.folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(asymrl: Commands, tmp_path: Path):
    tmp_path.chmod(0o500)
    status, _, err = asymrl.train(tmp_path / "runs")
    assert (status, err) == (2, f"asymrl: {tmp_path / 'runs'}: cannot be made a folder: Permission denied\n")


def test_a_store_in_use_is_refused_by_the_command(uninterrupted: Uninterrupted, capsys: pytest.CaptureFixture[str]):
    taken = Store.take(uninterrupted.folder)
    assert cli.main(["resume", str(uninterrupted.folder), "--steps", "24000"]) == 2
    taken.release()
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"asymrl: {uninterrupted.folder}: in use by process {os.getpid()}; wait for it to end, or stop it\n"


def test_a_folder_with_runs_is_refused_by_the_command(uninterrupted: Uninterrupted, capsys: pytest.CaptureFixture[str]):
    before = {path: path.stat().st_mtime_ns for path in uninterrupted.folder.rglob("*") if path.name != ".lock"}
    assert cli.main(["train", WORLD, *OPTIONS, "--out", str(uninterrupted.folder)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "already holds runs" in err
    assert {path: path.stat().st_mtime_ns for path in before} == before


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
def test_mistakes_in_a_sweep_are_explained(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.main(["sweep", *arguments, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
