"""The engine on the devices of this machine: threads that compile ahead, and threads that train, several per device."""

from __future__ import annotations

import collections
import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from asymrl.sweeps.compiled import CompiledCache
from asymrl.sweeps.engine import Event, Finished, Pace, after_trouble, is_out_of_memory, reason_of
from asymrl.sweeps.follow import follow
from asymrl.sweeps.training import BatchTraining, Task

# A small batch leaves an accelerator idle most of the time; a CPU is busy with one.
WORKERS = {"cpu": 1}
ACCELERATOR_WORKERS = 5
MOST_COMPILERS = 6
LOOK_SECONDS = 0.1


class LocalEngine:
    """Trains batches on all local devices. Programs are compiled while others train."""

    def __init__(
        self,
        *,
        workers: int | None = None,
        pace: Pace = Pace(),  # noqa: B008  it is frozen
        cache: CompiledCache | None = None,
        devices: Sequence[Any] | None = None,
    ):
        import jax

        self.devices = list(jax.local_devices() if devices is None else devices)
        platform = self.devices[0].platform
        self.workers = WORKERS.get(platform, ACCELERATOR_WORKERS) if workers is None else workers
        self.compilers = 1 if platform == "cpu" else min(MOST_COMPILERS, os.cpu_count() or 1)
        self.pace, self.cache = pace, cache or CompiledCache()

    @property
    def waiting(self) -> int:
        """Batches per device that are made ready before their turn."""
        return 1 + self.workers // 2

    def run(self, tasks: Sequence[Task], report: Callable[[Event], None], stop: Callable[[], bool]) -> None:
        floor = _Floor(self, tasks)
        threads = [threading.Thread(target=floor.prepare, daemon=True) for _ in range(self.compilers)]
        for device in range(len(self.devices)):
            threads += [threading.Thread(target=floor.train, args=(device,), daemon=True) for _ in range(self.workers)]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads) or not floor.events.empty():
                if stop():
                    floor.end()
                try:
                    report(floor.events.get(timeout=LOOK_SECONDS))
                except queue.Empty:
                    continue
        finally:
            floor.end()


class _Floor:
    """Where the threads of a sweep meet: what is to be prepared, what is ready to be trained, what happened."""

    def __init__(self, engine: LocalEngine, tasks: Sequence[Task]):
        self.engine = engine
        self.events: queue.Queue[Event] = queue.Queue()
        self._todo = collections.deque(tasks)
        self._ready: list[collections.deque[BatchTraining]] = [collections.deque() for _ in engine.devices]
        self._load = [0] * len(engine.devices)  # batches given to each device and not yet complete
        self._open = len(tasks)
        self._ended = False
        self._changed = threading.Condition()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def prepare(self) -> None:
        """The work of a thread that compiles."""
        while (given := self._next_task()) is not None:
            task, device = given
            try:
                compiled = self.engine.cache.get(task.batch.first, task.width, self.engine.devices[device])
                training = BatchTraining(task, compiled, self.engine.pace.refresh_seconds)
            except Exception as error:  # whatever is wrong with this batch, the others go on
                self._fail(task, device, error)
                continue
            with self._changed:
                self._ready[device].append(training)
                self._changed.notify_all()

    def train(self, device: int) -> None:
        """The work of a thread that trains."""
        while (training := self._next_ready(device)) is not None:
            event = None
            try:
                for event in follow(training, self.engine.pace, lambda: self._ended):
                    self.events.put(event)
            except Exception as error:
                self._fail(training.task, device, error)
                continue
            if isinstance(event, Finished):
                self._close(device)

    def _next_task(self) -> tuple[Task, int] | None:
        with self._changed:
            while True:
                if self._ended or not self._open:
                    return None
                device = min(range(len(self._load)), key=self._load.__getitem__)
                if self._todo and self._load[device] < self.engine.workers + self.engine.waiting:
                    self._load[device] += 1
                    return self._todo.popleft(), device
                self._changed.wait()

    def _next_ready(self, device: int) -> BatchTraining | None:
        with self._changed:
            while True:
                if self._ended or not self._open:
                    return None
                if self._ready[device]:
                    return self._ready[device].popleft()
                self._changed.wait()

    def _fail(self, task: Task, device: int, error: Exception) -> None:
        """Tries again with smaller batches if memory was short; otherwise the batch has failed."""
        instead = after_trouble(task, reason_of(error), is_out_of_memory(error), self.events.put)
        with self._changed:
            self._todo.extendleft(reversed(instead))
            self._open += len(instead)
        self._close(device)

    def _close(self, device: int) -> None:
        with self._changed:
            self._open -= 1
            self._load[device] -= 1
            self._changed.notify_all()
