"""Experiment trackers that may follow a training: TensorBoard, and Weights & Biases."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from asymrl.learners.state import METRICS
from asymrl.runs.callback import Callback
from asymrl.runs.files import RunError
from asymrl.runs.runs import Run, differing, label

AXIS = "timestep"
VALUES = tuple(name for name in METRICS if name != AXIS)


class TensorBoard(Callback):
    """Writes event files into the store, one subfolder per run."""

    def __init__(self, folder: Path):
        self._package, self._folder = self.package(), folder / "tensorboard"
        self._writers: dict[int, Any] = {}

    @staticmethod
    def package() -> Any:
        """The package that writes. Raises RunError with the command that installs it."""
        return _optional("tensorboardX", "TensorBoard", "tensorboard")

    def begin(self, runs: Sequence[Run]) -> None:
        self._names = run_names(runs)

    def points(self, run: int, table: pl.DataFrame) -> None:
        if run not in self._writers:
            # A process that was killed may have written points after its last checkpoint.
            folder = self._folder / self._names[run]
            self._writers[run] = self._package.SummaryWriter(str(folder), purge_step=table[AXIS][0])
        for row in table.to_dicts():
            for name in VALUES:
                if row.get(name) is not None:
                    self._writers[run].add_scalar(name, row[name], row[AXIS])
        self._writers[run].flush()

    def end(self) -> None:
        for writer in self._writers.values():
            writer.close()


class WeightsAndBiases(Callback):
    """One run on Weights & Biases per run, in a group named after the folder. WANDB_MODE=offline keeps them local."""

    def __init__(self, folder: Path):
        self._wandb, self._folder = self.package(), folder
        self._runs: dict[int, Any] = {}

    @staticmethod
    def package() -> Any:
        """The package that reports. Raises RunError with the command that installs it."""
        return _optional("wandb", "Weights & Biases", "wandb")

    def begin(self, runs: Sequence[Run]) -> None:
        self._all, self._names = runs, run_names(runs)

    def points(self, run: int, table: pl.DataFrame) -> None:
        if run not in self._runs:
            self._runs[run] = self._start(run)
        for row in table.to_dicts():
            values = {name: row[name] for name in VALUES if row.get(name) is not None}
            self._runs[run].log(values, step=row[AXIS])

    def end(self) -> None:
        for run in self._runs.values():
            run.finish()

    def _start(self, run: int) -> Any:
        name = self._names[run]
        # The same id after a resume, so that the curve continues.
        identity = hashlib.sha256(f"{self._folder.resolve()}/{name}".encode()).hexdigest()[:16]
        return self._wandb.init(
            project="asymrl",
            group=self._folder.name,
            name=f"{self._folder.name}/{name}",
            id=identity,
            resume="allow",
            dir=str(self._folder),
            config={**asdict(self._all[run].settings), "seed": self._all[run].seed},
            reinit="create_new",
            settings=self._wandb.Settings(silent=True),
        )


def _optional(package: str, purpose: str, extra: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise RunError(f'{purpose} needs another package: pip install "asymrl[{extra}]"') from error


def run_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run that distinguishes it from the others and is a valid folder name."""
    names = differing(runs)
    return [re.sub(r"[^\w.=-]+", "-", label(run, names).replace(", ", "_")) for run in runs]
