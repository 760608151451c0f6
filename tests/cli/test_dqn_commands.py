"""The commands with a learner of action values: train, evaluate, export."""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest

from asymrl import cli

TINY = [
    *("--memory-size", "8", "--hidden", "8", "--time-limit", "10", "--steps", "600", "--log-points", "20"),
    *("--prefill", "100", "--replay-steps", "300", "--seeds", "2"),
]


@pytest.mark.slow
def test_train_evaluate_and_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "runs"
    assert cli.main(["train", "heaven-hell-1", "--method", "adqn-vr", *TINY, "--out", os.fspath(folder)]) == 0
    capsys.readouterr()
    metrics = pl.read_parquet(folder / "metrics.parquet")
    assert metrics["run"].n_unique() == 2
    learned = metrics.filter(pl.col("timestep") >= 100)
    assert learned["policy_loss"].is_not_nan().all()
    assert learned["critic_loss"].is_not_nan().all()
    assert metrics.filter(pl.col("timestep") < 90)["policy_loss"].is_nan().all()
    assert cli.main(["evaluate", os.fspath(folder), "--episodes", "20", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [one["seed"] for one in report["runs"]] == [0, 1]
    assert all(1 <= one["length"]["mean"] <= 10 for one in report["runs"])
    assert cli.main(["export", os.fspath(folder), "-o", os.fspath(tmp_path / "policy.npz")]) == 0
    assert (tmp_path / "policy.npz").stat().st_size > 0


def test_a_replay_that_does_not_fit_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "runs"
    options = ["--method", "dqn", "--replay-steps", "2000000000", "--out", os.fspath(folder)]
    assert cli.main(["train", "cleaner", *options]) != 0
    said = capsys.readouterr().err
    assert "a run of cleaner dqn needs" in said
    assert "--replay-steps" in said
    assert not folder.exists()
