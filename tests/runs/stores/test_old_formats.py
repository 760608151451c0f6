"""Runs that version 0.1 has written: folders of runs are opened as they are, sweeps are converted.

`data/run` was stopped after a third of its steps, `data/run-complete.parquet` has the curves of the same runs from
start to end, and `data/sweep` is a finished sweep. All are of version 0.1.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import asymrl
from asymrl import cli
from asymrl.learners.state import METRICS
from asymrl.runs.earlier_results import convert_sweep
from asymrl.runs.files import RunError
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.runs.trained import load_trained
from tests.runs.engine.conftest import Recorder, tiny

DATA = Path(__file__).parent / "data"
SETTINGS = tiny(steps=6000, log_points=10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "run", tmp_path / "run"))


def test_an_old_folder_is_read(folder: Path):
    store = Store.open(folder)
    assert store.runs == (Run(SETTINGS, 0), Run(SETTINGS, 1))
    assert store.unfinished() == [0, 1]
    assert store.metrics()["seed"].to_list() == [0, 0, 0, 1, 1, 1]


def test_old_networks_are_loaded(folder: Path):
    (trained,) = load_trained(folder)
    assert trained.seeds == (0, 1)
    metrics = pl.read_parquet(folder / "metrics.parquet")
    for row, seed in enumerate(trained.seeds):
        curve = np.asarray(trained.states.curve[row, :3])
        np.testing.assert_array_equal(curve[:, METRICS.index("return")], metrics.filter(seed=seed)["return"])
        assert int(trained.states.updates[row]) >= curve[-1, METRICS.index("update")]
    policy = asymrl.load(folder).policy(seed=1)
    policy.reset()
    assert policy.act(0) in (0, 1, 2)


def test_old_runs_go_on_and_end_as_they_would_have(folder: Path):
    runs = asymrl.resume(folder, listener=Recorder())
    assert runs.table["status"].to_list() == ["complete", "complete"]
    before = pl.read_parquet(DATA / "run-complete.parquet")
    exact = ["seed", "timestep", "episode", "update", "return", "length"]
    assert runs.metrics.select(exact).rows() == before.select(exact).rows()
    np.testing.assert_allclose(runs.metrics["critic_loss"], before["critic_loss"], rtol=1e-3)
    # What was the weight of the entropy in the course of training then has its own name now.
    np.testing.assert_allclose(runs.metrics["negentropy_weight"], before["entropy_weight"], rtol=1e-6)
    assert runs.metrics["entropy_weight"].unique().to_list() == [SETTINGS.entropy_weight]


def test_an_old_sweep_becomes_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    before = {path: path.read_bytes() for path in (DATA / "sweep").rglob("*") if path.is_file()}
    assert cli.main(["convert", str(DATA / "sweep"), str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'new'}: 4 runs, with learning curves and without networks\n"
    store = Store.open(tmp_path / "new")
    wanted = {Run(tiny(steps=1000, log_points=5, actor_rate=rate), seed) for rate in (1e-3, 3e-4) for seed in (0, 1)}
    assert set(store.runs) == wanted
    assert store.unfinished() == []
    (file,) = (DATA / "sweep" / "cells").iterdir()
    with np.load(file) as arrays:
        expected, timesteps = np.moveaxis(arrays["curve"], 0, -1), arrays["timesteps"]
    for number, result in store.results().items():
        assert (result.status, result.timesteps) == ("complete", timesteps[number])
        assert result.curve is not None
        np.testing.assert_array_equal(result.curve, expected[number, : len(result.curve)])
        assert result.recent_return == pytest.approx(expected[number, len(result.curve) - 1, METRICS.index("return")])
    assert asymrl.load(tmp_path / "new").table["final_return"].null_count() == 0
    assert {path: path.read_bytes() for path in before} == before
    with pytest.raises(RunError, match="the networks of its runs were not kept"):
        load_trained(tmp_path / "new")


def test_what_is_no_old_sweep_is_named(tmp_path: Path):
    with pytest.raises(RunError, match="no finished runs here"):
        convert_sweep(tmp_path, tmp_path / "new")
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "some.npz").write_bytes(b"PK")
    with pytest.raises(RunError, match=r"some\.npz: damaged"):
        convert_sweep(tmp_path, tmp_path / "new")
    assert not (tmp_path / "new").exists()
