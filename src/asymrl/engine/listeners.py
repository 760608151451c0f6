"""Those who want to know how a training goes: displays, experiment trackers, and callbacks of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from asymrl.engine.progress import Progress
from asymrl.stores.runs import Run

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from jaxtyping import Float

    from asymrl.learning.settings import Settings
    from asymrl.learning.state import RunState


class Listener(Protocol):
    """Called by the training loop, in this order: begin, then compiling, progress and points, then end."""

    def begin(self, runs: Sequence[Run]) -> None:
        """The training of these runs begins, or goes on. Nothing is compiled or loaded yet."""
        ...

    def compiling(self, shape: Settings, lanes: int) -> None:
        """A program for runs of this shape is being compiled, for so many lanes."""
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


class Everyone(Silent):
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
        for listener in self.listeners:
            listener.progress(progress)

    def points(self, run: int, table: pl.DataFrame) -> None:
        for listener in self.listeners:
            listener.points(run, table)

    def say(self, message: str) -> None:
        for listener in self.listeners:
            listener.say(message)

    def end(self) -> None:
        for listener in self.listeners:
            listener.end()


class Probe(Protocol):
    """Something to ask runs during training, such as the values of a few histories."""

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
