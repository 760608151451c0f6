"""What every engine of sweeps does: it trains tasks somewhere, and tells the one who writes what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from asymrl.runs.progress import Snapshot
from asymrl.sweeps.in_flight import Saved
from asymrl.sweeps.results import Results
from asymrl.sweeps.training import CALL_SECONDS, Task

MOST_LOSSES = 5  # workers that one batch may lose before it counts as failed


class Advanced(NamedTuple):
    """A batch has been trained a little further."""

    task: Task
    snapshot: Snapshot
    steps_per_second: float | None


class Kept(NamedTuple):
    """The state of a batch, to be kept in case that it is interrupted."""

    saved: Saved


class Finished(NamedTuple):
    """A batch is complete."""

    task: Task
    results: Results


class Failed(NamedTuple):
    """A batch could not be trained."""

    task: Task
    reason: str


class Halved(NamedTuple):
    """A batch did not fit into memory; two of half its size take its place."""

    task: Task


class Noted(NamedTuple):
    """Something that the user may want to know."""

    message: str


Event = Advanced | Kept | Finished | Failed | Halved | Noted


class Engine(Protocol):
    """Trains tasks."""

    def run(self, tasks: Sequence[Task], report: Callable[[Event], None], stop: Callable[[], bool]) -> None:
        """Trains the tasks until all are finished or failed, or until `stop` says so.

        `report` is called in the caller's thread only. Stopped tasks are reported as `Kept` a last time, if
        checkpoints are wanted.
        """
        ...


@dataclass(frozen=True)
class Pace:
    """How often batches in flight are looked at and kept. Results do not depend on it."""

    checkpoint_seconds: float | None = 60.0
    """Seconds between two checkpoints of a batch. None: never."""
    refresh_seconds: float = CALL_SECONDS
    """Seconds between two looks at a batch."""

    def __post_init__(self) -> None:
        if not self.refresh_seconds > 0:
            raise ValueError(f"refresh_seconds is {self.refresh_seconds}; it must be a positive number")
        if self.checkpoint_seconds is not None and not self.checkpoint_seconds >= 0:
            raise ValueError(f"checkpoint_seconds is {self.checkpoint_seconds}; it can't be negative")


def reason_of(error: BaseException) -> str:
    """An error in one line."""
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


def halves(task: Task) -> list[Task]:
    """The task as two that need half the memory each."""
    from asymrl.sweeps.cells import batch_of, cells_of

    count = (len(task.batch) + 1) // 2
    rows = list(range(len(task.batch)))
    tasks = []
    for part in (rows[:count], rows[count:]):
        batch = batch_of([cells_of(task.batch)[row] for row in part])
        saved = task.saved and task.saved.only(part)
        tasks.append(Task(batch, count, saved, task.probe))
    return tasks


def after_trouble(task: Task, reason: str, out_of_memory: bool, report: Callable[[Event], None]) -> list[Task]:
    """Tells that a batch could not be trained. Returns what to try instead: its halves, if memory was short."""
    if out_of_memory and len(task.batch) > 1:
        report(Halved(task))
        return halves(task)
    report(Failed(task, reason))
    return []


def after_loss(task: Task, losses: int, worker: str, failure: str, report: Callable[[Event], None]) -> bool:
    """Tells that one more worker was lost with its batch. Returns whether to try again; if not, `failure` says why."""
    if losses > MOST_LOSSES:
        report(Failed(task, failure))
        return False
    first = task.batch.first
    report(Noted(f"a {worker} with {first.world} {first.method} was lost; trying again"))
    return True
