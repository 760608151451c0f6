"""How a sweep looks while it runs: cells done, speed, time left, and the batches in flight."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from asymrl.runs.batch import Batch
from asymrl.runs.display import grouped, plus_minus
from asymrl.runs.progress import Clock, Snapshot

LINE_SECONDS, LIVE_SECONDS = 10.0, 0.25
MOST_SHOWN = 12


@dataclass
class Flight:
    """A batch that is being trained."""

    batch: Batch
    snapshot: Snapshot
    steps_per_second: float | None

    @property
    def steps(self) -> int:
        """Of all runs; those that are over count as done."""
        wanted = np.asarray([settings.steps for settings in self.batch.settings])
        over = self.snapshot.solved | self.snapshot.failed
        return int(np.where(over, wanted, np.minimum(self.snapshot.timesteps, wanted)).sum())


@dataclass
class Status:
    """Where a sweep stands."""

    cells: int
    """In the whole sweep."""
    cells_done: int
    steps: int
    """Of the whole sweep."""
    steps_done: int
    """In cells that are done."""
    failed: int = 0
    flights: dict[int, Flight] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)

    @property
    def steps_reached(self) -> int:
        return self.steps_done + sum(flight.steps for flight in self.flights.values())

    @property
    def share(self) -> float:
        return min(self.steps_reached / self.steps, 1.0) if self.steps else 1.0

    @property
    def seconds_left(self) -> float | None:
        speed = self.clock.steps_per_second()
        return (self.steps - self.steps_reached) / speed if speed else None

    def look(self) -> None:
        """Notes the time, from which the speed follows."""
        self.clock.look(time.monotonic(), self.steps_reached)


def headline(status: Status) -> str:
    """Where the sweep stands, in a line without markup."""
    speed, left = status.clock.steps_per_second(), status.seconds_left
    parts = [
        f"{int(100 * status.share):>3}%",
        f"{grouped(status.cells_done)} of {grouped(status.cells)} cells",
        f"{status.failed} failed" if status.failed else "",
        f"{len(status.flights)} batches in flight" if status.flights else "",
        f"{grouped(round(speed))} steps/s" if speed else "",
        f"{duration(left)} left" if left is not None and status.share < 1 else "",
    ]
    return "  ".join(filter(None, parts))


def duration(seconds: float) -> str:
    hours, minutes = int(seconds) // 3600, int(seconds) // 60 % 60
    return f"{hours}:{minutes:02d}:{int(seconds) % 60:02d}" if hours else f"{minutes}:{int(seconds) % 60:02d}"


def panel(status: Status) -> RenderableType:
    """The same with a bar, and a row for each batch in flight."""
    bar = ProgressBar(total=1.0, completed=status.share, width=40, complete_style="cyan", finished_style="green")
    top = Table.grid(padding=(0, 2))
    top.add_row(bar, headline(status))
    rows = Table.grid(padding=(0, 2))
    for justify in ("left", "left", "right", "right", "right", "right"):
        rows.add_column(justify=justify)
    shown = list(status.flights.values())[:MOST_SHOWN]
    for flight in shown:
        speed = f"{grouped(round(flight.steps_per_second))} steps/s" if flight.steps_per_second else ""
        done = f"{int(100 * flight.steps / flight.batch.total_steps)}%"
        returns = plus_minus(flight.snapshot.means()[0])
        rows.add_row(
            flight.batch.first.world, flight.batch.first.method, f"{len(flight.batch)} runs", done,
            f"return {returns}", Text(speed, style="dim"),
        )  # fmt: skip
    more = len(status.flights) - len(shown)
    return Group(top, "", rows, *([f"and {more} more"] if more else []))


class SweepDisplay:
    """A live panel in a terminal, a line every ten seconds elsewhere."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(highlight=False)
        self._live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None
        self._shown_at = -np.inf

    def begin(self, title: str) -> None:
        self.console.print(title, soft_wrap=True, markup=False)
        if self._live:
            self._live.start()

    def show(self, status: Status, *, now: bool = False) -> None:
        """Draws the status, unless that was done a moment ago."""
        pause = LIVE_SECONDS if self._live else LINE_SECONDS
        if not now and time.monotonic() - self._shown_at < pause:
            return
        status.look()
        if self._live:
            self._live.update(panel(status), refresh=True)
        else:
            self.console.print(headline(status), soft_wrap=True, markup=False)
        self._shown_at = time.monotonic()

    def say(self, message: str) -> None:
        self.console.print(message, soft_wrap=True, markup=False)

    def end(self) -> None:
        if self._live:
            self._live.stop()
