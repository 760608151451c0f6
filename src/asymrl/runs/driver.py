"""Trains the runs of a store: finds the unfinished ones, has workers train them, and records the results."""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asymrl.runs.cache import use_compilation_cache
from asymrl.runs.files import StorageError
from asymrl.runs.interrupts import StopRequests
from asymrl.runs.listeners import Listener
from asymrl.runs.placement import Pace, Placement, lanes_for
from asymrl.runs.sessions import Session, add_session
from asymrl.runs.store import Store
from asymrl.runs.training_record import TrainingRecord
from asymrl.runs.wording import plural

if TYPE_CHECKING:
    from asymrl.envs.surroundings import Surroundings
    from asymrl.runs.listeners import Probe
    from asymrl.runs.scheduler import Scheduler
    from asymrl.runs.thread_workers import Workers

POLL_SECONDS = 0.1
PATIENCE_SECONDS = 5.0  # until the user is told what a stopping training is waiting for
PARTING_SECONDS = 120.0  # time pools have to hand over their states when a training is stopped


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    runs: int
    over: int
    """Runs that are over, including those of earlier trainings of the store."""
    failures: Mapping[str, str]
    """Why runs could not be trained, or stopped because something was not finite, by label."""
    interrupted: signal.Signals | None
    """The signal that stopped it before its end, if one did."""
    is_out_of_time: bool
    seconds: float
    steps: int
    """Trained this time."""

    @property
    def is_complete(self) -> bool:
        return self.over == self.runs


def train_store(
    store: Store,
    listener: Listener,
    *,
    pace: Pace = Pace(),  # noqa: B008  it is frozen
    placement: Placement = Placement(),  # noqa: B008
    minutes: float | None = None,
    probes: Mapping[str, Probe] | None = None,
    only: Sequence[int] | None = None,
) -> Outcome:
    """Trains the runs of a store that are not over. The store must have been taken, unless all of them are.

    SIGINT and SIGTERM end the training early, with a checkpoint.

    Args:
        store: with the runs.
        listener: follows the training.
        pace: how often to refresh and to save.
        placement: where to train.
        minutes: after which the training stops with a checkpoint. None: at its end.
        probes: measurements during training, by the name of the world.
        only: the numbers of the runs to train. None: all.

    Raises:
        RunError: if the checkpoints of the store cannot be used.
        StorageError: if something could not be written; what was written before is still good.
    """
    use_compilation_cache()
    if placement.processes is not None:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # device memory is for the other processes
    begin = time.monotonic()
    listener.begin(store.runs)
    try:
        return _Driver(store, listener, begin, minutes, pace, placement, probes or {}).run(only)
    except StorageError as error:
        raise StorageError(
            f"{error}. The training stopped; what was written before is still good. Put that right, then go on with "
            f"`asymrl resume {store.path}`"
        ) from error
    finally:
        listener.end()


class _Driver:
    """A training under way."""

    def __init__(
        self,
        store: Store,
        listener: Listener,
        begin: float,
        minutes: float | None,
        pace: Pace,
        placement: Placement,
        probes: Mapping[str, Probe],
    ):
        self.store, self.listener, self.placement = store, listener, placement
        self.pace = Pace(pace.refresh_seconds, pace.checkpoint_seconds, pace.keep_states and store.keeps_networks)
        self.begin, self.end_at = begin, None if minutes is None else begin + 60 * minutes
        self.record = TrainingRecord(store, listener, self.pace, probes)

    def run(self, only: Sequence[int] | None) -> Outcome:
        numbers = self.store.unfinished()
        if only is not None:
            numbers = [number for number in numbers if number in set(only)]
        over_before = self.record.over
        self.store.make_ready(numbers, self.listener.say)
        stop = StopRequests(lambda which: self.listener.say(_stopping(which)))
        if numbers:
            scheduler, workers = self._plan(numbers)  # nothing is trained yet: Ctrl-C ends it like any other program
            with stop:
                self._train(scheduler, workers, stop)
        over = self.record.over
        seconds = time.monotonic() - self.begin
        steps = self.record.steps_since(numbers)
        remaining = len(numbers) - (over - over_before) - len(self.record.broken)
        if numbers:
            add_session(self.store.path, Session.now(seconds, steps, over - over_before, remaining))
        if over == len(self.store.runs) and not self.store.keeps_networks:
            self.store.checkpoints.clear()
        return Outcome(
            runs=len(self.store.runs),
            over=over,
            failures=self.record.failures(),
            interrupted=stop.received,
            is_out_of_time=bool(remaining) and stop.received is None,
            seconds=seconds,
            steps=steps,
        )

    def _plan(self, numbers: Sequence[int]) -> tuple[Scheduler, Workers]:
        """The queue of the runs that can be trained, and who will train them."""
        from asymrl.runs.preparation import assignments_of, possible_runs, say_what_fits
        from asymrl.runs.scheduler import Scheduler

        workers = self._workers()
        self.store.checkpoints.layout = workers.layout
        possible = possible_runs(self.record, numbers, workers.plan)
        self.record.compilations.expected = len({self.store.runs[number].settings.shape() for number in possible})
        assignments = assignments_of(self.record, possible)
        lanes_of = lanes_for(workers.platform, self.placement.lanes, workers.places)
        say_what_fits(self.record, possible, workers.plan, lanes_of)
        is_cpu = workers.platform == "cpu"
        scheduler = Scheduler(
            assignments,
            lanes_of,
            one_pool_per_shape=not is_cpu,
            plan=workers.plan,
            surroundings=self._surroundings(possible),
        )
        self.record.scheduler = scheduler
        return scheduler, workers

    def _train(self, scheduler: Scheduler, workers: Workers, stop: StopRequests) -> None:
        try:
            if scheduler.is_waiting():
                workers.start(scheduler)
                self._listen(scheduler, workers, stop)
                if not scheduler.is_stopped():
                    scheduler.give_up()
        finally:
            scheduler.stop()
            workers.end()
        self._drain(scheduler)
        self.record.show(now=True)
        # The tables say which runs are over, so they are written after the states.
        self.record.write(now=True)

    def _listen(self, scheduler: Scheduler, workers: Workers, stop: StopRequests) -> None:
        """Writes and shows what the pools report, until nothing is left to do or the user stops it."""
        stopped_at, is_said = None, False
        while workers.is_alive():
            if stop.received is not None or self._is_out_of_time():
                scheduler.stop()
                stopped_at = stopped_at or time.monotonic()
                waited = time.monotonic() - stopped_at
                if not scheduler.holds_runs() or waited > PARTING_SECONDS:
                    return
                if waited > PATIENCE_SECONDS and not is_said:
                    self.listener.say(_waiting(scheduler.held_runs()))
                    is_said = True
            try:
                pool_event = scheduler.events.get(timeout=POLL_SECONDS)
            except queue.Empty:
                self.record.show()
            else:
                self.record.handle(pool_event)
                scheduler.handled(pool_event)
            self.record.write()

    def _drain(self, scheduler: Scheduler) -> None:
        while not scheduler.events.empty():
            self.record.handle(scheduler.events.get())

    def _workers(self) -> Workers:
        how = self.placement
        if how.engine == "ray":
            from asymrl.runs.ray_workers import RayWorkers

            return RayWorkers(address=how.ray_address, workers=how.workers, pace=self.pace)
        from asymrl.runs.thread_workers import local_workers

        return local_workers(self.pace, workers=how.workers, processes=how.processes)

    def _surroundings(self, numbers: Sequence[int]) -> Surroundings | None:
        """What pool processes need to make the worlds of these runs. None: pools are in this process."""
        if self.placement.engine == "local" and self.placement.processes is None:
            return None
        from asymrl.envs.surroundings import surroundings_of

        return surroundings_of({self.store.runs[number].settings.world for number in numbers})

    def _is_out_of_time(self) -> bool:
        return self.end_at is not None and time.monotonic() >= self.end_at


def _waiting(runs: int) -> str:
    return (
        f"still waiting for {plural('run', runs)} to come to the end of an update, for at most {PARTING_SECONDS:.0f} "
        "seconds; Ctrl-C once more to stop without"
    )


def _stopping(which: signal.Signals) -> str:
    return f"{which.name}: will stop with a checkpoint in a moment; once more to stop without"
