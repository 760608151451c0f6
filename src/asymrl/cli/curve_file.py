"""The picture of the learning curves in a store, kept up to date while it trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from asymrl.runs.callback import Callback, Throttle
from asymrl.runs.progress import Progress
from asymrl.runs.runs import Run

if TYPE_CHECKING:
    import polars as pl

    from asymrl.runs.store import Store

CURVE_FILE = "curve.png"
DRAWING_SECONDS, DRAWING_SHARE = 30.0, 0.02  # between two pictures; of the time, for drawing them
MOST_RUNS = 100  # more are drawn when the training stops only


class CurveFile(Callback):
    """Draws `curve.png` every now and then, and whenever a training stops before its end."""

    def __init__(self, store: Store):
        self.store = store
        self.drawing = Throttle(DRAWING_SECONDS, DRAWING_SHARE)
        self.drawing.wait()
        self.is_changed = self.is_complete = self.has_many = False

    def begin(self, runs: Sequence[Run]) -> None:
        self.has_many = len(runs) > MOST_RUNS

    def points(self, run: int, table: pl.DataFrame) -> None:
        del run, table
        self.is_changed = True

    def progress(self, progress: Progress) -> None:
        self.is_complete = progress.share == 1
        if self.drawing.is_due() and not self.has_many:
            self.draw()

    def end(self) -> None:
        if not self.is_complete:  # the report on complete runs draws, too
            self.draw()

    def draw(self) -> None:
        """Draws the curves if there are new points."""
        from asymrl.api import Runs

        if not self.is_changed:
            return
        unfinished = self.store.path / f".{CURVE_FILE}"
        with self.drawing.work():
            try:
                Runs.of(self.store).plot(unfinished).replace(self.store.path / CURVE_FILE)
            except Exception:  # a picture must not end a training: its packages or its place may be missing
                unfinished.unlink(missing_ok=True)
        self.is_changed = False
