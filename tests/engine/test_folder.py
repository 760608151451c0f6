"""Folders of runs: who may write them, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from asymrl.runs.batch import Batch
from asymrl.runs.files import RunError
from asymrl.runs.folder import RunFolder, free_folder

from tests.engine.conftest import tiny


@pytest.fixture
def folder(tmp_path: Path, batch: Batch) -> Path:
    path = tmp_path / "some" / "runs"
    RunFolder.create(path, batch).release()
    return path


def test_a_folder_remembers_what_is_trained_in_it(folder: Path, batch: Batch):
    assert RunFolder.open(folder).batch == batch


def test_runs_that_differ_in_numbers_are_remembered_too(tmp_path: Path):
    batch = Batch.product([tiny(actor_rate=rate, clip_norm=clip) for rate, clip in ((1e-3, None), (1e-4, 2.0))], [0, 1])
    RunFolder.create(tmp_path / "runs", batch).release()
    assert RunFolder.open(tmp_path / "runs").batch == batch
    written = json.loads((tmp_path / "runs" / "settings.json").read_text())
    assert written["runs"][2] == {"seed": 0, "actor_rate": 1e-4, "clip_norm": 2.0}
    assert "actor_rate" not in written["settings"]


def test_a_folder_with_a_run_is_not_used_again(folder: Path, batch: Batch):
    before = (folder / "settings.json").read_bytes()
    with pytest.raises(RunError, match=f"already holds a run. Go on with it by `asymrl resume {folder}`"):
        RunFolder.create(folder, Batch.product([tiny(steps=99)], [0]))
    assert (folder / "settings.json").read_bytes() == before


def test_a_folder_with_other_things_is_welcome(tmp_path: Path, batch: Batch):
    (tmp_path / "notes.txt").write_text("mine")
    RunFolder.create(tmp_path, batch).release()
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_folder_in_use_is_refused_until_it_is_released(folder: Path):
    taken = RunFolder.take(folder)
    with pytest.raises(RunError, match=rf"in use by process {os.getpid()}; wait for it to end"):
        RunFolder.take(folder)
    assert RunFolder.open(folder).batch  # reading is no use
    taken.release()
    RunFolder.take(folder).release()


HOLD = """
import sys, time
from pathlib import Path
from asymrl.runs.files import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_folder_is_free_once_the_process_that_had_it_is_dead(folder: Path):

    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder.stdout as out:
        assert out.readline() == "held\n"
        with pytest.raises(RunError, match=f"in use by process {holder.pid}"):
            RunFolder.take(folder)
        holder.kill()
        holder.wait()
    RunFolder.take(folder).release()


def test_what_a_killed_process_left_half_written_is_cleared_away(folder: Path):
    rests = [folder / "metrics.parquet.unfinished", folder / "checkpoint" / "000001.safetensors.unfinished"]
    for rest in rests:
        rest.write_bytes(b"half")
    RunFolder.take(folder).release()
    assert not any(rest.exists() for rest in rests)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "settings.json: damaged"),
        ("[]", "settings.json: damaged"),
        ('{"format": 7}', "a run folder of format 7, but this version of asymrl reads format 1"),
        ('{"format": 1}', "does not describe runs"),
        ('{"format": 1, "settings": {"worlds": "tiger"}, "runs": [{"seed": 0}]}', "did you mean 'world'?"),
        ('{"format": 1, "settings": {"steps": "many"}, "runs": [{"seed": 0}]}', "steps is 'many', expected a whole"),
        ('{"format": 1, "settings": {"steps": -1}, "runs": [{"seed": 0}]}', "steps is -1; it must be a positive"),
        ('{"format": 1, "settings": {}, "runs": [{"seed": "0"}]}', "seeds must be whole numbers"),
        ('{"format": 1, "settings": {}, "runs": []}', "a run needs one of each"),
    ],
)
def test_settings_that_make_no_sense_are_refused(folder: Path, text: str, message: str):
    (folder / "settings.json").write_text(text)
    with pytest.raises(RunError, match=message):
        RunFolder.take(folder)


def test_a_folder_without_a_run_is_named(tmp_path: Path):
    with pytest.raises(RunError, match="no run here"):
        RunFolder.open(tmp_path)


def test_places_that_can_not_be_folders_are_named(tmp_path: Path, batch: Batch):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="file: can not be made a folder"):
        RunFolder.create(tmp_path / "file", batch)
    with pytest.raises(RunError, match="/proc/runs: can not be made a folder"):
        RunFolder.create(Path("/proc/runs"), batch)


def test_free_names_are_found(tmp_path: Path):
    first = free_folder("tiger:episodic=true", "a2c", tmp_path)
    assert first.name == "tiger-episodic-true-a2c"
    first.mkdir()
    assert free_folder("tiger:episodic=true", "a2c", tmp_path).name == "tiger-episodic-true-a2c-2"


def test_longer_runs_keep_the_distance_of_their_points(folder: Path):
    taken = RunFolder.take(folder)
    taken.extend(16_000)
    assert RunFolder.open(folder).batch.first == tiny(steps=16_000, log_points=40)
    for steps, message in (
        (15_999, "it can only be made longer"),
        (16_100, "a point every 400 steps, so choose a multiple of that, such as 16000 or 16400"),
    ):
        with pytest.raises(RunError, match=message):
            taken.extend(steps)
    taken.release()
    assert RunFolder.open(folder).batch.first.steps == 16_000


def test_runs_of_different_lengths_are_not_prolonged():
    with pytest.raises(RunError, match="different numbers of steps"):
        Batch.product([tiny(), tiny(steps=600)], [0]).extended(20_000)


@pytest.mark.parametrize(
    ("settings", "seeds", "message"),
    [
        ([tiny()], [], "0 settings and 0 seeds"),
        ([tiny()], [-1], "seed -1: choose a whole number from 0"),
        ([tiny()], [1, 1], "two runs have the same seed"),
        ([tiny(), tiny(memory_size=8, hidden=(3,))], [0], "must agree in memory_size, hidden"),
    ],
)
def test_batches_that_can_not_be_are_refused(settings: list, seeds: list[int], message: str):
    with pytest.raises(ValueError, match=message):
        Batch.product(settings, seeds)
