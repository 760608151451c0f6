"""Stores: who may write them, what they remember, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asymrl.runs.files import RunError
from asymrl.runs.runs import Run
from asymrl.runs.store import Store, free_folder
from asymrl.runs.tables import COMPLETE, FAILED, TRAINING, RunResult
from tests.runs.engine.conftest import random_saved, tiny
from tests.runs.engine.stores import made_result

Runs = tuple[Run, ...]


@pytest.fixture
def folder(tmp_path: Path, runs: Runs) -> Path:
    path = tmp_path / "some" / "runs"
    Store.create(path, runs).release()
    return path


def test_a_store_remembers_what_is_trained_in_it(folder: Path, runs: Runs):
    store = Store.open(folder)
    assert store.runs == runs
    assert len(store) == 2
    assert store.keeps_networks
    assert (store.results(), store.unfinished()) == ({}, [0, 1])


def test_runs_that_differ_are_remembered_too(tmp_path: Path):
    """In numbers and in what is compiled: a store holds runs of any shapes."""
    given = ({"actor_rate": 1e-3, "clip_norm": None}, {"actor_rate": 1e-4, "clip_norm": 2.0, "memory": "lstm"})
    runs = tuple(Run(tiny(**changes), seed) for changes in given for seed in (0, 1))
    Store.create(tmp_path / "runs", runs, keeps_networks=False, probes={"tiger": {"n": 4}}).release()
    store = Store.open(tmp_path / "runs")
    assert (store.runs, store.keeps_networks, store.probes) == (runs, False, {"tiger": {"n": 4}})
    written = json.loads((tmp_path / "runs" / "settings.json").read_text())
    assert written["runs"][2] == {"seed": 0, "actor_rate": 1e-4, "clip_norm": 2.0, "memory": "lstm"}
    assert "actor_rate" not in written["settings"]
    assert written["settings"]["memory_size"] == 4


def test_a_folder_with_runs_is_not_used_again(folder: Path):
    before = (folder / "settings.json").read_bytes()
    with pytest.raises(RunError, match=f"already holds runs. Go on with them by `asymrl resume {folder}`"):
        Store.create(folder, [Run(tiny(steps=99), 0)])
    assert (folder / "settings.json").read_bytes() == before


def test_a_folder_with_other_things_is_welcome(tmp_path: Path, runs: Runs):
    (tmp_path / "notes.txt").write_text("mine")
    Store.create(tmp_path, runs).release()
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_store_in_use_is_refused_until_it_is_released(folder: Path):
    taken = Store.take(folder)
    for again in (Store.take, lambda path: Store.take_or_create(path, [Run(tiny(), 8)])):
        with pytest.raises(RunError, match=rf"in use by process {os.getpid()}; wait for it to end"):
            again(folder)
    assert Store.open(folder).runs == taken.runs  # reading is no use
    taken.release()
    Store.take(folder).release()


HOLD = """
import sys, time
from pathlib import Path
from asymrl.runs.files import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_store_is_free_once_the_process_that_had_it_is_dead(folder: Path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder.stdout as out:
        assert out.readline() == "held\n"
        with pytest.raises(RunError, match=f"in use by process {holder.pid}"):
            Store.take(folder)
        holder.kill()
        holder.wait()
    Store.take(folder).release()


def test_what_a_killed_process_left_half_written_is_cleared_away(folder: Path):
    rests = [folder / "metrics.parquet.unfinished", folder / "checkpoint" / "000001.safetensors.unfinished"]
    for rest in rests:
        rest.write_bytes(b"half")
    Store.take(folder).release()
    assert not any(rest.exists() for rest in rests)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "settings.json: damaged"),
        ("[]", "settings.json: damaged"),
        ('{"format": 7}', "a store of format 7, but this version of asymrl reads format 2"),
        ('{"format": 2}', "does not describe runs"),
        ('{"format": 2, "settings": {"worlds": "tiger"}, "runs": [{"seed": 0}]}', "did you mean 'world'?"),
        ('{"format": 2, "settings": {"steps": "many"}, "runs": [{"seed": 0}]}', "steps is 'many', expected a whole"),
        ('{"format": 2, "settings": {"steps": -1}, "runs": [{"seed": 0}]}', "steps is -1; it must be a positive"),
        ('{"format": 2, "settings": {}, "runs": [{"seed": "0"}]}', "seeds must be whole numbers"),
        ('{"format": 2, "settings": {}, "runs": []}', "choose at least one seed"),
    ],
)
def test_settings_that_make_no_sense_are_refused(folder: Path, text: str, message: str):
    (folder / "settings.json").write_text(text)
    with pytest.raises(RunError, match=message):
        Store.take(folder)


def test_a_folder_without_runs_is_named(tmp_path: Path):
    with pytest.raises(RunError, match=r"no runs here: there is no settings.json in it"):
        Store.open(tmp_path)
    with pytest.raises(RunError, match="no runs here: there is no such folder"):
        Store.open(tmp_path / "nowhere")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(RunError, match="no runs here: it is a file, not a folder"):
        Store.open(tmp_path / "notes.txt")


def test_places_that_cannot_be_folders_are_named(tmp_path: Path, runs: Runs):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="file: cannot be made a folder"):
        Store.create(tmp_path / "file", runs)
    with pytest.raises(RunError, match="/proc/runs: cannot be made a folder"):
        Store.create(Path("/proc/runs"), runs)


def test_free_names_are_found(tmp_path: Path):
    first = free_folder("tiger:episodic=true", "a2c", tmp_path)
    assert first.name == "tiger-episodic-true-a2c"
    first.mkdir()
    assert free_folder("tiger:episodic=true", "a2c", tmp_path).name == "tiger-episodic-true-a2c-2"


def test_longer_runs_keep_the_distance_of_their_points(folder: Path):
    taken = Store.take(folder)
    taken.extend(16_000)
    assert Store.open(folder).runs[0].settings == tiny(steps=16_000, log_points=40)
    for steps, message in (
        (15_999, "it can only be made longer"),
        (16_100, "a point every 400 steps, so choose a multiple of that, such as 16000 or 16400"),
    ):
        with pytest.raises(RunError, match=message):
            taken.extend(steps)
    taken.release()
    assert Store.open(folder).runs[0].settings.steps == 16_000


def test_runs_whose_networks_are_gone_are_not_made_longer(tmp_path: Path, runs: Runs):
    store = Store.create(tmp_path, runs, keeps_networks=False)
    store.add([runs[0].extended(16_000)])  # it has not begun
    store.write_tables({0: made_result(store.runs[0])})
    for longer in (lambda: store.add([runs[0].extended(32_000)]), lambda: store.extend(32_000)):
        with pytest.raises(RunError, match="the networks of its runs were not kept"):
            longer()
    assert Store.open(tmp_path).runs[0].settings.steps == 16_000
    store.release()


def test_of_runs_of_several_lengths_the_shorter_are_made_longer(tmp_path: Path, runs: Runs):
    store = Store.create(tmp_path, [runs[0].extended(16_000), runs[1]])
    store.extend(14_000)
    assert [run.settings.steps for run in Store.open(tmp_path).runs] == [16_000, 14_000]
    store.extend(20_000)
    assert [run.settings.steps for run in Store.open(tmp_path).runs] == [20_000, 20_000]
    with pytest.raises(RunError, match="it can only be made longer"):
        store.extend(12_000)
    store.release()


def test_results_are_read_as_they_were_written(folder: Path, runs: Runs):
    store = Store.take(folder)
    first = made_result(runs[0])._replace(
        probe_timesteps=np.asarray([0, 10], np.int32), probe_values=np.asarray([[1, 2], [3, 4]], np.float32)
    )
    second = RunResult(TRAINING, 40, 3, 2, seconds=1.5, device="cpu", curve=made_result(runs[1]).curve)
    store.write_tables({0: first, 1: second}, ("left", "right"))
    store.release()
    read = Store.open(folder)
    assert read.unfinished() == [1]
    for number, expected in ((0, first), (1, second)):
        result = read.results()[number]
        for name in ("status", "timesteps", "episodes", "updates", "failure", "seconds", "device"):
            assert getattr(result, name) == getattr(expected, name), name
        np.testing.assert_array_equal(result.recent_return, expected.recent_return)
        np.testing.assert_array_equal(result.curve, expected.curve)
    np.testing.assert_array_equal(read.results()[0].probe_timesteps, [0, 10])
    np.testing.assert_array_equal(read.results()[0].probe_values, [[1, 2], [3, 4]])
    assert read.results()[1].probe_values is None


def test_only_what_is_missing_is_left_to_do(folder: Path, runs: Runs):
    """A sweep that is given again, with more seeds and more steps, knows what it has."""
    store = Store.take(folder)
    store.write_tables({0: made_result(runs[0]), 1: made_result(runs[1])._replace(status=FAILED, failure="why")})
    store.release()
    again = Store.take_or_create(folder, [*runs, Run(tiny(), 7)])
    assert again.runs == (*runs, Run(tiny(), 7))
    assert again.unfinished() == [2]
    again.add([Run(tiny(), 3)])  # there already
    assert len(again) == 3
    again.add([run.extended(16_000) for run in runs])
    again.release()
    # A run that failed stays so, however long; one that was complete goes on.
    assert Store.open(folder).unfinished() == [0, 2]
    assert Store.open(folder).results()[0].status == TRAINING
    assert [run.settings.steps for run in Store.open(folder).runs] == [16_000, 16_000, 12_000]
    # Without a longer one in the table, runs are as they were.
    assert made_result(runs[0]).status == COMPLETE


def test_networks_are_kept_unless_they_are_not_wanted(tmp_path: Path, runs: Runs):
    for keeps_networks, left in ((True, {3, 5}), (False, {5})):
        store = Store.create(tmp_path / str(keeps_networks), runs, keeps_networks=keeps_networks)
        for seed in (1, 2, 3):
            store.save(random_saved(runs[:1], seed), "core 0")
        store.write_tables({0: made_result(runs[0])})
        for seed in (4, 5, 6):
            store.save(random_saved(runs[1:], seed), "core 0")
        held = {run.seed for _, saved in store.saved([0, 1]) for run in saved.runs}
        store.release()
        assert held == left


def test_damaged_tables_are_named_with_the_remedy(folder: Path, runs: Runs):
    store = Store.take(folder)
    with pytest.raises(RunError, match=r"metrics.parquet: not there yet; have the runs begun\?"):
        store.metrics()
    store.write_tables({0: made_result(runs[0])})
    store.release()
    (folder / "runs.parquet").write_bytes(b"PAR1")
    with pytest.raises(RunError, match=f"runs.parquet: damaged .*`asymrl resume {folder}` writes it anew"):
        Store.open(folder).results()
