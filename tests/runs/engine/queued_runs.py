"""Runs in a queue, and what workers report of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asymrl.runs.arrays import SavedRuns
from asymrl.runs.lanes import Assignment, Retired
from asymrl.runs.run_queue import Broken, Noted, RunQueue, Stopped
from asymrl.runs.runs import Run
from asymrl.runs.tables import COMPLETE, RunResult
from asymrl.runs.worker import Order, Report, Seat
from asymrl.settings import Settings
from tests.runs.engine.conftest import tiny

SHAPES = [tiny(memory_size=size) for size in (4, 8)]


def assignments(count: int, *shapes: Settings) -> list[Assignment]:
    """So many runs of each shape."""
    runs = [Run(shape, seed) for shape in shapes for seed in range(count)]
    return [Assignment(number, run) for number, run in enumerate(runs)]


def saved(runs: Sequence[Run], version: int) -> SavedRuns:
    numbers = {"updates": np.full(len(runs), version)}
    return SavedRuns(tuple(runs), numbers, "threefry2x32", (0.0,) * len(runs))


def retired(*numbers: int, free: int = 0) -> Report:
    return Report(retired=tuple(Retired(number, RunResult(COMPLETE), None) for number in numbers), free=free)


def opened(queue: RunQueue, name: str, place: object = None, memory: object = None) -> Order:
    """What this worker opens a pool for; it still compiles."""
    request = queue.next(Seat(name, place, memory))  # pyright: ignore[reportArgumentType]
    assert request is not None
    assert request.order is not None
    return request.order


def admitted(queue: RunQueue, name: str, lanes: int) -> list[int]:
    """The runs that it then gets."""
    queue.report(name, Report(free=lanes))
    request = queue.next(Seat(name))
    assert request is not None
    return [each.number for each in request.admit]


def events(queue: RunQueue) -> list[Order | Report | Stopped | Broken | Noted]:
    """What has happened since the last time, now written."""
    happened = []
    while not queue.events.empty():
        event = queue.events.get()
        queue.written(event)
        happened.append(event.what)
    return happened


def messages(queue: RunQueue) -> list[Noted | Broken]:
    return [event for event in events(queue) if isinstance(event, Noted | Broken)]
