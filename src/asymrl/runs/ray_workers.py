"""Pools on a Ray cluster: workers train their lanes for a while and hand everything back to the driver, which writes.

A time slice of a pool starts from the driver's states, wherever a worker is free. When a worker dies, its runs go on
from those states in another; only that slice is lost.
"""

from __future__ import annotations

import importlib
import threading
import time
from typing import Any

from asymrl.runs.events import Advanced, Checkpointed, Event, Failed, Opened, Retired, Stopped
from asymrl.runs.files import RunError
from asymrl.runs.lanes import Assignment
from asymrl.runs.loop import train_pool
from asymrl.runs.placement import Pace
from asymrl.runs.scheduler import Order, Scheduler
from asymrl.runs.serving import LocalClient, is_out_of_memory, open_pool, reason_of

SLICE_SECONDS = 120.0  # of training in one slice, if there are no checkpoints
POLL_SECONDS = 0.5


class TimeSlice:
    """The runs of one time slice, until they or its time are over."""

    def __init__(self, assignments: list[Assignment], seconds: float):
        self._waiting, self._end_at = list(assignments), time.monotonic() + seconds
        self.events: list[Event] = []

    def take(self, count: int) -> list[Assignment]:
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def report(self, event: Event) -> None:
        if isinstance(event, Advanced | Checkpointed):  # only the last counts
            self.events = [each for each in self.events if not isinstance(each, type(event))]
        self.events.append(event)

    def is_stopped(self) -> bool:
        return time.monotonic() >= self._end_at

    def unwanted(self) -> frozenset[int]:
        """No runs: those that are stopped meanwhile are left out of the next slice."""
        return frozenset()


def train_slice(order: Order, assignments: list[Assignment], seconds: float, pace: Pace) -> list[Event]:
    """Trains runs for this long, in a worker's process. Returns the events, the states of unfinished runs last."""
    import jax

    from asymrl.runs.cache import use_compilation_cache

    use_compilation_cache()
    device = jax.local_devices()[0]
    pool = open_pool(order, device, pace)
    time_slice = TimeSlice(assignments, seconds)
    # The states come back at the end of the slice in any case.
    train_pool(pool, time_slice, Pace(pace.refresh_seconds, 1e9, pace.keep_states))
    pool.close()
    return time_slice.events


class RayWorkers:
    """Pools on a Ray cluster."""

    def __init__(self, *, address: str | None = None, workers: int | None = None, pace: Pace):
        """Connects to the cluster at `address`, to the one that this machine belongs to, or to a new one.

        Raises:
            RunError: if Ray is not installed or the cluster cannot be reached.
        """
        self.ray, self.pace = _ray(), pace
        if not self.ray.is_initialized():
            _connect(self.ray, address)
        have = self.ray.cluster_resources()
        self.gpus = int(have.get("GPU", 0))
        per_gpu = workers or 1
        self.resources = {"num_gpus": 1 / per_gpu, "num_cpus": 1} if self.gpus else {"num_cpus": 1}
        self.platform, self.places = "gpu" if self.gpus else "cpu", self._room()
        self.plan, self.layout = None, None  # each worker looks at what its device has left
        self._threads: list[threading.Thread] = []

    def start(self, scheduler: Scheduler) -> None:
        # One thread for each slice that the cluster has room for now.
        for i in range(self._room()):
            client = LocalClient(scheduler, f"ray worker {i}", i)
            self._threads.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
        for thread in self._threads:
            thread.start()

    def is_alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def end(self) -> None:
        for thread in self._threads:
            thread.join(timeout=10 * POLL_SECONDS)

    def _room(self) -> int:
        have = self.ray.cluster_resources()
        if self.gpus:
            return max(1, int(have.get("GPU", 0) / self.resources["num_gpus"]))
        return max(1, int(have.get("CPU", 1) // self.resources["num_cpus"]))

    def _serve(self, client: LocalClient) -> None:
        try:
            self._train_slices(client)
        except Exception as error:  # nobody else would learn what happened to its runs
            client.scheduler.lose(client.pool, reason_of(error))

    def _train_slices(self, client: LocalClient) -> None:
        # The driver alone decides what is tried again: it has the newest states.
        train = self.ray.remote(**self.resources, max_retries=0, max_calls=0)(train_slice)
        seconds = SLICE_SECONDS if self.pace.checkpoint_seconds is None else max(self.pace.checkpoint_seconds, 0.1)
        while (order := client.pick()) is not None:
            assignments: dict[int, Assignment] = {}
            client.report(Opened(order.shape, order.lanes))
            while not client.is_stopped():
                assignments |= {each.number: each for each in client.take(order.lanes - len(assignments))}
                if unwanted := tuple(number for number in assignments if number in client.unwanted()):
                    client.report(Stopped(unwanted))
                    assignments = {number: each for number, each in assignments.items() if number not in unwanted}
                    continue
                if not assignments:
                    client.close()
                    break
                reference = train.remote(order, list(assignments.values()), seconds, self.pace)
                if not self._bring_back(client, reference, assignments):
                    break

    def _bring_back(self, client: LocalClient, reference: Any, assignments: dict[int, Assignment]) -> bool:
        """Waits for a slice and passes on what it brought. Returns whether the pool goes on."""
        while not self.ray.wait([reference], timeout=POLL_SECONDS)[0]:
            if client.is_stopped():
                self.ray.cancel(reference, force=True)
                client.close()
                return False
        try:
            events: list[Event] = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            client.fail(reason_of(cause), is_out_of_memory(cause))
            return False
        except self.ray.exceptions.RayError as error:
            client.scheduler.lose(client.pool, reason_of(error))
            return False
        for event in events:
            client.report(event)
            if isinstance(event, Retired | Failed):
                assignments.pop(event.number, None)
            elif isinstance(event, Checkpointed):
                numbers = {each.run: each.number for each in assignments.values()}
                for row, run in enumerate(event.saved.runs):
                    number = numbers[run]
                    assignments[number] = assignments[number]._replace(saved=event.saved.only([row]))
        return True


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise RunError('the engine ray needs another package: pip install "asymrl[ray]"') from error


def _connect(ray: Any, address: str | None) -> None:
    options = {"log_to_driver": False, "logging_level": "warning"}
    try:
        if address is not None:
            ray.init(address=address, **options)
            return
        try:
            ray.init(address="auto", **options)
        except ConnectionError:
            ray.init(include_dashboard=False, **options)
    except (ConnectionError, OSError, ValueError, RuntimeError) as error:
        raise RunError(f"the Ray cluster {address or ''} cannot be reached: {error}") from error
