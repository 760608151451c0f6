"""The training of one batch of a sweep, call by call, wherever it happens."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from asymrl.learning.run import Run
from asymrl.runs.arrays import from_arrays, key_kind, to_arrays
from asymrl.runs.batch import Batch
from asymrl.runs.progress import Clock, Snapshot
from asymrl.sweeps.compiled import Compiled
from asymrl.sweeps.in_flight import Saved
from asymrl.sweeps.probes import Probe, Series
from asymrl.sweeps.results import Results

FIRST_UPDATES = 4  # in the first call, before anything is known about the speed
CALL_SECONDS = 2.0  # how long a call of the compiled program should take


@dataclass(frozen=True)
class Task:
    """A batch to train, from its beginning or from where it was."""

    batch: Batch
    width: int
    """Runs that the program is compiled for, at least those of the batch; batches of one width share a program."""
    saved: Saved | None = None
    probe: Probe | None = None

    @property
    def steps_left(self) -> int:
        done = 0 if self.saved is None else int(self.saved.arrays["timesteps"].sum())
        return max(self.batch.total_steps - done, 0)


class BatchTraining:
    """A batch under way on a device. Runs that fill it up to the compiled width are complete from the start."""

    def __init__(self, task: Task, compiled: Compiled, call_seconds: float = CALL_SECONDS):
        self.task, self.compiled, self._call_seconds = task, compiled, call_seconds
        batch, missing = task.batch, compiled.count - len(task.batch)
        rows = np.concatenate([np.arange(len(batch)), np.zeros(missing, int)])
        self._wanted = np.asarray([settings.steps for settings in batch.settings])
        self._numbers = self._filled_numbers(rows)
        self._runs = self._first_runs(rows)
        self._snapshot = Snapshot.of(self._runs, len(batch))
        self._seconds = 0.0 if task.saved is None else task.saved.seconds
        self._clock, self._updates = Clock(), FIRST_UPDATES
        self._pace: float | None = None  # steps of a run per update, in the last call
        self._series = _series(task)

    def _filled_numbers(self, rows: np.ndarray) -> Any:
        numbers = self.compiled.numbers([self.task.batch.settings[row] for row in rows])
        real = np.arange(len(rows)) < len(self.task.batch)
        return self.compiled.place(numbers._replace(steps=jax.numpy.where(real, numbers.steps, 0)))

    def _first_runs(self, rows: np.ndarray) -> Run:
        saved, batch = self.task.saved, self.task.batch
        if saved is None:
            return self.compiled.start(np.asarray(batch.seeds)[rows])
        runs = from_arrays(batch, saved.arrays, saved.key_kind)
        arrays, static = eqx.partition(runs, eqx.is_array)
        return self.compiled.place(eqx.combine(jax.tree.map(lambda leaf: leaf[rows], arrays), static))

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    @property
    def steps_per_second(self) -> float | None:
        return self._clock.steps_per_second()

    def active(self) -> np.ndarray:
        """Which runs still train."""
        over = self._snapshot.solved | self._snapshot.failed
        return (self._snapshot.timesteps < self._wanted) & ~over

    def is_active(self) -> bool:
        return bool(self.active().any())

    def advance(self) -> None:
        """One call of the compiled program, and the size of the next one so that it takes about as long as wanted."""
        self._measure()
        begin, updates, before = time.monotonic(), self._updates_now(), self._snapshot
        if not self._clock.looks:
            self._clock.look(begin, int(before.timesteps.sum()))
        active = self.active()
        self._runs = self.compiled.train(self._runs, self._numbers, updates)
        self._snapshot = Snapshot.of(self._runs, len(self.task.batch))
        took = time.monotonic() - begin
        self._seconds += took
        self._clock.look(begin + took, int(self._snapshot.timesteps.sum()))
        gained = (self._snapshot.timesteps - before.timesteps)[active]
        self._pace = float(gained.mean()) / updates if gained.size else None
        factor = np.clip(self._call_seconds / max(took, 1e-6), 0.25, 16.0)
        self._updates = max(1, int(updates * factor))
        if not self.is_active():
            self._measure(last=True)

    def _updates_now(self) -> int:
        """Not so many that the next measurement of a probe would be late."""
        if self._series is None or not self._pace:
            return self._updates
        slowest = int(self._snapshot.timesteps[self.active()].min())
        return min(self._updates, max(1, int((self._series.next_step - slowest) / self._pace)))

    def _measure(self, *, last: bool = False) -> None:
        if self._series is None:
            return
        slowest = self._snapshot.timesteps[self.active()].min() if self.is_active() else 0
        if last or slowest >= self._series.next_step:
            self._series.measure(self._runs, self._snapshot.timesteps)

    def saved(self) -> Saved:
        """Everything that is needed to go on elsewhere."""
        arrays = to_arrays(self._runs, len(self.task.batch))
        return Saved(self.task.batch, arrays, key_kind(self._runs), self._seconds, self._probe_arrays())

    def results(self) -> Results:
        """What the batch has found. Ask once it is no longer active."""
        steps = int(self._snapshot.timesteps.sum())
        about = {
            "device": self.compiled.device.device_kind,
            "backend": self.compiled.device.platform,
            "jax": jax.__version__,
            "width": self.compiled.count,
            "seconds": round(self._seconds, 3),
            "steps": steps,
            "steps_per_second": round(steps / self._seconds, 1) if self._seconds else None,
            **({} if self.task.probe is None else {"probe_columns": list(self.task.probe.columns)}),
        }
        return Results.of(self.task.batch, self._snapshot, about, self._probe_arrays())

    def _probe_arrays(self) -> dict[str, np.ndarray]:
        return {} if self._series is None or not self._series.next_step else self._series.arrays()


def _series(task: Task) -> Series | None:
    """What the probe of a task has measured so far, if it has one."""
    if task.probe is None:
        return None
    before = {} if task.saved is None else task.saved.probe
    return Series(task.probe, before.get("probe_timesteps"), before.get("probe_values"))
