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
from asymrl.runs.callback import Callback
from asymrl.runs.files import StorageError
from asymrl.runs.interrupts import StopRequests
from asymrl.runs.placement import Pace, Placement
from asymrl.runs.sessions import Session, add_session
from asymrl.runs.store import Store
from asymrl.runs.training_record import TrainingRecord
from asymrl.runs.wording import plural

if TYPE_CHECKING:
    from asymrl.envs.surroundings import Surroundings
    from asymrl.runs.callback import Probe
    from asymrl.runs.run_queue import RunQueue
    from asymrl.runs.threads import Workers

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
    callback: Callback,
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
        callback: follows the training.
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
    callback.begin(store.runs)
    try:
        return _Driver(store, callback, begin, minutes, pace, placement, probes or {}).run(only)
    except StorageError as error:
        raise StorageError(
            f"{error}. The training stopped; what was written before is still good. Put that right, then go on with "
            f"`asymrl resume {store.path}`"
        ) from error
    finally:
        callback.end()


class _Driver:
    """A training under way."""

    def __init__(
        self,
        store: Store,
        callback: Callback,
        begin: float,
        minutes: float | None,
        pace: Pace,
        placement: Placement,
        probes: Mapping[str, Probe],
    ):
        self.store, self.callback, self.placement = store, callback, placement
        self.pace = Pace(pace.refresh_seconds, pace.checkpoint_seconds, pace.keep_states and store.keeps_networks)
        self.begin, self.end_at = begin, None if minutes is None else begin + 60 * minutes
        self.record = TrainingRecord(store, callback, self.pace, probes)

    def run(self, only: Sequence[int] | None) -> Outcome:
        numbers = self.store.unfinished()
        if only is not None:
            numbers = [number for number in numbers if number in set(only)]
        over_before = self.record.over
        self.store.make_ready(numbers, self.callback.say)
        stop = StopRequests(lambda which: self.callback.say(_stopping(which)))
        if numbers:
            runs, workers = self._plan(numbers)  # nothing is trained yet: Ctrl-C ends it like any other program
            with stop:
                self._train(runs, workers, stop)
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

    def _plan(self, numbers: Sequence[int]) -> tuple[RunQueue, Workers]:
        """The queue of the runs that can be trained, and who will train them."""
        from asymrl.runs.devices import lanes_for
        from asymrl.runs.preparation import assignments_of, possible_runs
        from asymrl.runs.run_queue import RunQueue

        workers = self._workers()
        self.store.checkpoints.layout = workers.layout
        possible = possible_runs(self.record, numbers, workers.memory)
        self.record.compilations.expected = len({self.store.runs[number].settings.shape() for number in possible})
        runs = RunQueue(
            assignments_of(self.record, possible),
            lanes_for(workers.platform, self.placement.lanes, workers.places),
            one_pool_per_shape=workers.platform != "cpu",
            saves=self.pace.checkpoint_seconds is not None,
            memory=workers.memory,
            surroundings=self._surroundings(possible),
        )
        self.record.queue = runs
        return runs, workers

    def _train(self, runs: RunQueue, workers: Workers, stop: StopRequests) -> None:
        try:
            if runs.is_waiting():
                workers.start(runs)
                self._listen(runs, workers, stop)
                if not runs.is_stopped():
                    runs.give_up()
        finally:
            runs.stop()
            workers.end()
        while not runs.events.empty():
            self.record.handle(runs.events.get())
        self.record.show(now=True)
        # The tables say which runs are over, so they are written after the states.
        self.record.write(now=True)

    def _listen(self, runs: RunQueue, workers: Workers, stop: StopRequests) -> None:
        """Writes and shows what the workers report, until nothing is left to do or the user stops it."""
        stopped_at, is_said = None, False
        while workers.is_alive():
            if stop.received is not None or self._is_out_of_time():
                runs.stop()
                stopped_at = stopped_at or time.monotonic()
                waited = time.monotonic() - stopped_at
                if not (held := runs.held_runs()) or waited > PARTING_SECONDS:
                    return
                if waited > PATIENCE_SECONDS and not is_said:
                    self.callback.say(_waiting(held))
                    is_said = True
            try:
                event = runs.events.get(timeout=POLL_SECONDS)
            except queue.Empty:
                self.record.show()
            else:
                self.record.handle(event)
                runs.written(event)
            self.record.write()

    def _workers(self) -> Workers:
        where = self.placement
        if where.engine == "ray":
            from asymrl.runs.ray_workers import RayWorkers

            return RayWorkers(self.pace, address=where.ray_address, workers=where.workers)
        if where.processes is not None:
            from asymrl.runs.process_workers import process_workers

            return process_workers(self.pace, where.processes)
        from asymrl.runs.threads import thread_workers

        return thread_workers(self.pace, where.workers)

    def _surroundings(self, numbers: Sequence[int]) -> Surroundings | None:
        """What other processes need to make the worlds of these runs. None: workers are in this process."""
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
