"""The training of one batch of a sweep, call by call, wherever it happens."""

from __future__ import annotations

import time
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Int

from asymrl.runs.arrays import key_kind, to_arrays
from asymrl.runs.batch import Batch
from asymrl.runs.progress import Clock, Snapshot
from asymrl.sweeps.compiled import Compiled
from asymrl.sweeps.in_flight import Saved
from asymrl.sweeps.lanes import Lanes, fewer_lanes
from asymrl.sweeps.probes import Probe, Series
from asymrl.sweeps.results import Results

FIRST_UPDATES = 4  # in the first call, before anything is known about the speed
CALL_SECONDS = 2.0  # how long a call of the compiled program should take
WORTH_SECONDS = 60.0  # what a narrower program must promise to save; compiling it takes about 20
HELPED = 0.8  # of the time of an update, at most, once the lanes are fewer; else they stay as they are


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
    """A batch under way on a device, in fewer lanes once that pays."""

    def __init__(self, task: Task, compiled: Compiled, call_seconds: float = CALL_SECONDS):
        self.task, self.compiled, self._call_seconds = task, compiled, call_seconds
        self._wanted = np.asarray([settings.steps for settings in task.batch.settings])
        self._lanes = Lanes(compiled, task.batch, task.saved)
        self._seconds = 0.0 if task.saved is None else task.saved.seconds
        self._clock, self._updates = Clock(), FIRST_UPDATES
        self._pace: float | None = None  # steps of a run per update, in the last call
        self._series = _series(task)
        self._wider: float | None = None  # seconds per update before the lanes became fewer, until that has shown
        self._narrows = True  # until it did not help

    @property
    def snapshot(self) -> Snapshot:
        return self._lanes.snapshot

    @property
    def steps_per_second(self) -> float | None:
        return self._clock.steps_per_second()

    @property
    def lanes(self) -> int:
        """Runs that the program has room for now."""
        return self._lanes.width

    def active(self) -> np.ndarray:
        """Which runs still train."""
        over = self.snapshot.solved | self.snapshot.failed
        return (self.snapshot.timesteps < self._wanted) & ~over

    def is_active(self) -> bool:
        return bool(self.active().any())

    def advance(self) -> None:
        """One call of the compiled program, and the size of the next one so that it takes about as long as wanted."""
        self._measure()
        begin, updates, before = time.monotonic(), self._updates_now(), self.snapshot
        if not self._clock.looks:
            self._clock.look(begin, int(before.timesteps.sum()))
        active = self.active()
        self._lanes.train(updates)
        took = time.monotonic() - begin
        self._seconds += took
        self._clock.look(begin + took, int(self.snapshot.timesteps.sum()))
        gained = self.snapshot.timesteps - before.timesteps
        self._pace = float(gained[active].mean()) / updates if active.any() else None
        factor = np.clip(self._call_seconds / max(took, 1e-6), 0.25, 16.0)
        self._updates = max(1, int(updates * factor))
        if not self.is_active():
            self._measure(last=True)
        elif len(self._clock.looks) > 2:  # the first call says little about the speed
            self._narrow(took, updates, gained)

    def _narrow(self, took: float, updates: int, gained: Int[np.ndarray, "run"]) -> None:
        """Goes on in fewer lanes, if the time that this should save is worth it, and if the last time it helped.

        The last call took so many seconds for so many updates, in which each run gained so many steps.
        """
        if self._wider is not None:
            self._narrows, self._wider = took / updates < HELPED * self._wider, None
        rows = np.flatnonzero(self.active())
        width = fewer_lanes(self.lanes, len(rows))
        left = self._wanted[rows] - self.snapshot.timesteps[rows]
        seconds_left = took * float(np.max(left / np.maximum(gained[rows], 1)))
        saved = seconds_left * (1 - width / self.lanes)
        if self._narrows and width < self.lanes and saved > WORTH_SECONDS:
            self._wider = took / updates
            self._lanes.narrow(width, rows)

    def _updates_now(self) -> int:
        """Not so many that the next measurement of a probe would be late."""
        if self._series is None or not self._pace:
            return self._updates
        slowest = int(self.snapshot.timesteps[self.active()].min())
        return min(self._updates, max(1, int((self._series.next_step - slowest) / self._pace)))

    def _measure(self, *, last: bool = False) -> None:
        if self._series is None:
            return
        slowest = self.snapshot.timesteps[self.active()].min() if self.is_active() else 0
        if last or slowest >= self._series.next_step:
            self._series.measure(self._lanes.runs(), self.snapshot.timesteps)

    def saved(self) -> Saved:
        """Everything that is needed to go on elsewhere."""
        runs = self._lanes.runs()
        arrays = to_arrays(runs, len(self.task.batch))
        return Saved(self.task.batch, arrays, key_kind(runs), self._seconds, self._probe_arrays())

    def results(self) -> Results:
        """What the batch has found. Ask once it is no longer active."""
        steps = int(self.snapshot.timesteps.sum())
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
        return Results.of(self.task.batch, self.snapshot, about, self._probe_arrays())

    def _probe_arrays(self) -> dict[str, np.ndarray]:
        return {} if self._series is None or not self._series.next_step else self._series.arrays()


def _series(task: Task) -> Series | None:
    """What the probe of a task has measured so far, if it has one."""
    if task.probe is None:
        return None
    before = {} if task.saved is None else task.saved.probe
    return Series(task.probe, before.get("probe_timesteps"), before.get("probe_values"))
