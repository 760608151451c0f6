"""Serving a place: a pool is opened for each order of the floor, and trained until there is nothing left to do."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

from asymrl.engine.events import Event, Opened
from asymrl.engine.floor import Floor, Order
from asymrl.engine.lanes import Assignment
from asymrl.engine.loop import train_pool
from asymrl.engine.memory_plan import MEMORY_SHARE, MemoryPlan, memory_of
from asymrl.engine.placement import Pace
from asymrl.engine.pool import Pool
from asymrl.learning.programs.factory import program
from asymrl.stores.wording import size_text
from asymrl.worlds.stepped_world import UserCodeError


class OutOfMemoryError(MemoryError):
    """So many lanes do not fit on the device."""


class Desk(Protocol):
    """The floor as one pool sees it, in the same process or from another."""

    def pick(self) -> Order | None: ...
    def take(self, count: int) -> list[Assignment]: ...
    def report(self, event: Event) -> None: ...
    def is_stopped(self) -> bool: ...
    def unwanted(self) -> frozenset[int]: ...
    def should_step_aside(self, seconds_left: float, seconds_per_step: float) -> bool: ...
    def put_back(self) -> None: ...
    def close(self) -> None: ...
    def fail(self, reason: str, out_of_memory: bool) -> None: ...


class LocalDesk:
    """A desk in the process of the floor."""

    def __init__(self, floor: Floor, pool: str, place: Hashable):
        self.floor, self.pool, self.place = floor, pool, place

    def pick(self) -> Order | None:
        return self.floor.pick(self.pool, self.place)

    def take(self, count: int) -> list[Assignment]:
        return self.floor.take(self.pool, count)

    def report(self, event: Event) -> None:
        self.floor.report(self.pool, event)

    def is_stopped(self) -> bool:
        return self.floor.is_stopped()

    def unwanted(self) -> frozenset[int]:
        return self.floor.unwanted()

    def should_step_aside(self, seconds_left: float, seconds_per_step: float) -> bool:
        return self.floor.should_step_aside(self.pool, seconds_left, seconds_per_step)

    def put_back(self) -> None:
        self.floor.put_back(self.pool)

    def close(self) -> None:
        self.floor.close(self.pool)

    def fail(self, reason: str, out_of_memory: bool) -> None:
        self.floor.fail(self.pool, reason, out_of_memory=out_of_memory)


def serve(desk: Desk, device: Any, pace: Pace) -> None:
    """The life of a pool's place: opens a pool for each order, and trains until there is nothing left to do."""
    while (order := desk.pick()) is not None:
        try:
            desk.report(Opened(order.shape, order.lanes))
            pool = open_pool(order, device, pace)
            try:
                train_pool(pool, desk, pace, desk)
            finally:
                pool.close()
        except Exception as error:  # whatever is wrong with this shape, the others go on
            if is_device_lost(error):
                raise
            desk.fail(reason_of(error), is_out_of_memory(error))
        else:
            desk.close()


def open_pool(order: Order, device: Any, pace: Pace) -> Pool:
    """A pool for an order. Raises OutOfMemoryError if it is known not to fit on the device."""
    if order.surroundings is not None:
        order.surroundings.set_up()
    plan = MemoryPlan(device.platform, memory_of(device), is_shared=True)
    if order.lanes > 1 and (fit := plan.lanes(order.shape)) is not None and fit < order.lanes:
        raise OutOfMemoryError(f"{order.lanes} lanes need {size_text(order.lanes * plan.bytes_of(order.shape))}")
    plan.check(order.shape)
    pool = Pool(program(order.shape), order.lanes, device, pace.refresh_seconds)
    needed, there = pool.bytes_needed(), memory_of(device)
    if needed is not None and there is not None and needed > MEMORY_SHARE * there:
        pool.close()
        raise OutOfMemoryError(f"{order.lanes} lanes need {size_text(needed)} of {size_text(there)}")
    return pool


def reason_of(error: BaseException) -> str:
    """An error in one line; under that of the user's own environment, the traceback of their code."""
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
