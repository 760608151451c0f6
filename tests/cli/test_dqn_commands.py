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
    assert report["actions"] == "greedy"
    assert all(1 <= one["length"]["mean"] <= 10 for one in report["runs"])
    assert cli.main(["export", os.fspath(folder), "-o", os.fspath(tmp_path / "policy.npz")]) == 0
    assert (tmp_path / "policy.npz").stat().st_size > 0


@pytest.mark.slow
def test_a_sweep_of_several_learners_ranks_them_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = os.fspath(tmp_path / "runs")
    tiny = ["steps=600", "memory_size=8", "hidden=8", "time_limit=10"]
    sweep = ["sweep", "--env", "tiger", "--seeds", "1", "--out", folder]
    assert cli.main([*sweep, "--methods", "a2c-asym-hs", "ppo-asym-hs", "--set", *tiny]) == 0
    own = ["prefill=100", "replay_steps=300"]
    assert cli.main([*sweep, "--methods", "adqn-vr", "--set", *tiny, *own]) == 0
    said = capsys.readouterr().out
    *_, ranking, commands = said.split("world  method")[-1].split("\n\n", 1)
    assert {line.split()[1] for line in ranking.splitlines()[1:]} == {"a2c-asym-hs", "ppo-asym-hs", "adqn-vr"}
    assert "--where method=" in commands
    assert "resume" not in commands  # the learning rate of ppo has fallen to zero


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


def test_a_run_that_would_only_fill_its_replay_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "runs"
    options = ["--method", "dqn", "--steps", "2000", "--replay-steps", "60000", "--out", os.fspath(folder)]
    assert cli.main(["train", "tiger", *options]) == 2
    assert "prefill is 50000 and steps is 2000" in capsys.readouterr().err
    assert not folder.exists()


def test_a_file_with_settings_of_another_learner_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file, folder = tmp_path / "settings.toml", tmp_path / "runs"
    options = ["--config", os.fspath(file), "--out", os.fspath(folder)]
    for text, method, message in (
        ("streams = 4", ["--method", "adqn"], "streams is a setting of ppo; adqn is trained by dqn"),
        ('method = "ppo"\nprefill = 4', [], "prefill is a setting of dqn; ppo is trained by ppo"),
    ):
        file.write_text(text)
        assert cli.main(["train", "tiger", *method, *options]) == 2
        assert message in capsys.readouterr().err
        assert not folder.exists()
