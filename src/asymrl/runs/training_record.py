"""The record of a training: what its runs have reached so far, written into the store and shown to the callback."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from asymrl.runs.callback import Callback, StopRuns, Throttle
from asymrl.runs.placement import Pace
from asymrl.runs.progress import BROKEN, Compilations, Progress, SpeedMeter
from asymrl.runs.runs import full_label, labels
from asymrl.runs.store import Store
from asymrl.runs.tables import FAILED, STOPPED, RunResult
from asymrl.runs.wording import first_line

if TYPE_CHECKING:
    from asymrl.runs.callback import Probe
    from asymrl.runs.run_queue import Event, RunQueue
    from asymrl.runs.worker import Report

WRITING_SHARE = 0.05  # of the time may be spent on writing tables


class TrainingRecord:
    """Collects the results of the runs of a store while they train, writes them and informs the callback."""

    def __init__(self, store: Store, callback: Callback, pace: Pace, probes: Mapping[str, Probe]):
        self.store, self.callback, self.pace, self.probes = store, callback, pace, probes
        self.results: dict[int, RunResult] = dict(store.results())
        self.steps_before: dict[int, int] = {}
        self.training: dict[str, frozenset[int]] = {}  # the runs in the lanes of each pool
        self.broken: dict[int, str] = {}
        self.compilations = Compilations()
        self.points_reported = {n: len(r.curve) for n, r in self.results.items() if r.curve is not None}
        self.is_changed, self.writing = False, Throttle(pace.refresh_seconds, WRITING_SHARE)
        self.speed_meter, self.shown_at = SpeedMeter(pace.call_seconds), -float("inf")
        self.is_callback_broken = False
        self.queue: RunQueue | None = None
        """Stops runs when a callback asks for it; set once something is trained."""

    @property
    def over(self) -> int:
        """How many runs are over."""
        return sum(result.is_over for result in self.results.values())

    def steps_since(self, numbers: Sequence[int]) -> int:
        """Steps that these runs were trained since the training began."""
        return sum(self.results[n].timesteps - self.steps_before.get(n, 0) for n in numbers if n in self.results)

    def handle(self, event: Event) -> None:
        """Writes and shows what happened."""
        from asymrl.runs.run_queue import Broken, Noted, Stopped
        from asymrl.runs.worker import Order

        worker, what = event
        match what:
            case Order(shape, lanes):
                self.compilations.begin(worker, shape, time.monotonic())
                self.callback.compiling(shape, lanes)
                self.show(now=True)
            case Stopped(numbers):
                for number in numbers:
                    self._update_results({number: self.results.get(number, RunResult())._replace(status=STOPPED)})
            case Broken(numbers, reason):
                self._forget(worker)
                self.break_runs(numbers, reason)
                self.callback.say(f"{self.labels(numbers)} failed: {first_line(reason)}")
            case Noted(message):
                self._forget(worker)
                self.callback.say(message)
            case _:
                self._handle_report(worker, what)
        self.show()

    def _handle_report(self, worker: str, report: Report) -> None:
        self.compilations.end(worker)
        self.training[worker] = frozenset(report.results)
        for failed in report.failed:
            if failed.saved is not None:
                self.store.save(failed.saved, "failed")
            self.break_runs([failed.number], failed.reason)
            self.callback.say(f"{self.labels([failed.number])} failed: {first_line(failed.reason)}")
        self._update_results(report.results)
        for number, result, saved in report.retired:
            if saved is not None:
                self.store.save(saved, "over")
            self._update_results({number: result})
            if result.status == FAILED:
                self.callback.say(f"{self.labels([number])} stopped: {result.failure}")
        if report.saved is not None:
            self.store.save(report.saved, worker)

    def _forget(self, pool: str) -> None:
        """Drops a pool that has ended."""
        self.training.pop(pool, None)
        self.compilations.end(pool)

    def _update_results(self, results: Mapping[int, RunResult]) -> None:
        self.results.update(results)
        for number, result in results.items():
            count = 0 if result.curve is None else len(result.curve)
            if count != self.points_reported.get(number, 0) or result.is_over:
                self.is_changed = True

    def break_runs(self, numbers: Sequence[int], reason: str) -> None:
        for number in numbers:
            self.broken[number] = reason
            self.results[number] = self.results.get(number, RunResult())._replace(status=BROKEN, failure=reason)
        self.is_changed = True

    def write(self, *, now: bool = False) -> None:
        """Writes the tables if something changed, at a limited rate, and passes new points to the callback."""
        if not self.is_changed and not (now and not (self.store.path / "runs.parquet").exists()):
            return
        if not now and not self.writing.is_due():
            return
        columns = next((probe.columns for probe in self.probes.values()), ())
        with self.writing.work():
            self.store.write_tables(self.results, columns)
        self.is_changed = False
        self._notify_points()

    def _notify_points(self) -> None:
        """Passes on the points that the callback has not seen."""
        from asymrl.runs.tables import metrics_table

        for number, result in self.results.items():
            reported = self.points_reported.get(number, 0)
            if result.curve is not None and len(result.curve) > reported:
                table = metrics_table({number: self.store.runs[number]}, {number: result.curve[reported:]}, ())
                self._notify(lambda number=number, table=table: self.callback.points(number, table))
                self.points_reported[number] = len(result.curve)

    def _notify(self, call: Callable[[], None]) -> None:
        """Calls a callback, which may stop runs.

        One that fails, such as a tracker without a network, must not end the training; it is mentioned once.
        """
        try:
            call()
        except StopRuns as stop:
            self._stop_runs(stop.numbers)
        except Exception as error:
            if not self.is_callback_broken:
                self.callback.say(f"a callback failed ({type(error).__name__}: {error}); the training goes on")
            self.is_callback_broken = True

    def _stop_runs(self, numbers: frozenset[int]) -> None:
        """Stops these runs, or all if there are no numbers."""
        assert self.queue is not None
        running = {n for n in range(len(self.store.runs)) if not self.results.get(n, RunResult()).is_over}
        if unknown := sorted(numbers - set(range(len(self.store.runs)))):
            self.callback.say(f"a callback wants to stop run {unknown[0]}, which is not there")
        new = sorted((numbers & running if numbers else running) - self.queue.unwanted())
        if new:
            self.callback.say(f"{self.labels(new)} stopped by a callback")
            self.queue.stop_runs(new)

    def show(self, *, now: bool = False) -> None:
        if not now and time.monotonic() - self.shown_at < min(self.pace.refresh_seconds, 1.0):
            return
        self.shown_at = time.monotonic()
        training = frozenset().union(*self.training.values())
        compilations = self.compilations.at(self.shown_at)
        progress = Progress(self.store.runs, self.results, training, self.broken, None, compilations)
        if training or self.speed_meter.samples:
            self.speed_meter.add(self.shown_at, progress.trained)
            progress = progress._replace(speed=self.speed_meter.steps_per_second())
        if self.speed_meter.samples or progress.compilations:
            self._notify(lambda: self.callback.progress(progress))

    def labels(self, numbers: Sequence[int]) -> str:
        """The first of these runs, and how many more."""
        return labels(self.store.runs, numbers)

    def failures(self) -> dict[str, str]:
        return {
            full_label(self.store.runs[number]): result.failure or "unknown"
            for number, result in self.results.items()
            if result.status in (FAILED, BROKEN)
        }
