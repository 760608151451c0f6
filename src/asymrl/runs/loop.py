"""The one loop of training: it keeps the lanes of a pool filled, and reports what happens in them."""

from __future__ import annotations

import time
from typing import Protocol

from asymrl.runs.events import Advanced, Checkpointed, Event
from asymrl.runs.lanes import Assignment
from asymrl.runs.placement import Pace
from asymrl.runs.pool import Pool
from asymrl.runs.tables import TRAINING

CHECKPOINTS_SHARE = 0.05  # of the time of a pool may be spent on copying its states


class RunSource(Protocol):
    """Where a pool takes its runs from, and reports to."""

    def take(self, count: int) -> list[Assignment]:
        """At most `count` further runs of the pool's shape."""
        ...

    def report(self, event: Event) -> None: ...

    def is_stopped(self) -> bool: ...

    def unwanted(self) -> frozenset[int]:
        """The numbers of the runs that were stopped."""
        ...


class TurnTaking(Protocol):
    """How runs take turns, where pools have one lane each."""

    def should_yield(self, seconds_left: float, seconds_per_step: float) -> bool:
        """Whether a waiting run needs longer than the one in the pool, which needs `seconds_left`."""
        ...

    def requeue(self) -> None:
        """Puts the runs of the pool back into the queue, as they were last saved."""
        ...


def train_pool(pool: Pool, source: RunSource, pace: Pace, turns: TurnTaking | None = None) -> None:
    """Trains runs from `source` until there are none, or until it is stopped; then saves the runs in the lanes.

    With `turns`, the run of a pool with one lane steps aside for one that needs longer.
    """
    saved_at, saving = time.monotonic(), 0.0
    while not source.is_stopped():
        if pool.free and (assignments := source.take(pool.free)):
            pool.admit(assignments)
        for each in pool.failed():
            source.report(each)
        if pool.is_empty:
            return
        took, is_queue_empty = 0.0, pool.free > 0
        if any(result.status == TRAINING for result in pool.results().values()):
            took = pool.advance()
        for each in pool.failed():
            source.report(each if pace.checkpoint_seconds is not None else each._replace(saved=None))
        retired = list(pool.retire(with_states=pace.keep_states, unwanted=source.unwanted()))
        source.report(Advanced(pool.results()))
        for each in retired:
            source.report(each)
        now = time.monotonic()
        if pace.checkpoint_seconds is not None and now - saved_at >= max(pace.checkpoint_seconds, saving):
            _report_states(pool, source)
            saved_at = time.monotonic()
            saving = (saved_at - now) / CHECKPOINTS_SHARE
        if is_queue_empty and took and not pool.is_empty:
            pool.narrow(took)
        if turns and pace.checkpoint_seconds is not None and took and _is_shorter(pool, turns, took):
            # All runs should end together: on a core, the last one alone would leave the others idle.
            _report_states(pool, source)
            pool.clear()
            turns.requeue()
    if pace.checkpoint_seconds is not None:
        _report_states(pool, source)


def _report_states(pool: Pool, source: RunSource) -> None:
    if (saved := pool.saved()) is not None:
        source.report(Checkpointed(saved))


def _is_shorter(pool: Pool, turns: TurnTaking, took: float) -> bool:
    """Whether the run of a pool with one lane will be over before a waiting one."""
    if not pool.is_single or pool.is_empty or not pool.is_timed:
        return False
    return turns.should_yield(pool.seconds_left(took), pool.seconds_per_step(took))
