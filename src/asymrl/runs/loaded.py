"""Trained runs, read back from their folder to be used."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from asymrl.learning.settings import Settings
from asymrl.learning.state import RunState, training_world
from asymrl.runs.batch import Batch
from asymrl.runs.files import RunError
from asymrl.runs.folder import RunFolder
from asymrl.worlds.world import World


@dataclass(frozen=True)
class LoadedRun:
    """The runs of a folder as their last checkpoint has them."""

    batch: Batch
    runs: RunState
    """Everything in the runs; every array has a leading axis `run`."""
    env: World
    """The world that they were trained in, with their time limit."""

    @property
    def settings(self) -> tuple[Settings, ...]:
        """Those of each run; all have one shape."""
        return self.batch.settings

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.batch.seeds


def load(folder: str | os.PathLike[str]) -> LoadedRun:
    """The runs that `asymrl train` left in this folder, finished or not.

    Raises:
        RunError: if there is no run, no checkpoint yet, or none that is sound.
    """
    opened = RunFolder.open(Path(folder))
    runs = opened.load()
    if runs is None:
        raise RunError(f"{folder}: no checkpoint yet; begin with `asymrl resume {folder}`")
    return LoadedRun(opened.batch, runs, training_world(opened.batch.first))
