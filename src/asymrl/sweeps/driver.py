"""Runs a sweep: finds out what is missing, lets an engine train it, and alone writes what comes back."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asymrl.learning.state import training_world
from asymrl.runs.signals import StopRequests
from asymrl.sweeps.cells import Cell, batch_of, cells_of
from asymrl.sweeps.display import Flight, Status, SweepDisplay
from asymrl.sweeps.engine import Advanced, Engine, Event, Failed, Finished, Halved, Kept, Noted
from asymrl.sweeps.ledger import SweepFolder, label
from asymrl.sweeps.planner import SizeOf, plan
from asymrl.sweeps.probes import Probe
from asymrl.sweeps.sessions import Session, record
from asymrl.sweeps.training import Task


@dataclass(frozen=True)
class SweepOutcome:
    """How a sweep ended, for now."""

    cells: int
    done: int
    """Cells that are finished, also by earlier sweeps into the same folder."""
    failures: Mapping[str, str]
    """Why some cells could not be run, or stopped because something was not finite."""
    interrupted: signal.Signals | None
    out_of_time: bool
    seconds: float
    steps: int
    """Trained by this sweep."""

    @property
    def complete(self) -> bool:
        return self.done == self.cells


def run_sweep(
    path: Path,
    cells: Sequence[Cell],
    engine: Engine,
    size_of: SizeOf,
    *,
    display: SweepDisplay,
    minutes: float | None = None,
    probes: Mapping[str, Probe] | None = None,
    devices: int = 1,
) -> SweepOutcome:
    """Trains those of the cells that are not finished in a folder, and keeps them there.

    Args:
        path: the folder.
        cells: of the sweep.
        engine: trains them.
        size_of: how many cells of a group may be one batch.
        display: shows how it goes.
        minutes: after which the sweep stops with a checkpoint. None: not before its end.
        probes: measurements during training, by the name of the world.
        devices: that share large groups of cells.

    Raises:
        RunError: if the folder is not usable.
        StorageError: if something could not be written; what was written before is still good.
    """
    begin = time.monotonic()
    folder = SweepFolder.take(path)
    try:
        return _Driver(folder, cells, display, begin, minutes).run(engine, size_of, probes or {}, devices)
    finally:
        display.end()
        folder.release()


class _Driver:
    def __init__(
        self, folder: SweepFolder, cells: Sequence[Cell], display: SweepDisplay, begin: float, minutes: float | None
    ):
        self.folder, self.cells, self.display = folder, cells, display
        self.begin, self.end_at = begin, None if minutes is None else begin + 60 * minutes
        self.finished = folder.finished()
        done = [cell for cell in cells if cell in self.finished]
        total = sum(cell.settings.steps for cell in cells)
        self.status = Status(len(cells), len(done), total, sum(cell.settings.steps for cell in done))
        self.done_before = len(done)
        self.broken: dict[str, str] = {}
        self.trained = 0

    def run(self, engine: Engine, size_of: SizeOf, probes: Mapping[str, Probe], devices: int) -> SweepOutcome:
        missing = self._possible([cell for cell in self.cells if cell not in self.finished])
        self.display.begin(f"{self.folder.path}: {self.status.cells} cells, {self.status.cells_done} done")
        with StopRequests(lambda which: self.display.say(f"{which.name}: will stop in a moment")) as stop:
            saved = list(self.folder.saved(missing, self.finished, self.display.say))
            in_flight = {cell for each in saved for cell in cells_of(each.batch)}
            rest = [cell for cell in missing if cell not in in_flight]

            def ended() -> bool:
                return stop.received is not None or self._is_out_of_time()

            tasks = plan(rest, saved, size_of, probes=probes, devices=devices, ended=ended)
            before = sum(task.batch.total_steps - task.steps_left for task in tasks)
            if tasks:
                engine.run(tasks, self._report, ended)
            self.display.show(self.status, now=True)
        left = self.status.cells - self.status.cells_done - self.status.failed
        seconds = time.monotonic() - self.begin
        trained = max(self.trained + sum(flight.steps for flight in self.status.flights.values()) - before, 0)
        if tasks:
            record(self.folder.path, Session.now(seconds, trained, self.status.cells_done - self.done_before, left))
        return SweepOutcome(
            cells=self.status.cells,
            done=self.status.cells_done,
            failures=self.broken,
            interrupted=stop.received,
            out_of_time=bool(left) and stop.received is None,
            seconds=seconds,
            steps=trained,
        )

    def _is_out_of_time(self) -> bool:
        return self.end_at is not None and time.monotonic() >= self.end_at

    def _possible(self, cells: list[Cell]) -> list[Cell]:
        """The cells whose worlds and signals exist; the others are recorded as failed."""
        reasons: dict[tuple[str, str, int], str | None] = {}
        possible = []
        for cell in cells:
            key = (cell.settings.world, cell.settings.critic_sees, cell.settings.time_limit)
            if key not in reasons:
                try:
                    training_world(cell.settings)
                    reasons[key] = None
                except ValueError as error:
                    reasons[key] = str(error)
            reason = reasons[key]
            if reason is None:
                possible.append(cell)
            else:
                self._fail([cell], reason)
        return possible

    def _fail(self, cells: Sequence[Cell], reason: str) -> None:
        self.folder.record_failure(batch_of(cells), reason)
        self.broken.update({label(cell): reason for cell in cells})
        self.status.failed += len(cells)
        self.status.steps -= sum(cell.settings.steps for cell in cells)  # nothing more will come of them

    def _report(self, event: Event) -> None:
        """Writes and shows what happened."""
        match event:
            case Advanced(task, snapshot, speed):
                self.status.flights[id(task.batch)] = Flight(task.batch, snapshot, speed)
            case Kept(saved):
                self.folder.save(saved)
            case Finished(task, results):
                self.folder.write(results)
                self._finish(task, results.failures)
            case Failed(task, reason):
                self.display.say(f"{task.batch.first.world} {task.batch.first.method} failed: {reason}")
                self.status.flights.pop(id(task.batch), None)
                self._fail(cells_of(task.batch), reason)
            case Halved(task):
                self.status.flights.pop(id(task.batch), None)
                first = task.batch.first
                self.display.say(
                    f"{len(task.batch)} runs of {first.world} {first.method} do not fit; trying half of them"
                )
            case Noted(message):
                self.display.say(message)
        self.display.show(self.status)

    def _finish(self, task: Task, failures: Mapping[int, str]) -> None:
        batch = task.batch
        self.status.flights.pop(id(batch), None)
        self.status.cells_done += len(batch)
        self.status.steps_done += batch.total_steps
        self.trained += batch.total_steps
        for run, reason in failures.items():
            name = label(cells_of(batch)[run])
            self.broken[name] = reason
            self.display.say(f"{name} failed: {reason}")
