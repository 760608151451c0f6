"""Serving a place: a pool is opened for each order of the scheduler, and trained until there is nothing left to do."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

from asymrl.learners.factory import program
from asymrl.runs.events import Event, Opened
from asymrl.runs.lanes import Assignment
from asymrl.runs.loop import train_pool
from asymrl.runs.memory_plan import MEMORY_SHARE, MemoryPlan, memory_of
from asymrl.runs.placement import Pace
from asymrl.runs.pool import Pool
from asymrl.runs.scheduler import Order, Scheduler
from asymrl.runs.wording import size_text
from asymrl.worlds.stepped_world import UserCodeError


class OutOfMemoryError(MemoryError):
    """The lanes of a pool do not fit on the device."""


class SchedulerClient(Protocol):
    """The scheduler as one pool sees it, in the same process or from another."""

    def pick(self) -> Order | None: ...
    def take(self, count: int) -> list[Assignment]: ...
    def report(self, event: Event) -> None: ...
    def is_stopped(self) -> bool: ...
    def unwanted(self) -> frozenset[int]: ...
    def should_yield(self, seconds_left: float, seconds_per_step: float) -> bool: ...
    def requeue(self) -> None: ...
    def close(self) -> None: ...
    def fail(self, reason: str, out_of_memory: bool) -> None: ...


class LocalClient:
    """A client in the process of the scheduler."""

    def __init__(self, scheduler: Scheduler, pool: str, place: Hashable):
        self.scheduler, self.pool, self.place = scheduler, pool, place

    def pick(self) -> Order | None:
        return self.scheduler.pick(self.pool, self.place)

    def take(self, count: int) -> list[Assignment]:
        return self.scheduler.take(self.pool, count)

    def report(self, event: Event) -> None:
        self.scheduler.report(self.pool, event)

    def is_stopped(self) -> bool:
        return self.scheduler.is_stopped()

    def unwanted(self) -> frozenset[int]:
        return self.scheduler.unwanted()

    def should_yield(self, seconds_left: float, seconds_per_step: float) -> bool:
        return self.scheduler.should_yield(self.pool, seconds_left, seconds_per_step)

    def requeue(self) -> None:
        self.scheduler.requeue(self.pool)

    def close(self) -> None:
        self.scheduler.close(self.pool)

    def fail(self, reason: str, out_of_memory: bool) -> None:
        self.scheduler.fail(self.pool, reason, out_of_memory=out_of_memory)


def serve(client: SchedulerClient, device: Any, pace: Pace) -> None:
    """Serves a place: opens a pool for each order, and trains until there is nothing left to do."""
    while (order := client.pick()) is not None:
        try:
            client.report(Opened(order.shape, order.lanes))
            pool = open_pool(order, device, pace)
            try:
                train_pool(pool, client, pace, client)
            finally:
                pool.close()
        except Exception as error:  # whatever is wrong with this shape, the others go on
            if is_device_lost(error):
                raise
            client.fail(reason_of(error), is_out_of_memory(error))
        else:
            client.close()


def open_pool(order: Order, device: Any, pace: Pace) -> Pool:
    """A pool for an order. Raises OutOfMemoryError if it is known not to fit on the device."""
    if order.surroundings is not None:
        order.surroundings.set_up()
    plan = MemoryPlan(device.platform, memory_of(device), is_shared=True)
    if order.lanes > 1 and (fit := plan.lanes(order.shape)) is not None and fit < order.lanes:
        raise OutOfMemoryError(f"{order.lanes} lanes need {size_text(order.lanes * plan.bytes_of(order.shape))}")
    plan.check(order.shape)
    pool = Pool(program(order.shape), order.lanes, device, pace.call_seconds)
    needed, there = pool.bytes_needed(), memory_of(device)
    if needed is not None and there is not None and needed > MEMORY_SHARE * there:
        pool.close()
        raise OutOfMemoryError(f"{order.lanes} lanes need {size_text(needed)} of {size_text(there)}")
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
