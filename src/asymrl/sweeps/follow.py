"""A batch from where it is to its end: the loop that all engines of one machine share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from asymrl.sweeps.engine import Advanced, Finished, Kept, Pace
from asymrl.sweeps.training import BatchTraining

CHECKPOINTS_SHARE = 0.05  # of the time of a batch may be spent on copying its state


def follow(training: BatchTraining, pace: Pace, ended: Callable[[], bool]) -> Iterator[Advanced | Kept | Finished]:
    """Trains a batch to its end, or until the sweep has `ended`, and tells what happens.

    The last event is `Finished` exactly if the batch is complete.
    """
    every = pace.checkpoint_seconds
    kept_at, took = time.monotonic(), 0.0
    while training.is_active() and not ended():
        training.advance()
        yield Advanced(training.task, training.snapshot, training.steps_per_second)
        now = time.monotonic()
        if every is not None and now - kept_at >= max(every, took / CHECKPOINTS_SHARE):
            yield Kept(training.saved())
            kept_at = time.monotonic()
            took = kept_at - now
    if not training.is_active():
        yield Finished(training.task, training.results())
    elif every is not None:
        yield Kept(training.saved())
