"""How a training looks while it runs: a live panel in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from asymrl.learning.state import METRICS
from asymrl.runs.batch import Batch
from asymrl.runs.listeners import Listener, Silent
from asymrl.runs.progress import Progress, Snapshot, mean_and_error

LINE_SECONDS, LINE_SHARE = 10.0, 0.05  # a plain line is printed after either
BARS = "▁▂▃▄▅▆▇█"
COMPILING = "compiling; only the first time takes long"


def display(console: Console | None = None) -> Listener:
    """The display that suits where the output goes."""
    console = console or Console(highlight=False)
    return LivePanel(console) if console.is_terminal else PlainLines(console)


class PlainLines(Silent):
    """A line every ten seconds or every twentieth of the way."""

    def __init__(self, console: Console):
        self.console = console
        self.printed_at, self.printed_share = -LINE_SECONDS, 0.0

    def begin(self, batch: Batch) -> None:
        self.console.print(title(batch), soft_wrap=True)
        self.console.print(COMPILING)

    def progress(self, progress: Progress) -> None:
        now = time.monotonic()
        due = now - self.printed_at >= LINE_SECONDS or progress.share - self.printed_share >= LINE_SHARE
        if due or progress.share == 1:
            self.printed_at, self.printed_share = now, progress.share
            self.console.print(line(progress), soft_wrap=True)

    def say(self, message: str) -> None:
        self.console.print(message, soft_wrap=True, markup=False)


class LivePanel(Silent):
    """Everything at a glance, drawn anew in place."""

    def __init__(self, console: Console):
        self.console = console
        self.live = Live(console=console, auto_refresh=False, transient=True)

    def begin(self, batch: Batch) -> None:
        self.console.print(title(batch), style="bold")
        self.live = Live(Spinner("dots", COMPILING, style="dim"), console=self.console, refresh_per_second=8)
        self.live.start()

    def progress(self, progress: Progress) -> None:
        self.live.update(panel(progress), refresh=True)

    def say(self, message: str) -> None:
        self.console.print(message, style="yellow", markup=False)

    def end(self) -> None:
        self.live.stop()


def title(batch: Batch) -> str:
    """What is trained, in a line."""
    return f"{batch.first.world} · {batch.first.method} · {_seeds(batch)} · {grouped(batch.first.steps)} steps each"


def _seeds(batch: Batch) -> str:
    if own := batch.differing():
        return f"{len(batch)} runs that differ in {', '.join(own)}"
    if len(batch) == 1:
        return f"seed {batch.seeds[0]}"
    first, last = min(batch.seeds), max(batch.seeds)
    if last - first + 1 == len(batch):
        return f"seeds {first} to {last}"
    return "seeds " + ", ".join(map(str, batch.seeds[:8])) + (" ..." if len(batch) > 8 else "")


def line(progress: Progress) -> str:
    """Where the training stands, in a line without markup."""
    returns, lengths = progress.snapshot.means()
    values = [
        f"{percent(progress):>4}",
        f"{grouped(progress.trained)} steps",
        f"return {plus_minus(returns)}",
        f"length {mean_and_error(lengths)[0]:.1f}",
        *(f"{name.replace('_', ' ')} {short(_mean(progress.snapshot, name))}" for name in SHOWN),
        speed(progress),
        left(progress),
    ]
    return "  ".join(filter(None, values))


SHOWN = ("critic_loss", "policy_loss", "negentropy_weight")


def panel(progress: Progress) -> RenderableType:
    """Where the training stands, with a bar and the learning curve so far."""
    bar = Table.grid(padding=(0, 2))
    bar.add_row(
        ProgressBar(total=1.0, completed=progress.share, width=36, complete_style="cyan", finished_style="green"),
        percent(progress),
        f"{grouped(progress.trained)} / {grouped(progress.batch.total_steps)} steps",
        speed(progress),
        left(progress),
    )
    returns, lengths = progress.snapshot.means()
    over = f"mean ± standard error of {len(progress.batch)} runs" if len(progress.batch) > 1 else ""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(justify="right", min_width=16)
    table.add_column(style="dim")
    table.add_row("return", Text(plus_minus(returns), style="bold"), f"of the last 100 episodes{over and ', ' + over}")
    table.add_row("episode length", f"{mean_and_error(lengths)[0]:.1f}", "steps")
    for name in SHOWN:
        table.add_row(name.replace("_", " "), short(_mean(progress.snapshot, name)))
    if failed := int(progress.snapshot.failed.sum()):
        table.add_row("failed", Text(str(failed), style="red"), f"of {len(progress.batch)} runs")
    return Group(bar, "", table, "", Text(sparkline(progress.snapshot), style="cyan"))


def sparkline(snapshot: Snapshot, width: int = 60) -> str:
    """The mean learning curve in one line of blocks, with its first and last value."""
    points = int(np.min(np.minimum(snapshot.logged, snapshot.curve.shape[1])))
    if points < 2:
        return ""
    curve = snapshot.curve[:, :points, METRICS.index("return")].mean(axis=0)
    values = [float(part.mean()) for part in np.array_split(curve, min(points, width))]
    low, high = min(values), max(values)
    heights = [int((value - low) / (high - low) * (len(BARS) - 1)) if high > low else 0 for value in values]
    return f"{values[0]:.2f} {''.join(BARS[height] for height in heights)} {values[-1]:.2f}"


def plus_minus(values: np.ndarray | Sequence[float]) -> str:
    """A mean over runs with its standard error, where there is one."""
    mean, error = mean_and_error(np.asarray(values))
    return f"{mean:.2f}" if np.isnan(error) else f"{mean:.2f} ± {error:.2f}"


def _mean(snapshot: Snapshot, metric: str) -> float:
    return mean_and_error(snapshot.latest(metric))[0]


def short(value: float) -> str:
    """Three digits, without exponent where that is readable."""
    if np.isnan(value):
        return "?"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.1e}"
    return (
        f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.4f}"
    )


def grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def percent(progress: Progress) -> str:
    """Rounded down, so that 100% is the end."""
    return f"{int(100 * progress.share)}%"


def speed(progress: Progress) -> str:
    return "" if progress.speed is None else f"{grouped(round(progress.speed))} steps/s"


def left(progress: Progress) -> str:
    seconds = progress.seconds_left
    if seconds is None or progress.share == 1:
        return ""
    minutes, hours = int(seconds) // 60, int(seconds) // 3600
    shown = f"{hours}:{minutes % 60:02d}:{int(seconds) % 60:02d}" if hours else f"{minutes}:{int(seconds) % 60:02d}"
    return f"{shown} left"
