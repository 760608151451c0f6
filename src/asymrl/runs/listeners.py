"""Listeners that follow a training: displays, experiment trackers, and the user's own callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """Raised by a listener in `points` or `progress` to stop runs for good.

    A stopped run keeps what it has learned, with a checkpoint, and has the status `stopped`; the others go on.
    """

    def __init__(self, *numbers: int):
        """`numbers`: of the runs; without any, all that are not over."""
        super().__init__(", ".join(map(str, numbers)) or "all runs")
        self.numbers = frozenset(numbers)


class Listener(Protocol):
    """Called by the training loop, in this order: begin, then compiling, progress and points, then end.

    All calls come from one thread, and the training goes on meanwhile. In `points` and `progress` a listener may raise
    `StopRuns`; any other error there is mentioned once, and the training goes on.
    """

    def begin(self, runs: Sequence[Run]) -> None:
        """The training of these runs begins, or goes on. Nothing is compiled or loaded yet."""
        ...

    def compiling(self, shape: Settings, lanes: int) -> None:
        """A program for runs of this shape is being compiled, for this many lanes."""
        ...

    def progress(self, progress: Progress) -> None:
        """About a second has passed."""
        ...

    def points(self, run: int, table: pl.DataFrame) -> None:
        """New points of the learning curve of the run with this number: rows of `metrics.parquet`."""
        ...

    def say(self, message: str) -> None:
        """Something happened that the user should know."""
        ...

    def end(self) -> None:
        """The training is over, or was interrupted. Also called after an error."""
        ...


class Silent:
    """A listener to build on: it does nothing."""

    def begin(self, runs: Sequence[Run]) -> None:
        del runs

    def compiling(self, shape: Settings, lanes: int) -> None:
        del shape, lanes

    def progress(self, progress: Progress) -> None:
        del progress

    def points(self, run: int, table: pl.DataFrame) -> None:
        del run, table

    def say(self, message: str) -> None:
        del message

    def end(self) -> None:
        pass


class ListenerGroup(Silent):
    """All listeners, called one after the other."""

    def __init__(self, listeners: Sequence[Listener]):
        self.listeners = listeners

    def begin(self, runs: Sequence[Run]) -> None:
        for listener in self.listeners:
            listener.begin(runs)

    def compiling(self, shape: Settings, lanes: int) -> None:
        for listener in self.listeners:
            listener.compiling(shape, lanes)

    def progress(self, progress: Progress) -> None:
        self._call_each(lambda listener: listener.progress(progress))

    def points(self, run: int, table: pl.DataFrame) -> None:
        self._call_each(lambda listener: listener.points(run, table))

    def _call_each(self, tell: Callable[[Listener], None]) -> None:
        """Calls all of them, whatever one raises; then raises their stops as one, or else the first error."""
        stops, failures = [], []
        for listener in self.listeners:
            try:
                tell(listener)
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
        for listener in self.listeners:
            listener.say(message)

    def end(self) -> None:
        for listener in self.listeners:
            listener.end()


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
