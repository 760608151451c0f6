"""A whole training by the command line and from Python: what it leaves behind, and how it goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from asymrl.runs.folder import RunFolder
from PIL import Image

from asymrl.learning.state import METRICS
from tests.engine.conftest import OPTIONS, WORLD, Commands, Uninterrupted, assert_same_result, last_arrays, tiny


def test_the_folder_holds_settings_metrics_and_a_picture(uninterrupted: Uninterrupted):
    folder = uninterrupted.folder
    assert RunFolder.open(folder).batch.settings == (tiny(), tiny())
    metrics = pl.read_parquet(folder / "metrics.parquet")
    assert metrics.columns == ["world", "method", "seed", *METRICS]
    for (seed,), run in metrics.group_by("seed", maintain_order=True):
        # A point is due every 400 steps and written with the next update, of two episodes of at most 4 steps.
        steps = run["timestep"].to_numpy()
        assert seed in (0, 1)
        assert steps[0] == 0
        assert 11_400 <= steps[-1] < 12_000
        assert ((np.diff(steps) >= 400) & (np.diff(steps) < 408)).all()
    assert metrics["evaluation_return"].null_count() == len(metrics)
    with Image.open(folder / "curve.png") as picture:
        assert picture.size == (1120, 700)
    assert not list(folder.rglob("*.unfinished"))


def test_the_summary_says_what_was_reached_and_what_to_do_next(uninterrupted: Uninterrupted):
    arrays, out = last_arrays(uninterrupted.folder), uninterrupted.out
    means = arrays["recent_returns"].mean(axis=1)
    assert f"last episodes   return {means.mean():.2f} ± {abs(means[0] - means[1]) / 2:.2f}" in out
    metrics = pl.read_parquet(uninterrupted.folder / "metrics.parquet").filter(pl.col("timestep") >= 0.9 * 12_000)
    finals = metrics.group_by("seed", maintain_order=True).agg(pl.col("return").mean())["return"]
    assert f"each run        {finals[0]:.2f}  {finals[1]:.2f}" in out
    assert "(the paper has no settings for this world and method)" in out
    for command in ("evaluate", "render", "resume"):
        assert f"asymrl {command} {uninterrupted.folder}" in out
    trained = f"{int(arrays['timesteps'].sum()):,}".replace(",", " ")
    assert f"100%  {trained} steps" in out


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


def test_a_complete_run_has_nothing_left_to_do(asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path):
    subprocess.run(["cp", "-r", uninterrupted.folder, tmp_path / "copy"], check=True)
    status, out, err = asymrl("resume", str(tmp_path / "copy"))
    assert (status, err) == (0, "")
    assert "final return" in out
    assert_same_result(tmp_path / "copy", uninterrupted.folder)


SHORTER_THEN_LONGER = """
import sys
from dataclasses import replace
import asymrl
from asymrl.runs.listeners import Silent
from tests.engine.conftest import tiny

folder = sys.argv[1]
asymrl.train(tiny(steps=4000, log_points=10), seeds=2, out=folder, listener=Silent())
asymrl.resume(folder, steps=12_000, listener=Silent())
"""


@pytest.mark.slow
def test_a_run_that_was_made_longer_is_the_run_that_it_would_have_been(
    asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path
):
    asymrl.python(SHORTER_THEN_LONGER, str(tmp_path / "longer"))
    assert_same_result(tmp_path / "longer", uninterrupted.folder)


ONE_FAILS = """
import sys
import asymrl
from asymrl.runs.listeners import Silent
from tests.engine.conftest import tiny

class Told(Silent):
    def say(self, message):
        print(message)

result = asymrl.train([tiny(), tiny(critic_rate=1e30)], seeds=[0], out=sys.argv[1], listener=Told())
assert result.failed == [1], result.failed
print(result.summary())
"""


def test_a_run_that_fails_is_named_and_leaves_the_others_alone(
    asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path
):
    out = asymrl.python(ONE_FAILS, str(tmp_path / "failed"))
    arrays = last_arrays(tmp_path / "failed")
    update, step = arrays["updates"][1], arrays["timesteps"][1]
    assert update < 100
    assert f"seed 0 stopped at update {update} (step {step}): a loss, a gradient or a parameter was not finite" in out
    assert "critic_rate=1e+30" in out
    assert "failed          seed 0, critic_rate=1e+30: a number was not finite; left out above" in out
    assert all(np.isfinite(array[1]).all() for name, array in arrays.items() if name != "curve")
    columns = ["timestep", "return", "critic_loss"]
    metrics = pl.read_parquet(tmp_path / "failed" / "metrics.parquet")
    sound = metrics.filter(critic_rate=1e-3).select(columns)
    alone = pl.read_parquet(uninterrupted.folder / "metrics.parquet").filter(seed=0).select(columns)
    assert sound.equals(alone)
    status, out, err = asymrl("resume", str(tmp_path / "failed"))
    assert (status, err) == (1, "")
    assert f"stopped at update {update}" in out


TWO_DEVICES = """
import sys
import jax
import asymrl
from asymrl.runs.listeners import Silent
from tests.engine.conftest import tiny

assert jax.device_count() == 2
result = asymrl.train(tiny(), seeds=3, out=sys.argv[1], listener=Silent())
print(len(result.runs.updates.sharding.device_set))
"""


@pytest.mark.slow
def test_several_devices_share_the_runs(asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path):
    flags = asymrl.environment["XLA_FLAGS"] + " --xla_force_host_platform_device_count=2"
    assert asymrl.python(TWO_DEVICES, str(tmp_path / "shared"), XLA_FLAGS=flags) == "2\n"
    shared = pl.read_parquet(tmp_path / "shared" / "metrics.parquet")
    alone = pl.read_parquet(uninterrupted.folder / "metrics.parquet")
    assert shared["seed"].unique().sort().to_list() == [0, 1, 2]
    assert last_arrays(tmp_path / "shared")["updates"].shape == (3,)
    shared, alone = (table.filter((pl.col("seed") < 2) & (pl.col("timestep") < 4000)) for table in (shared, alone))
    assert len(shared) == 20
    exact = ["seed", "timestep", "episode", "update", "return", "length"]
    assert shared.select(exact).equals(alone.select(exact))
    np.testing.assert_allclose(shared["critic_loss"], alone["critic_loss"], rtol=1e-3)


WITH_WANDB = """
import sys
from pathlib import Path
import asymrl
from asymrl.runs.trackers import WeightsAndBiases
from tests.engine.conftest import tiny

folder = Path(sys.argv[1])
folder.mkdir()
asymrl.train(tiny(), seeds=2, out=folder, listener=WeightsAndBiases(folder))
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
    checkpoint = max(uninterrupted.folder.glob("checkpoint/*.safetensors")).stat().st_size
    room = 2 * checkpoint + 60 * 1024  # enough to begin with, but not for a third checkpoint beside the two kept
    ballast.write_bytes(b"x" * (1024 * 1024 - room))
    status, out, err = asymrl.train(folder)
    assert status == 1
    assert err.startswith(f"asymrl: {folder}/")
    assert "can not be written: No space left on device. The training stopped" in err
    assert f"go on with `asymrl resume {folder}`" in err
    assert err.count("\n") == 1
    assert "return   " not in out
    assert len(list(folder.glob("checkpoint/*.json"))) == 2
    ballast.unlink()
    status, out, err = asymrl("resume", str(folder), "--checkpoint-seconds", "1000")
    assert (status, err) == (0, "")
    assert_same_result(folder, uninterrupted.folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_can_not_be_written_is_named(asymrl: Commands, tmp_path: Path):
    tmp_path.chmod(0o500)
    status, _, err = asymrl.train(tmp_path / "runs")
    assert (status, err) == (2, f"asymrl: {tmp_path / 'runs'}: can not be made a folder: Permission denied\n")


def test_a_folder_in_use_is_refused_by_the_command(asymrl: Commands, uninterrupted: Uninterrupted):
    taken = RunFolder.take(uninterrupted.folder)
    status, out, err = asymrl("resume", str(uninterrupted.folder))
    taken.release()
    assert (status, out) == (2, "")
    assert err == (f"asymrl: {uninterrupted.folder}: in use by process {os.getpid()}; wait for it to end, or stop it\n")


def test_a_folder_with_a_run_is_refused_by_the_command(asymrl: Commands, uninterrupted: Uninterrupted):
    before = {path: path.stat().st_mtime_ns for path in uninterrupted.folder.rglob("*") if path.name != ".lock"}
    status, out, err = asymrl("train", WORLD, *OPTIONS, "--out", str(uninterrupted.folder))
    assert (status, out) == (2, "")
    assert "already holds a run" in err
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_the_versions_are_written_down(uninterrupted: Uninterrupted):
    import jax

    written = json.loads((uninterrupted.folder / "settings.json").read_text())
    assert written["versions"]["jax"] == jax.__version__
