"""Those who want to know how a training goes: displays and experiment trackers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from asymrl.runs.batch import Batch
from asymrl.runs.progress import Progress

if TYPE_CHECKING:
    import polars as pl


class Listener(Protocol):
    """Told by the training loop what happens, in this order: begin, then progress and points, then end."""

    def begin(self, batch: Batch) -> None:
        """The training of these runs begins, or goes on. Nothing is compiled or loaded yet."""
        ...

    def progress(self, progress: Progress) -> None:
        """A second or two have passed."""
        ...

    def points(self, run: int, table: pl.DataFrame) -> None:
        """New points of the learning curve of a run of the batch: rows of `metrics.parquet`."""
        ...

    def say(self, message: str) -> None:
        """Something happened that the user should know."""
        ...

    def end(self) -> None:
        """The training is over, or was interrupted. Also called after an error."""
        ...


class Silent:
    """A listener to build on: it does nothing."""

    def begin(self, batch: Batch) -> None:
        del batch

    def progress(self, progress: Progress) -> None:
        del progress

    def points(self, run: int, table: pl.DataFrame) -> None:
        del run, table

    def say(self, message: str) -> None:
        del message

    def end(self) -> None:
        pass


class Everyone(Silent):
    """All listeners, told one after the other."""

    def __init__(self, listeners: list[Listener]):
        self.listeners = listeners

    def begin(self, batch: Batch) -> None:
        for listener in self.listeners:
            listener.begin(batch)

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
