"""The engine on a Ray cluster: batches become tasks, and what they reach comes back to the driver, which alone writes.

A task trains its batch for a while and returns its state, with which the next task goes on, wherever that runs. When
a worker dies, its task is given to another with the state that the driver has; nothing else is lost.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from asymrl.runs.files import RunError
from asymrl.runs.progress import Snapshot
from asymrl.sweeps.engine import (
    Advanced,
    Event,
    Finished,
    Kept,
    Pace,
    after_loss,
    after_trouble,
    is_out_of_memory,
    reason_of,
)
from asymrl.sweeps.in_flight import Saved
from asymrl.sweeps.results import Results
from asymrl.sweeps.training import BatchTraining, Task

LEG_SECONDS = 120.0  # of training in one task, if no checkpoints are wanted
LOOK_SECONDS = 0.5
CPU_BATCH, GPU_BATCH = 24, 256


class Leg(NamedTuple):
    """What a task brought back."""

    snapshot: Snapshot
    steps_per_second: float | None
    saved: Saved | None
    """The state of a batch that is not complete."""
    results: Results | None
    """Those of a batch that is."""


def train_leg(task: Task, seconds: float, refresh_seconds: float) -> Leg:
    """Trains a batch for so long, in the process of a worker."""
    import jax

    from asymrl.runs.cache import use_compilation_cache

    use_compilation_cache()
    compiled = _cache().get(task.batch.first, task.width, jax.local_devices()[0])
    training = BatchTraining(task, compiled, refresh_seconds)
    begin = time.monotonic()
    while training.is_active() and time.monotonic() - begin < seconds:
        training.advance()
    complete = not training.is_active()
    return Leg(
        training.snapshot,
        training.steps_per_second,
        None if complete else training.saved(),
        training.results() if complete else None,
    )


_COMPILED: list[Any] = []  # a worker's process is used for many tasks, and keeps what it has compiled


def _cache() -> Any:
    if not _COMPILED:
        from asymrl.sweeps.compiled import CompiledCache

        _COMPILED.append(CompiledCache())
    return _COMPILED[0]


@dataclass
class _Flight:
    """A task that was given to the cluster."""

    task: Task
    losses: int = 0


class RayEngine:
    """Trains batches on a Ray cluster."""

    def __init__(self, *, address: str | None = None, workers: int | None = None, pace: Pace = Pace()):  # noqa: B008
        """Connects to the cluster at `address`, to the one that this machine belongs to, or to a new one.

        Raises:
            RunError: if Ray is not installed or the cluster can't be reached.
        """
        self.ray, self.pace = _ray(), pace
        if not self.ray.is_initialized():
            _connect(self.ray, address)
        have = self.ray.cluster_resources()
        self.gpus = int(have.get("GPU", 0))
        per_gpu = workers or 1
        # On CPUs a batch gets two cores, which is what it can use.
        self.resources = {"num_gpus": 1 / per_gpu, "num_cpus": 1} if self.gpus else {"num_cpus": min(2, have["CPU"])}
        self.slots = self.gpus * per_gpu if self.gpus else max(1, int(have["CPU"] // self.resources["num_cpus"]))
        self.batch = GPU_BATCH if self.gpus else CPU_BATCH

    def run(self, tasks: Sequence[Task], report: Callable[[Event], None], stop: Callable[[], bool]) -> None:
        # The driver alone decides what is tried again: it has the newest state.
        leg = self.ray.remote(**self.resources, max_retries=0)(train_leg)
        waiting = [_Flight(task) for task in tasks]
        flying: dict[Any, _Flight] = {}
        while (waiting or flying) and not stop():
            while waiting and len(flying) < self._room():
                flight = waiting.pop(0)
                flying[leg.remote(flight.task, self._leg_seconds(), self.pace.refresh_seconds)] = flight
            ready, _ = self.ray.wait(list(flying), timeout=LOOK_SECONDS) if flying else ([], [])
            for reference in ready:
                waiting += self._landed(reference, flying.pop(reference), report)
        for reference in flying:
            self.ray.cancel(reference, force=True)

    def _room(self) -> int:
        """Tasks that the cluster may have at a time; it grows and shrinks."""
        have = self.ray.cluster_resources()
        by_gpu = int(have.get("GPU", 0) / self.resources.get("num_gpus", 1)) if self.gpus else 0
        return max(1, by_gpu or int(have.get("CPU", 1) // self.resources["num_cpus"]))

    def _leg_seconds(self) -> float:
        return LEG_SECONDS if self.pace.checkpoint_seconds is None else max(self.pace.checkpoint_seconds, 0.1)

    def _landed(self, reference: Any, flight: _Flight, report: Callable[[Event], None]) -> list[_Flight]:
        """Passes on what a task brought back. Returns what must fly next."""
        task, errors = flight.task, self.ray.exceptions
        try:
            leg: Leg = self.ray.get(reference)
        except errors.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            return [_Flight(each) for each in after_trouble(task, reason_of(cause), is_out_of_memory(cause), report)]
        except errors.RayError as error:
            flight.losses += 1
            failure = f"{flight.losses} workers were lost with it, the last one: {reason_of(error)}"
            return [flight] if after_loss(task, flight.losses, "worker", failure, report) else []
        report(Advanced(task, leg.snapshot, leg.steps_per_second))
        if leg.results is not None:
            report(Finished(task, leg.results))
            return []
        assert leg.saved is not None
        if self.pace.checkpoint_seconds is not None:
            report(Kept(leg.saved))
        return [_Flight(replace(task, saved=leg.saved), flight.losses)]


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
        raise RunError(f"the Ray cluster {address or ''} can not be reached: {error}") from error
