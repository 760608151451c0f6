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

from asymrl.runs.callback import Callback
from asymrl.runs.progress import Progress
from asymrl.runs.runs import Run, differing_by_choice
from asymrl.runs.statistics import mean_and_error
from asymrl.runs.tables import RunResult
from asymrl.runs.wording import duration, listed, plural, plus_minus, thousands

LINE_SECONDS, LINE_SHARE = 10.0, 0.05  # a plain line is printed after either
BARS = "▁▂▃▄▅▆▇█"
RETURN = 3  # the column of a curve
MOST_SHOWN = 12


def plain_console() -> Console:
    """A console that prints text as it is: names of worlds may hold `:four:` or `[red]`."""
    return Console(highlight=False, markup=False, emoji=False)


def standard_display(console: Console | None = None) -> Callback:
    """The display that suits the output: a terminal, or anything else."""
    console = console or plain_console()
    return LivePanel(console) if console.is_terminal else PlainLines(console)


class PlainLines(Callback):
    """A line every ten seconds, every twentieth of the way, and for every program that is compiled."""

    def __init__(self, console: Console):
        self.console = console
        self.printed_at, self.printed_share, self.compiled = -LINE_SECONDS, 0.0, set[int]()

    def begin(self, runs: Sequence[Run]) -> None:
        self.console.print(title(runs), soft_wrap=True)

    def progress(self, progress: Progress) -> None:
        now = time.monotonic()
        is_due = now - self.printed_at >= LINE_SECONDS or progress.share - self.printed_share >= LINE_SHARE
        is_new = not {each.number for each in progress.compilations} <= self.compiled
        if is_due or is_new or (progress.share == 1 and self.printed_share < 1):
            self.compiled |= {each.number for each in progress.compilations}
            self.printed_at, self.printed_share = now, progress.share
            self.console.print(line(progress), soft_wrap=True)

    def say(self, message: str) -> None:
        self.console.print(message, soft_wrap=True)


class LivePanel(Callback):
    """Everything at a glance, redrawn in place."""

    def __init__(self, console: Console):
        self.console = console
        self.live = Live(console=console, auto_refresh=False, transient=True)

    def begin(self, runs: Sequence[Run]) -> None:
        self.console.print(title(runs), style="bold")
        self.live = Live(Spinner("dots", "loading", style="dim"), console=self.console, refresh_per_second=8)
        self.live.start()

    def progress(self, progress: Progress) -> None:
        self.live.update(panel(progress), refresh=True)

    def say(self, message: str) -> None:
        self.console.print(message, style="yellow")

    def end(self) -> None:
        self.live.stop()


def title(runs: Sequence[Run]) -> str:
    """What is trained, in a line."""
    first, own = runs[0].settings, differing_by_choice(runs)
    steps = sorted({run.settings.steps for run in runs})
    length = thousands(steps[0]) if len(steps) == 1 else f"{thousands(steps[0])} to {thousands(steps[-1])}"
    worlds, methods = (list(dict.fromkeys(getattr(run.settings, n) for run in runs)) for n in ("world", "method"))
    what = [
        first.world if len(worlds) == 1 else plural("world", len(worlds)),
        first.method if len(methods) == 1 else plural("method", len(methods)),
        _which_runs(runs, [name for name in own if name not in ("world", "method")], len(worlds) * len(methods)),
        f"{length} steps each",
    ]
    return " · ".join(what)


def _which_runs(runs: Sequence[Run], own: Sequence[str], groups: int) -> str:
    seeds = sorted({run.seed for run in runs})
    if own:
        return f"{plural('run', len(runs))} that differ in {', '.join(own)}"
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    in_a_row = len(seeds) > 2 and seeds[-1] - seeds[0] + 1 == len(seeds)
    shown = f"{seeds[0]} to {seeds[-1]}" if in_a_row else _first_few(seeds)
    return f"seeds {shown}" if groups == 1 else f"{plural('run', len(runs))}, seeds {shown}"


def _first_few(seeds: Sequence[int]) -> str:
    return listed([*map(str, seeds)]) if len(seeds) <= 8 else ", ".join(map(str, seeds[:8])) + " ..."


def compilation(progress: Progress) -> str:
    """What is being compiled and for how long, or nothing: `compiling 2 of 5 (tiger a2c-asym-s), 12 s`."""
    if not (now := progress.compilations):
        return ""
    what = ", ".join(dict.fromkeys(f"{each.shape.world} {each.shape.method}" for each in now))
    if now[0].of > 1:
        what = f"{listed([str(each.number) for each in now])} of {now[0].of} ({what})"
    seconds = int(max(each.seconds for each in now))
    return f"compiling {what}" + (f", {seconds} s" if seconds else "")


def line(progress: Progress) -> str:
    """The progress of the training, in a line without markup."""
    if not progress.results or (progress.compilations and not progress.training and not progress.over):
        return compilation(progress)
    several = len(progress.runs) > 1
    values = [
        f"{percent(progress):>4}",
        f"{thousands(progress.trained)} steps",
        f"{progress.over} of {plural('run', len(progress.runs))} over" if several and progress.over else "",
        f"{len(progress.training)} training" if several and progress.training else "",
        f"{progress.failed} failed" if progress.failed else "",
        *(_returns(progress) if is_uniform(progress.runs) else ()),
        _speed(progress),
        _time_left(progress),
        compilation(progress),
    ]
    return "  ".join(filter(None, values))


def is_uniform(runs: Sequence[Run]) -> bool:
    """Whether a mean over the runs means something: they share world and method."""
    return len({(run.settings.world, run.settings.method) for run in runs}) == 1


def _returns(progress: Progress) -> tuple[str, ...]:
    """Nothing before the first episode of a run is over."""
    if not np.isfinite(progress.returns()).any():
        return ()
    return f"return {plus_minus(progress.returns())}", f"length {float(mean_and_error(progress.lengths())[0]):.1f}"


def panel(progress: Progress) -> RenderableType:
    """The progress of the training: a bar, and the learning curve so far or a row for each world and method."""
    busy = Spinner("dots", compilation(progress), style="dim") if progress.compilations else ""
    if not progress.results:
        return busy
    bar = Table.grid(padding=(0, 2))
    bar.add_row(
        ProgressBar(total=1.0, completed=progress.share, width=36, complete_style="cyan", finished_style="green"),
        percent(progress),
        f"{thousands(progress.trained)} / {thousands(progress.total_steps)} steps",
        _speed(progress),
        _time_left(progress),
    )
    count = Text(
        f"{progress.over} of {plural('run', len(progress.runs))} over, {len(progress.training)} training", style="dim"
    )
    if progress.failed:
        count.append(f", {progress.failed} failed", style="red")
    if not is_uniform(progress.runs):
        return Group(bar, count, busy, _groups(progress))
    over = f"mean ± standard error of {len(progress.results)} runs" if len(progress.results) > 1 else ""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(justify="right", min_width=16)
    table.add_column(style="dim")
    returns = Text(_mean_return([*progress.results.values()]), style="bold")
    length, _ = mean_and_error(progress.lengths())
    table.add_row("return", returns, f"of the last 100 episodes{over and ', ' + over}")
    table.add_row("episode length", f"{float(length):.1f}" if np.isfinite(length) else "-", "steps")
    return Group(bar, count, busy, table, "", Text(sparkline(progress), style="cyan"))


def _mean_return(results: Sequence[RunResult]) -> str:
    """`-` before the first episode is over."""
    returns = np.asarray([result.recent_return for result in results])
    return plus_minus(returns) if np.isfinite(returns).any() else "-"


def _groups(progress: Progress) -> Table:
    rows = Table.grid(padding=(0, 2))
    for justify in ("left", "left", "right", "right", "right"):
        rows.add_column(justify=justify)
    groups: dict[tuple[str, str], list[int]] = {}
    for number, run in enumerate(progress.runs):
        groups.setdefault((run.settings.world, run.settings.method), []).append(number)
    begun = {key: numbers for key, numbers in groups.items() if any(n in progress.results for n in numbers)}
    for (world, method), numbers in list(begun.items())[:MOST_SHOWN]:
        results = [progress.results[n] for n in numbers if n in progress.results]
        over = sum(result.is_over for result in results)
        rows.add_row(
            world,
            method,
            f"{over} of {plural('run', len(numbers))} over",
            f"return {_mean_return(results)}",
        )
    if len(begun) > MOST_SHOWN:
        rows.add_row(f"and {len(begun) - MOST_SHOWN} more")
    return rows


def sparkline(progress: Progress, width: int = 60) -> str:
    """The mean learning curve in one line of blocks, with its first and last value."""
    curves = [result.curve for result in progress.results.values() if result.curve is not None and len(result.curve)]
    points = min(map(len, curves), default=0)
    if points < 2:
        return ""
    curve, _ = mean_and_error(np.stack([each[:points, RETURN] for each in curves]))
    curve = curve[np.isfinite(curve)]  # from the end of the first episode
    if len(curve) < 2:
        return ""
    values = [float(part.mean()) for part in np.array_split(curve, min(len(curve), width))]
    low, high = min(values), max(values)
    heights = [int((value - low) / (high - low) * (len(BARS) - 1)) if high > low else 0 for value in values]
    return f"{values[0]:.2f} {''.join(BARS[height] for height in heights)} {values[-1]:.2f}"


def percent(progress: Progress) -> str:
    """Rounded down, so that 100% is the end."""
    return f"{int(100 * progress.share)}%"


def _speed(progress: Progress) -> str:
    """Nothing while no run trains: other programs are being compiled then."""
    return "" if progress.speed is None or not progress.training else f"{thousands(progress.speed)} steps/s"


def _time_left(progress: Progress) -> str:
    seconds = progress.seconds_left
    return "" if seconds is None or not progress.training else f"{duration(seconds)} left"
