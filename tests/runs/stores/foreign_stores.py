"""A folder with a store that names code."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest

from asymrl.envs import user_code
from asymrl.learners.state import METRICS
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.runs.tables import RunResult
from asymrl.settings import A2CSettings
from asymrl.worlds import allowed_code

CODE = """
from pathlib import Path
from typing import Any
import gymnasium

Path(MARK).write_text("")


class Env(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, size: int = 2):
        pass

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {"state": 1}

    def step(self, action):
        return 0, 0.0, True, False, {"state": 1}
"""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process that knows nothing yet, in an empty folder."""
    monkeypatch.setattr(allowed_code, "_ALLOWED", set())
    monkeypatch.setattr(user_code, "_LOCATIONS", {})
    monkeypatch.setattr(user_code, "_FILES", {})
    monkeypatch.setattr(user_code, "_WANTED", set())
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def write_code(path: Path, mark: Path) -> None:
    """A file with an environment that leaves a mark when it is imported."""
    path.write_text(f"MARK = {str(mark)!r}\n{CODE}")


def store_of(world: str, **settings: object) -> Store:
    """A store with tables, as it could come from anywhere; no code runs to make it."""
    run = Run(dataclasses.replace(A2CSettings(world=world), time_limit=5, **settings), seed=0)
    store = Store.create(Path("runs"), [run])
    store.write_tables({0: RunResult(status="training", timesteps=10, curve=np.zeros((1, len(METRICS)), np.float32))})
    store.release()
    return store


def digest(folder: Path) -> dict[str, str]:
    """Everything in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
