"""Runs of another version of their environment, whose networks have other shapes, are refused in one line."""

from __future__ import annotations

import importlib
from pathlib import Path

import gymnasium
import pytest

from asymrl import cli
from asymrl.learning.programs import factory

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


def test_networks_of_another_shape_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "panels_of_before.py").write_text(PANEL)
    small = ["--seeds", "1", "--steps", "4", "--memory-size", "4", "--hidden", "4", "--no-report", "--quiet"]
    assert cli.main(["train", "panels_of_before:Panel", "--method", "a2c", *small, "--out", "runs"]) == 0
    now = gymnasium.spaces.MultiDiscrete([11, 11])
    monkeypatch.setattr(importlib.import_module("panels_of_before").Panel, "observation_space", now)
    for cached in vars(factory).values():
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()
    capsys.readouterr()
    for command in (["evaluate", "runs"], ["render", "runs"], ["export", "runs", "-o", "policy.npz"]):
        assert cli.main(command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "runs/checkpoint: does not fit these settings: array actor." in line
        assert line.endswith("trained with another version of asymrl or of their environment: open them with that")
    assert not (tmp_path / "policy.npz").exists()
