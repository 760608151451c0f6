"""Callbacks that follow a training: displays, experiment trackers, the user's own, and measurements."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from asymrl.runs.progress import Progress
from asymrl.runs.runs import Run

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from jaxtyping import Float

    from asymrl.learners.state import RunState
    from asymrl.settings import Settings


class StopRuns(Exception):  # noqa: N818  it is a request
    """Raised by a callback in `points` or `progress` to stop runs for good.

    A stopped run keeps what it has learned, with a checkpoint, and has the status `stopped`; the others go on.
    """

    def __init__(self, *numbers: int):
        """`numbers`: of the runs; without any, all that are not over."""
        super().__init__(", ".join(map(str, numbers)) or "all runs")
        self.numbers = frozenset(numbers)


class Callback:
    """Called by the training loop, in this order: begin, then compiling, progress and points, then end.

    These methods do nothing: override what you need. All calls come from one thread, and the training goes on
    meanwhile. `points` and `progress` may raise `StopRuns`; any other error there is mentioned once, and the training
    goes on.
    """

    def begin(self, runs: Sequence[Run]) -> None:
        """The training of these runs begins, or goes on. Nothing is compiled or loaded yet."""

    def compiling(self, shape: Settings, lanes: int) -> None:
        """A program for runs of this shape is being compiled, for this many lanes."""

    def progress(self, progress: Progress) -> None:
        """About a second has passed."""

    def points(self, run: int, table: pl.DataFrame) -> None:
        """New points of the learning curve of the run with this number: rows of `metrics.parquet`."""

    def say(self, message: str) -> None:
        """Something happened that the user should know."""

    def end(self) -> None:
        """The training is over, or was interrupted. Also called after an error."""


class Callbacks(Callback):
    """All of these, called one after the other."""

    def __init__(self, callbacks: Sequence[Callback]):
        self.callbacks = callbacks

    def begin(self, runs: Sequence[Run]) -> None:
        for callback in self.callbacks:
            callback.begin(runs)

    def compiling(self, shape: Settings, lanes: int) -> None:
        for callback in self.callbacks:
            callback.compiling(shape, lanes)

    def progress(self, progress: Progress) -> None:
        self._call_each(lambda callback: callback.progress(progress))

    def points(self, run: int, table: pl.DataFrame) -> None:
        self._call_each(lambda callback: callback.points(run, table))

    def _call_each(self, call: Callable[[Callback], None]) -> None:
        """Calls all of them, whatever one raises; then raises their stops as one, or else the first error."""
        stops, failures = [], []
        for callback in self.callbacks:
            try:
                call(callback)
            except StopRuns as stop:
                stops.append(stop)
            except Exception as error:
                failures.append(error)
        if stops:
            everything = any(not stop.numbers for stop in stops)
            raise StopRuns(*() if everything else sorted(frozenset().union(*(stop.numbers for stop in stops))))
        if failures:
            raise failures[0]

    def say(self, message: str) -> None:
        for callback in self.callbacks:
            callback.say(message)

    def end(self) -> None:
        for callback in self.callbacks:
            callback.end()


class Probe(Protocol):
    """A measurement of runs during training, such as the values of a few histories."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the numbers that the probe returns."""
        ...

    @property
    def every(self) -> int:
        """Environment steps of a run between two measurements."""
        ...

    def __call__(self, states: RunState) -> Float[np.ndarray, "run column"]:
        """The numbers, for every run."""
        ...


class Throttle:
    """Allows work every few seconds, and less often if it would take more than a share of the time.

    The shorter of the last two durations counts. One alone may mislead: a laptop that was closed while it wrote a table
    would write no other for hours.
    """

    def __init__(self, seconds: float, share: float):
        """`seconds`: the least between two pieces of work; `share`: the most of the time that work may take."""
        self.seconds, self.share = seconds, share
        self._ended_at = -float("inf")
        self._last, self._took = 0.0, 0.0  # seconds of the last work, and the shorter of the last two

    def is_due(self) -> bool:
        """Whether it is time again."""
        return time.monotonic() - self._ended_at >= max(self.seconds, self._took / self.share)

    def wait(self) -> None:
        """Begins to count the seconds now."""
        self._ended_at = time.monotonic()

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """Measures how long the work inside takes, and begins to count the seconds again."""
        begin = time.monotonic()
        try:
            yield
        finally:
            took = time.monotonic() - begin
            self._took, self._last = min(took, self._last), took
            self.wait()
