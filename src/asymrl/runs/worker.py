"""The protocol of workers, which train a pool of lanes one call at a time, and the worker in this process."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, Protocol

from asymrl.envs.surroundings import Surroundings
from asymrl.learners.program import program
from asymrl.runs.arrays import SavedRuns
from asymrl.runs.devices import MEMORY_SHARE, memory_of
from asymrl.runs.lanes import Assignment, Failed, Retired
from asymrl.runs.placement import Pace
from asymrl.runs.pool import Pool
from asymrl.runs.tables import TRAINING, RunResult
from asymrl.runs.wording import size_text
from asymrl.settings import Settings
from asymrl.worlds.stepped_world import UserCodeError

CHECKPOINTS_SHARE = 0.05  # of the time of a pool may be spent on copying its states and waiting for the disk


class Order(NamedTuple):
    """What a pool is opened for."""

    shape: Settings
    lanes: int
    surroundings: Surroundings | None = None
    """What another process needs to make the world. None: the pool is in this process."""


class Request(NamedTuple):
    """One call of a worker: it opens a pool, or else changes the runs in its lanes and trains them for a while."""

    order: Order | None = None
    """For the pool to open. Nothing else is done in this call."""
    admit: tuple[Assignment, ...] = ()
    """Runs for free lanes."""
    drop: frozenset[int] = frozenset()
    """The numbers of runs to stop for good."""
    hand_back: bool = False
    """Whether all runs leave their lanes, saved; nothing is trained."""
    end: bool = False
    """Whether to close the pool; nothing is trained."""


class Failure(NamedTuple):
    """Why a pool could not go on. It is closed."""

    reason: str
    out_of_memory: bool


class Report(NamedTuple):
    """The answer to a request."""

    results: Mapping[int, RunResult] = {}
    """So far, of the runs in the lanes, by number."""
    retired: tuple[Retired, ...] = ()
    failed: tuple[Failed, ...] = ()
    saved: SavedRuns | None = None
    """The runs in the lanes, or those that left them, to go on with elsewhere."""
    free: int = 0
    """Lanes without a run."""
    seconds_left: float | None = None
    """Until the only run of a pool with one lane is over, where the speed is known."""
    seconds_per_step: float = 0.0
    """Of that run."""
    failure: Failure | None = None

    @property
    def has_states(self) -> bool:
        return self.saved is not None or any(each.saved is not None for each in (*self.retired, *self.failed))


class Seat(NamedTuple):
    """Where a worker is."""

    name: str
    place: Hashable = None
    """At one place, an accelerator serves each shape with one pool."""
    memory: Hashable = None
    """Workers of the same `memory` share it."""


class WorkerLostError(Exception):
    """A worker is gone, and what it had not reported with it. `is_final`: it cannot be started again."""

    def __init__(self, reason: str, *, is_final: bool = False):
        super().__init__(reason)
        self.is_final = is_final


class Worker(Protocol):
    """A pool of lanes behind one call, in a thread of this process or elsewhere."""

    @property
    def seat(self) -> Seat: ...

    def start(self) -> None:
        """Waits until it can be called; also after it was lost. Raises WorkerLostError."""
        ...

    def call(self, request: Request) -> Report:
        """Answers a request. Raises WorkerLostError."""
        ...

    def close(self) -> None:
        """Releases the worker, from any thread. A call elsewhere that is under way is lost."""
        ...


class LocalWorker:
    """A worker in this process, on one of its devices."""

    def __init__(self, device: Any, pace: Pace, name: str = "worker"):
        self.seat = Seat(name, device.id, None if device.platform == "cpu" else device.id)
        self._device, self._pace = device, pace
        self._pool: Pool | None = None
        self._saved_at, self._least_seconds = time.monotonic(), 0.0
        self._saving_since: float | None = None

    def start(self) -> None:
        """It can be called at any time."""

    def call(self, request: Request) -> Report:
        """Answers a request. Whatever is wrong with a shape is reported, and the next can be tried."""
        try:
            if request.order is not None:
                self._pool = open_pool(request.order, self._device, self._pace)
                return Report(free=request.order.lanes)
            assert self._pool is not None
            if request.hand_back or request.end:
                return self._leave(self._pool, request)
            return self._train(self._pool, request)
        except Exception as error:
            self._close_pool()
            if is_device_lost(error):
                raise WorkerLostError(reason_of(error), is_final=True) from error
            return Report(failure=Failure(reason_of(error), is_out_of_memory(error)))

    def close(self) -> None:
        """Its pool is closed by the last request; a thread cannot be ended from outside."""

    def _leave(self, pool: Pool, request: Request) -> Report:
        saved = pool.saved() if request.hand_back else None
        pool.clear()
        if request.end:
            self._close_pool()
        return Report(saved=saved, free=pool.free)

    def _close_pool(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _train(self, pool: Pool, request: Request) -> Report:
        """Calls the program of the pool once."""
        self._count_saving()
        if request.admit:
            pool.admit(request.admit)
        failed = pool.failed()
        if pool.is_empty:
            return Report(failed=tuple(failed), free=pool.free)
        took, is_queue_empty = 0.0, pool.free > 0
        if any(result.status == TRAINING for result in pool.results().values()):
            took = pool.advance()
        saves = self._pace.checkpoint_seconds is not None
        failed += [each if saves else each._replace(saved=None) for each in pool.failed()]
        retired = tuple(pool.retire(with_states=self._pace.keep_states, unwanted=request.drop))
        report = Report(pool.results(), retired, tuple(failed), self._checkpoint(pool))
        if took and not pool.is_empty:
            if is_queue_empty:
                pool.narrow(took)
            if pool.is_single and pool.is_timed:
                left, per_step = pool.seconds_left(took), pool.seconds_per_step(took)
                report = report._replace(seconds_left=left, seconds_per_step=per_step)
        return report._replace(free=pool.free)

    def _checkpoint(self, pool: Pool) -> SavedRuns | None:
        """The states of the runs in the lanes, if it is time."""
        now, seconds = time.monotonic(), self._pace.checkpoint_seconds
        if seconds is None or now - self._saved_at < max(seconds, self._least_seconds):
            return None
        self._saving_since = now
        return pool.saved()

    def _count_saving(self) -> None:
        """A checkpoint ends when the next call begins: a slow disk lets the pool wait until then."""
        if self._saving_since is not None:
            self._saved_at = time.monotonic()
            self._least_seconds = (self._saved_at - self._saving_since) / CHECKPOINTS_SHARE
            self._saving_since = None


class OutOfMemoryError(MemoryError):
    """The lanes of a pool do not fit on the device."""


def open_pool(order: Order, device: Any, pace: Pace) -> Pool:
    """A pool for an order. Raises OutOfMemoryError if it is known not to fit on the device."""
    if order.surroundings is not None:
        order.surroundings.set_up()
    pool = Pool(program(order.shape), order.lanes, device, pace.call_seconds)
    needed, available = pool.bytes_needed(), memory_of(device)
    if needed is not None and available is not None and needed > MEMORY_SHARE * available:
        pool.close()
        raise OutOfMemoryError(f"{order.lanes} lanes need {size_text(needed)} of {size_text(available)}")
    return pool


def reason_of(error: BaseException) -> str:
    """An error in one line; for an error of the user's code, followed by its traceback."""
    if isinstance(error, UserCodeError):
        return error.report
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text[:500]}"


def is_out_of_memory(error: BaseException) -> bool:
    return (
        isinstance(error, MemoryError)
        or "RESOURCE_EXHAUSTED" in str(error)
        or "out of memory" in str(error).lower().replace("_", " ")
    )


def is_device_lost(error: BaseException) -> bool:
    """Whether the device failed. If processes share a GPU, the fault of one ends the work of all of them."""
    text = str(error)
    return ("CUDA_ERROR_" in text and not is_out_of_memory(error)) or "Unable to initialize backend" in text
