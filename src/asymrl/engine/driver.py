"""Trains the runs of a store: finds out what is missing, lets workers train it, and alone writes what comes back."""

from __future__ import annotations

import collections
import os
import queue
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asymrl.engine.cache import use_compilation_cache
from asymrl.engine.events import Advanced, Broken, Checkpointed, Failed, Noted, Opened, Retired, Stopped
from asymrl.engine.interrupts import StopRequests
from asymrl.engine.monitoring.listeners import Listener, StopRuns
from asymrl.engine.monitoring.progress import BROKEN, Clock, Compilations, Progress
from asymrl.engine.placement import Pace, Placement, lanes_for
from asymrl.settings import Settings
from asymrl.stores.files import StorageError
from asymrl.stores.runs import full_label, label
from asymrl.stores.sessions import Session, record
from asymrl.stores.store import Store
from asymrl.stores.tables import FAILED, STOPPED, RunResult
from asymrl.stores.wording import first_line, plural, size_text

if TYPE_CHECKING:
    from asymrl.adapters.surroundings import Surroundings
    from asymrl.engine.floor import Floor, LanesOf, Told
    from asymrl.engine.lanes import Assignment
    from asymrl.engine.memory_plan import MemoryPlan
    from asymrl.engine.monitoring.listeners import Probe
    from asymrl.engine.workers import Workers
    from asymrl.stores.checkpoints.saved_runs import DeviceLayout

LOOK_SECONDS = 0.1
PATIENCE_SECONDS = 5.0  # after which one is told what a training that is stopped waits for
PARTING_SECONDS = 120.0  # that pools have to hand over their states when a training is stopped
WRITING_SHARE = 0.05  # of the time may be spent on writing tables


@dataclass(frozen=True)
class Outcome:
    """How a training ended, for now."""

    runs: int
    over: int
    """Runs that are over, also from earlier trainings of the same store."""
    failures: Mapping[str, str]
    """Why runs could not be trained, or stopped because something was not finite, by what they are."""
    interrupted: signal.Signals | None
    """The signal that stopped it before its end, if one did."""
    is_out_of_time: bool
    seconds: float
    steps: int
    """Trained now."""

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
    """Trains those runs of a store that are not over. The store must have been taken.

    SIGINT and SIGTERM end the training early, with a checkpoint.

    Args:
        store: with the runs.
        listener: follows the training.
        pace: how often to look and to save.
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
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the memory of devices is for the others
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
        self.store, self.listener, self.placement, self.probes = store, listener, placement, probes
        self.pace = Pace(pace.refresh_seconds, pace.checkpoint_seconds, pace.keep_states and store.keeps_networks)
        self.begin, self.end_at = begin, None if minutes is None else begin + 60 * minutes
        self.results: dict[int, RunResult] = dict(store.results())
        self.steps_before: dict[int, int] = {}
        self.training: dict[str, frozenset[int]] = {}  # the runs in the lanes of each pool
        self.broken: dict[int, str] = {}
        self.compilations = Compilations()
        self.points_told = {n: len(r.curve) for n, r in self.results.items() if r.curve is not None}
        self.is_changed, self.written_at, self.writing = False, -float("inf"), 0.0
        self.clock, self.shown_at = Clock(), -float("inf")
        self.is_listener_broken = False
        self.floor: Floor | None = None

    def run(self, only: Sequence[int] | None) -> Outcome:
        numbers = self.store.unfinished()
        if only is not None:
            numbers = [number for number in numbers if number in set(only)]
        over_before = sum(result.is_over for result in self.results.values())
        self.store.make_ready(numbers, self.listener.say)
        stop = StopRequests(lambda which: self.listener.say(_stopping(which)))
        if numbers:
            floor, workers = self._plan(numbers)  # nothing is trained yet: Ctrl-C ends it as any other program
            with stop:
                self._train(floor, workers, stop)
        over = sum(result.is_over for result in self.results.values())
        seconds = time.monotonic() - self.begin
        steps = sum(self.results[n].timesteps - self.steps_before.get(n, 0) for n in numbers if n in self.results)
        left = len(numbers) - (over - over_before) - len(self.broken)
        if numbers:
            record(self.store.path, Session.now(seconds, steps, over - over_before, left))
        if over == len(self.store.runs) and not self.store.keeps_networks:
            self.store.checkpoints.clear()
        return Outcome(
            runs=len(self.store.runs),
            over=over,
            failures=self._failures(),
            interrupted=stop.received,
            is_out_of_time=bool(left) and stop.received is None,
            seconds=seconds,
            steps=steps,
        )

    def _plan(self, numbers: Sequence[int]) -> tuple[Floor, Workers]:
        """The queue of the runs that can be trained, and who will train them."""
        from asymrl.engine.floor import Floor

        workers = self._workers()
        self.store.checkpoints.layout = workers.layout
        possible = self._possible(numbers, workers.plan)
        self.compilations.expected = len({self.store.runs[number].settings.shape() for number in possible})
        assignments = self._assignments(possible)
        lanes_of = lanes_for(workers.platform, self.placement.lanes, workers.places)
        self._say_what_fits(possible, workers.plan, lanes_of)
        is_cpu = workers.platform == "cpu"
        floor = Floor(
            assignments,
            lanes_of,
            one_pool_per_shape=not is_cpu,
            plan=workers.plan,
            surroundings=self._surroundings(possible),
        )
        self.floor = floor
        return floor, workers

    def _train(self, floor: Floor, workers: Workers, stop: StopRequests) -> None:
        try:
            if floor.is_waiting():
                workers.start(floor)
                self._listen(floor, workers, stop)
                if not floor.is_stopped():
                    floor.give_up()
        finally:
            floor.stop()
            workers.end()
        self._drain(floor)
        self._show(now=True)
        # The tables say which runs are over, so they come after the states.
        self._write(now=True)

    def _listen(self, floor: Floor, workers: Workers, stop: StopRequests) -> None:
        """Writes and shows what the pools report, until nothing is left to do or somebody wants to stop."""
        stopped_at, is_said = None, False
        while workers.is_alive():
            if stop.received is not None or self._is_out_of_time():
                floor.stop()
                stopped_at = stopped_at or time.monotonic()
                waited = time.monotonic() - stopped_at
                if not floor.holds_runs() or waited > PARTING_SECONDS:
                    return
                if waited > PATIENCE_SECONDS and not is_said:
                    self.listener.say(_waiting(floor.held_runs()))
                    is_said = True
            try:
                told = floor.events.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                self._show()
            else:
                self._handle(told)
                floor.handled(told)
            self._write()

    def _drain(self, floor: Floor) -> None:
        while not floor.events.empty():
            self._handle(floor.events.get())

    def _workers(self) -> Workers:
        how = self.placement
        if how.engine == "ray":
            from asymrl.engine.cluster import RayWorkers

            return RayWorkers(address=how.ray_address, workers=how.workers, pace=self.pace)
        from asymrl.engine.workers import local_workers

        return local_workers(self.pace, workers=how.workers, processes=how.processes)

    def _surroundings(self, numbers: Sequence[int]) -> Surroundings | None:
        """What the processes of pools need to make the worlds of runs. None: pools are in this process."""
        if self.placement.engine == "local" and self.placement.processes is None:
            return None
        from asymrl.adapters.surroundings import surroundings_of

        return surroundings_of({self.store.runs[number].settings.world for number in numbers})

    def _is_out_of_time(self) -> bool:
        return self.end_at is not None and time.monotonic() >= self.end_at

    def _say_what_fits(self, numbers: Sequence[int], plan: MemoryPlan | None, lanes_of: LanesOf) -> None:
        """Says how many runs fit at a time, where it is memory that limits them."""
        shapes = collections.Counter(self.store.runs[number].settings.shape() for number in numbers)
        for shape, count in shapes.items():
            if plan is None or (fit := plan.lanes(shape)) is None:
                continue
            if fit < min(count, plan.pools * lanes_of(shape, count, len(numbers))):
                what = f"{plural('run', count)} of {shape.world} {shape.method}"
                each = size_text(plan.bytes_of(shape))
                self.listener.say(f"{what}: {each} of memory each, so {max(fit, 1)} at a time")

    def _possible(self, numbers: Sequence[int], plan: MemoryPlan | None) -> list[int]:
        """The runs whose worlds and signals exist and that fit into memory; the others are recorded as broken."""
        from asymrl.learning.state import training_world
        from asymrl.worlds.stepped_world import UserCodeError

        reasons: dict[Settings, str | None] = {}
        possible = []
        for number in numbers:
            shape = self.store.runs[number].settings.shape()
            if shape not in reasons:
                try:
                    training_world(shape)
                    if plan is not None:
                        plan.check(shape)
                    reasons[shape] = None
                except ValueError as error:
                    reasons[shape] = error.report if isinstance(error, UserCodeError) else str(error)
            if (reason := reasons[shape]) is None:
                possible.append(number)
            else:
                self._break([number], reason)
        return possible

    def _assignments(self, numbers: Sequence[int]) -> list[Assignment]:
        """The runs with their newest states, if they have one."""
        from asymrl.engine.lanes import Assignment

        assignments = {
            number: Assignment(number, run, None, self.probes.get(run.settings.world))
            for number in numbers
            for run in [self.store.runs[number]]
        }
        layouts = []
        for held, saved in self.store.saved(numbers, self.listener.say):
            layouts.append(saved.layout)
            for row, number in enumerate(held):
                one = saved.only([row])
                assignments[number] = assignments[number]._replace(saved=one)
                self.steps_before[number] = int(one.arrays["timesteps"][0])
                points = int(min(one.arrays["logged"][0], one.arrays["curve"].shape[1]))
                self.points_told[number] = points
        for number in numbers:
            if number not in self.steps_before:
                self.points_told[number] = 0
        self._say_what_differs(layouts)
        self._begin_again([number for number in numbers if number not in self.steps_before])
        return list(assignments.values())

    def _say_what_differs(self, layouts: Sequence[DeviceLayout | None]) -> None:
        """Says once that runs go on elsewhere than they began."""
        now = self.store.checkpoints.layout
        others = [layout for layout in layouts if layout is not None and now is not None and layout != now]
        if others and now is not None:
            self.listener.say(
                f"trained on {others[0].described} so far, now on {now.described}: the results are identical up to "
                "rounding at first, then diverge from those of an uninterrupted training"
            )

    def _begin_again(self, numbers: Sequence[int]) -> None:
        """Forgets what runs have reached whose states are gone, and says so."""
        lost = [number for number in numbers if self.results.get(number, RunResult()).timesteps]
        lost += [number for number in self.store.lost if number in numbers]
        for number in lost:
            self.results.pop(number, None)
        if lost:
            where = self.store.checkpoints.folder
            self.listener.say(f"{self._labels(lost)} begin{'s' * (len(lost) == 1)} again: {where} has no state of them")

    def _handle(self, told: Told) -> None:
        """Writes and shows what happened."""
        match told.event:
            case Opened(shape, lanes):
                self.compilations.begin(told.pool, shape, time.monotonic())
                self.listener.compiling(shape, lanes)
                self._show(now=True)
            case Advanced(results):
                self.compilations.end(told.pool)
                self.training[told.pool] = frozenset(results)
                self._take_in(results)
            case Retired(number, result, saved):
                if saved is not None:
                    self.store.save(saved, "over")
                self._take_in({number: result})
                if result.status == FAILED:
                    self.listener.say(f"{self._label(number)} stopped: {result.failure}")
            case Stopped(numbers):
                for number in numbers:
                    self._take_in({number: self.results.get(number, RunResult())._replace(status=STOPPED)})
            case Checkpointed(saved):
                self.store.save(saved, told.pool)
            case Failed(number, reason, saved):
                if saved is not None:
                    self.store.save(saved, "failed")
                self._break([number], reason)
                self.listener.say(f"{self._label(number)} failed: {first_line(reason)}")
            case Broken(numbers, reason):
                self.compilations.end(told.pool)
                self._forget(told.pool)
                self._break(numbers, reason)
                self.listener.say(f"{self._labels(numbers)} failed: {first_line(reason)}")
            case Noted(message):
                self._forget(told.pool)
                self.listener.say(message)
        self._show()

    def _forget(self, pool: str) -> None:
        """The pool does nothing any more."""
        self.training.pop(pool, None)
        self.compilations.end(pool)

    def _take_in(self, results: Mapping[int, RunResult]) -> None:
        self.results.update(results)
        for number, result in results.items():
            count = 0 if result.curve is None else len(result.curve)
            if count != self.points_told.get(number, 0) or result.is_over:
                self.is_changed = True

    def _break(self, numbers: Sequence[int], reason: str) -> None:
        for number in numbers:
            self.broken[number] = reason
            self.results[number] = self.results.get(number, RunResult())._replace(status=BROKEN, failure=reason)
        self.is_changed = True

    def _write(self, *, now: bool = False) -> None:
        """Writes the tables if something is new, but not all the time; and passes on new points."""
        since = time.monotonic() - self.written_at
        if not self.is_changed and not (now and not (self.store.path / "runs.parquet").exists()):
            return
        if not now and since < max(self.pace.refresh_seconds, self.writing / WRITING_SHARE):
            return
        begin = time.monotonic()
        columns = next((probe.columns for probe in self.probes.values()), ())
        self.store.write_tables(self.results, columns)
        self.is_changed, self.written_at = False, time.monotonic()
        self.writing = self.written_at - begin
        self._tell_points()

    def _tell_points(self) -> None:
        """Passes on the points that the listener has not seen."""
        from asymrl.stores.tables import metrics_table

        for number, result in self.results.items():
            told = self.points_told.get(number, 0)
            if result.curve is not None and len(result.curve) > told:
                table = metrics_table({number: self.store.runs[number]}, {number: result.curve[told:]}, ())
                self._tell(lambda number=number, table=table: self.listener.points(number, table))
                self.points_told[number] = len(result.curve)

    def _tell(self, call: Callable[[], None]) -> None:
        """Calls a listener, which may stop runs.

        One that fails, as a tracker without a network, must not end the training; it is mentioned once.
        """
        try:
            call()
        except StopRuns as stop:
            self._stop_runs(stop.numbers)
        except Exception as error:
            if not self.is_listener_broken:
                self.listener.say(f"a listener failed ({type(error).__name__}: {error}); the training goes on")
            self.is_listener_broken = True

    def _stop_runs(self, numbers: frozenset[int]) -> None:
        """Somebody wants these runs to end, or without numbers all."""
        assert self.floor is not None
        running = {n for n in range(len(self.store.runs)) if not self.results.get(n, RunResult()).is_over}
        if unknown := sorted(numbers - set(range(len(self.store.runs)))):
            self.listener.say(f"a listener wants to stop run {unknown[0]}, which is not there")
        new = sorted((numbers & running if numbers else running) - self.floor.unwanted())
        if new:
            self.listener.say(f"{self._labels(new)} stopped by a listener")
            self.floor.stop_runs(new)

    def _show(self, *, now: bool = False) -> None:
        if not now and time.monotonic() - self.shown_at < min(self.pace.refresh_seconds, 1.0):
            return
        self.shown_at = time.monotonic()
        training = frozenset().union(*self.training.values())
        compilations = self.compilations.at(self.shown_at)
        progress = Progress(self.store.runs, self.results, training, self.broken, None, compilations)
        if training or self.clock.looks:
            self.clock.look(self.shown_at, progress.trained)
            progress = progress._replace(speed=self.clock.steps_per_second())
        if self.clock.looks or progress.compilations:
            self._tell(lambda: self.listener.progress(progress))

    def _label(self, number: int) -> str:
        run = self.store.runs[number]
        same = len({each.settings for each in self.store.runs}) == 1
        return label(run, ()) if same else full_label(run)

    def _labels(self, numbers: Sequence[int]) -> str:
        """The first of these runs, and how many more."""
        more = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
        return f"{self._label(numbers[0])}{more}"

    def _failures(self) -> dict[str, str]:
        return {
            full_label(self.store.runs[number]): result.failure or "unknown"
            for number, result in self.results.items()
            if result.status in (FAILED, BROKEN)
        }


def _waiting(runs: int) -> str:
    return (
        f"still waiting for {plural('run', runs)} to come to the end of an update, for at most {PARTING_SECONDS:.0f} "
        "seconds; Ctrl-C once more to stop without"
    )


def _stopping(which: signal.Signals) -> str:
    return f"{which.name}: will stop with a checkpoint in a moment; once more to stop without"
