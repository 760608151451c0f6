"""Runs in a queue, and what pools report of them."""

from __future__ import annotations

import numpy as np

from asymrl.runs.events import Event, Retired
from asymrl.runs.lanes import Assignment
from asymrl.runs.runs import Run
from asymrl.runs.saved_runs import SavedRuns
from asymrl.runs.scheduler import Scheduler
from asymrl.runs.tables import COMPLETE, RunResult
from asymrl.settings import Settings
from tests.runs.engine.conftest import tiny

SHAPES = [tiny(memory_size=size) for size in (4, 8)]


def assignments(count: int, *shapes: Settings) -> list[Assignment]:
    """So many runs of each shape."""
    runs = [Run(shape, seed) for shape in shapes for seed in range(count)]
    return [Assignment(number, run) for number, run in enumerate(runs)]


def saved(runs: list[Run], version: int) -> SavedRuns:
    numbers = {"updates": np.full(len(runs), version)}
    return SavedRuns(tuple(runs), numbers, "threefry2x32", (0.0,) * len(runs))


def retired(number: int) -> Retired:
    return Retired(number, RunResult(COMPLETE), None)


def events(scheduler: Scheduler) -> list[Event]:
    """What has been reported since the last time."""
    reported = []
    while not scheduler.events.empty():
        reported.append(scheduler.events.get().event)
    return reported
