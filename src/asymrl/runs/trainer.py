"""The loop on the host around the compiled one: looks at the runs every second or two, and keeps what they reached."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from jaxtyping import Int

from asymrl.learning.settings import Settings
from asymrl.learning.sharding import spread
from asymrl.learning.state import RunState
from asymrl.runs.batch import Batch
from asymrl.runs.cache import use_compilation_cache
from asymrl.runs.files import StorageError
from asymrl.runs.folder import RunFolder
from asymrl.runs.listeners import Listener
from asymrl.runs.metrics import metrics_table
from asymrl.runs.options import SETTINGS
from asymrl.runs.progress import Clock, Progress, Snapshot
from asymrl.runs.signals import StopRequests

FIRST_UPDATES = 4  # in the first call, whose duration says little: it compiles
CHECKPOINTS_SHARE = 0.05  # of the time may be spent on writing checkpoints


@dataclass(frozen=True)
class Pace:
    """How often the loop looks up. Results do not depend on it."""

    refresh_seconds: float = 1.5
    """Seconds between two looks at the runs."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints."""

    def __post_init__(self) -> None:
        if not self.refresh_seconds > 0:
            raise ValueError(f"refresh_seconds is {self.refresh_seconds}; it must be a positive number")
        if not self.checkpoint_seconds >= 0:
            raise ValueError(f"checkpoint_seconds is {self.checkpoint_seconds}; it can't be negative")


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    progress: Progress
    runs: RunState
    interrupted: signal.Signals | None
    """The signal that stopped it before its end, if one did."""

    @property
    def failed(self) -> list[int]:
        """Which runs of the batch stopped because something was not finite."""
        return np.flatnonzero(self.progress.snapshot.failed).tolist()


def train_folder(folder: RunFolder, listener: Listener, pace: Pace = Pace()) -> Outcome:  # noqa: B008  it is frozen
    """Trains the runs of a folder that was taken, from its last checkpoint or from the start, to their end.

    SIGINT and SIGTERM end the training early, with a checkpoint.

    Raises:
        RunError: if the folder's checkpoints can not be used.
        StorageError: if something could not be written; what was written before is still good.
    """
    use_compilation_cache()
    listener.begin(folder.batch)
    try:
        with StopRequests(lambda which: listener.say(_stopping(which))) as stop:
            return _Training(folder, listener, pace).until(stop)
    except StorageError as error:
        raise StorageError(
            f"{error}. The training stopped; what was written before is still good. Put that right, then go on with "
            f"`{resume_command(folder.path)}`"
        ) from error
    finally:
        listener.end()


class _Training:
    """A training under way."""

    def __init__(self, folder: RunFolder, listener: Listener, pace: Pace):
        self.folder, self.listener, self.pace = folder, listener, pace
        self.batch: Batch = folder.batch
        program, runs = self.batch.program(), folder.load(listener.say)
        runs = program.start(self.batch.seeds) if runs is None else runs
        self.program, self.runs, self.numbers = spread(program, runs, self.batch.numbers())
        self.snapshot = Snapshot.of(self.runs, len(self.batch))
        self.updates_per_call = FIRST_UPDATES
        self.clock = Clock()
        self.points_told = self.points()
        self.points_written: np.ndarray | None = None  # what a process before this one wrote may be ahead of us
        self.failures_told = np.zeros(len(self.batch), bool)
        self.checkpoint_at, self.checkpoint_took = time.monotonic(), 0.0

    def until(self, stop: StopRequests) -> Outcome:
        """Goes on until the runs are complete, or the user wants to stop."""
        while self.is_active() and stop.received is None:
            self.advance()
            self.keep()
            self.listener.progress(self.progress())
        # The metrics first: a checkpoint of complete runs says that nothing remains to be done.
        self.keep()
        self.checkpoint()
        return Outcome(self.progress(), self.runs, stop.received if self.is_active() else None)

    def is_active(self) -> bool:
        wanted = np.asarray([settings.steps for settings in self.batch.settings])
        over = self.snapshot.solved | self.snapshot.failed
        return bool(np.any((self.snapshot.timesteps < wanted) & ~over))

    def progress(self) -> Progress:
        return Progress(self.batch, self.snapshot, self.clock.steps_per_second())

    def advance(self) -> None:
        """One call of the compiled program, and the size of the next so that it takes about as long as wanted."""
        begin = time.monotonic()
        compiled = bool(self.clock.looks)
        self.runs = self.program.train(self.runs, self.numbers, self.updates_per_call)
        self.snapshot = Snapshot.of(self.runs, len(self.batch))
        now = time.monotonic()
        self.clock.look(now, int(self.snapshot.timesteps.sum()))
        if compiled:
            factor = np.clip(self.pace.refresh_seconds / max(now - begin, 1e-6), 0.25, 16.0)
            self.updates_per_call = max(1, int(self.updates_per_call * factor))

    def keep(self) -> None:
        """Writes what is new: points of the curves, and a checkpoint when it is time."""
        points = self.points()
        if self.points_written is None or np.any(points != self.points_written):
            table = metrics_table(self.batch, self.snapshot.curve, self.snapshot.logged)
            self.folder.write_metrics(table)
            self.points_written = points
            self.tell_points(table, points)
        self.tell_failures()
        pause = max(self.pace.checkpoint_seconds, self.checkpoint_took / CHECKPOINTS_SHARE)
        if time.monotonic() - self.checkpoint_at >= pause:
            self.checkpoint()

    def points(self) -> Int[np.ndarray, "run"]:
        """How many points the curve of each run has."""
        return np.minimum(self.snapshot.logged, self.snapshot.curve.shape[1])

    def checkpoint(self) -> None:
        begin = time.monotonic()
        self.folder.save(self.runs)
        self.checkpoint_at = time.monotonic()
        self.checkpoint_took = self.checkpoint_at - begin

    def tell_points(self, table: pl.DataFrame, points: Int[np.ndarray, "run"]) -> None:
        """Passes on the rows that the listener has not seen."""
        ends = np.cumsum(points)
        new = np.maximum(points - self.points_told, 0)
        for run in np.flatnonzero(new):
            self.listener.points(int(run), table.slice(ends[run] - new[run], new[run]))
        self.points_told = points

    def tell_failures(self) -> None:
        for run in np.flatnonzero(self.snapshot.failed & ~self.failures_told):
            self.listener.say(failure(self.batch, self.snapshot, int(run)))
        self.failures_told = self.snapshot.failed.copy()


def failure(batch: Batch, snapshot: Snapshot, run: int) -> str:
    """What is known about a run that failed."""
    settings, usual = batch.settings[run], Settings()
    shown = ("actor_rate", "critic_rate", "entropy_weight")
    odd = [n for n in SETTINGS if n in shown or getattr(settings, n) != getattr(usual, n)]
    described = ", ".join(f"{name}={getattr(settings, name)!r}" for name in odd)
    return (
        f"seed {batch.seeds[run]} stopped at update {snapshot.updates[run]} (step {snapshot.timesteps[run]}): a loss, "
        f"a gradient or a parameter was not finite, with {described}. A lower learning rate or clip_norm may help"
    )


def resume_command(path: Path) -> str:
    return f"asymrl resume {path}"


def _stopping(which: signal.Signals) -> str:
    return f"{which.name}: will stop with a checkpoint in a moment; once more to stop without"
