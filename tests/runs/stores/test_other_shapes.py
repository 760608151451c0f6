"""Runs of another version of their environment, whose networks have other shapes, are refused in one line."""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path

import gymnasium
import pytest

from asymrl import cli
from asymrl.learners import program
from asymrl.runs.store import Store

PANEL = """
import gymnasium
import numpy as np


class Panel(gymnasium.Env):
    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.MultiDiscrete([40, 40])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, int), {"state": np.zeros(1)}

    def step(self, action):
        return np.zeros(2, int), 1.0, True, False, {"state": np.zeros(1)}
"""

SWEEP = ["sweep", "--env", "panels_of_before:Panel", "--methods", "a2c", "--seeds", "1", "--no-report", "--quiet"]


@pytest.fixture
def other_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs in `runs` and `swept`, in an environment that shows less by now."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "panels_of_before.py").write_text(PANEL)
    forget_programs()
    small = ["--seeds", "1", "--steps", "4", "--memory-size", "4", "--hidden", "4", "--no-report", "--quiet"]
    assert cli.main(["train", "panels_of_before:Panel", "--method", "a2c", *small, "--out", "runs"]) == 0
    assert cli.main([*SWEEP, "--set", "steps=20", "memory_size=4", "--out", "swept"]) == 0
    now = gymnasium.spaces.MultiDiscrete([11, 11])
    monkeypatch.setattr(importlib.import_module("panels_of_before").Panel, "observation_space", now)
    forget_programs()
    capsys.readouterr()


def forget_programs() -> None:
    for cached in vars(program).values():
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()


def checksums(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.usefixtures("other_shapes")
@pytest.mark.parametrize(
    "command",
    [
        ["resume", "runs", "--steps", "40"],
        ["resume", "swept", "--steps", "40"],
        [*SWEEP, "--set", "steps=40", "memory_size=4", "--out", "swept"],
    ],
    ids=" ".join,
)
def test_what_cannot_go_on_stays_as_it_was(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    before = checksums(tmp_path)
    assert cli.main(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "checkpoint: the saved state of seed 0 does not fit its settings: array actor." in line
    assert checksums(tmp_path) == before


@pytest.mark.usefixtures("other_shapes")
def test_networks_of_another_shape_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for command in (["evaluate", "runs"], ["render", "runs"], ["export", "runs", "-o", "policy.npz"]):
        assert cli.main(command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "runs/checkpoint: does not fit these settings: array actor." in line
        assert line.endswith("trained with another version of asymrl or of their environment: open them with that")
    assert not (tmp_path / "policy.npz").exists()


def test_a_run_with_fewer_steps_than_points_can_be_made_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "panel.py").write_text(PANEL)
    small = ["--seeds", "1", "--memory-size", "4", "--hidden", "4", "--no-report", "--quiet"]
    assert cli.main(["train", "panel.py:Panel", "--method", "a2c", *small, "--steps", "20", "--out", "runs"]) == 0
    assert cli.main(["resume", "runs", "--steps", "40", "--no-report", "--quiet"]) == 0
    assert Store.open(Path("runs")).results()[0].timesteps >= 40
