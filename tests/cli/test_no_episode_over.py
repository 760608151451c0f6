"""A training that ends before its first episode does: no command says that the return was 0."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from asymrl import cli

ENDLESS = """
import gymnasium, numpy as np

class Endless(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {"state": np.zeros(1, np.float32)}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, {"state": np.zeros(1, np.float32)}
"""
SMALL = [
    *("memory_size=4", "hidden=4", "streams=2", "rollout=4", "epochs=1", "minibatches=1", "time_limit=1000"),
    "log_points=4",
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("worlds") / "endless.py"
    file.write_text(ENDLESS)
    return f"{file}:Endless"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.main(list(arguments))
    out, err = capsys.readouterr()
    return status, out, err


def test_every_command_says_that_no_episode_was_over(tmp_path: Path, world: str, capsys: pytest.CaptureFixture[str]):
    runs = str(tmp_path / "runs")
    options = [part for setting in SMALL for part in f"--{setting.replace('_', '-')}".split("=")]
    command = ["train", world, "--method", "ppo-asym-hs", "--seeds", "1", "--steps", "32", "--out", runs]
    status, out, err = run(capsys, *command, *options)
    assert (status, err) == (0, "")
    assert "no episode was over" in out
    assert "return 0" not in out
    for name, columns in (("metrics", ["return", "length"]), ("runs", ["final_return", "recent_return"])):
        table = pl.read_parquet(tmp_path / "runs" / f"{name}.parquet")
        assert len(table)
        assert table.select(pl.col(columns).is_null().all()).row(0) == (True, True)

    status, out, err = run(capsys, "report", runs, "--episodes", "0", "-o", str(tmp_path / "page.html"))
    assert (status, err) == (0, "")
    status, out, err = run(capsys, "export", runs, "-o", str(tmp_path / "policy.npz"))
    assert (status, err) == (0, "")
    assert "no episode was over" in out


@pytest.mark.slow
def test_methods_without_an_episode_are_not_compared(tmp_path: Path, world: str, capsys: pytest.CaptureFixture[str]):
    status, _, err = run(
        capsys, "compare", world, "--methods", "ppo", "ppo-asym-hs", "--seeds", "2", "--steps", "32",
        "--out", str(tmp_path / "runs"), "--set", *SMALL,
    )  # fmt: skip
    assert status == 2
    (line,) = err.splitlines()
    assert "no episode was over in any run" in line
