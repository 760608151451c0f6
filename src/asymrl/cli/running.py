"""What the commands that train share: where and for how long, and what they print at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from asymrl.cli.commands.report_command import check_page, save_page
from asymrl.cli.usage import Flag, Quiet, UsageError, user_errors
from asymrl.runs.interrupts import INTERRUPTED
from asymrl.runs.placement import Pace, Placement
from asymrl.settings import SETTINGS

if TYPE_CHECKING:
    import polars as pl

    from asymrl.report.findings import Findings
    from asymrl.report.html import Section
    from asymrl.runs.driver import Outcome
    from asymrl.runs.listeners import Listener
    from asymrl.runs.store import Store

Tracker = Callable[["Path"], "Listener"]
OUT_OF_TIME = 3
SEEDS = 5  # runs of each kind, unless another number is asked for
ROUNDING = 1e-12  # numbers of tables below this are 0 but for rounding
PAGE_FILE = "report.html"
MOST_SHOWN = 3  # runs that failed for the same reason


@dataclass(frozen=True)
class Running(Placement):
    """How runs are trained. These options do not affect the results."""

    minutes: float | None = None
    """Stop with a checkpoint after this many minutes, to fit into a queue's time slots. None: train to the end."""
    checkpoint: Literal["auto", "none"] = "auto"
    """Whether to save runs during training, so that they continue if the process is killed."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints."""
    refresh_seconds: float = 1.5
    """Seconds between two updates of the display and of the metrics."""
    tensorboard: Flag = False
    """Also write TensorBoard logs into the folder of the runs."""
    wandb: Flag = False
    """Also report to Weights & Biases."""
    report: Path | None = None
    """File for the HTML page written at the end. None: report.html beside the other results; see `asymrl report`."""
    no_report: Flag = False
    """Write no page at the end."""
    quiet: Quiet = False

    def __post_init__(self) -> None:
        pass  # checked when they are used, so that the message is that of a command

    def options(self) -> dict[str, Any]:
        """As arguments of `train_store`. Raises UsageError if something is not possible."""
        if self.report is not None and self.no_report:
            raise UsageError("--report and --no-report: choose one of them")
        if self.report is not None:
            check_page(self.report)
        values = {each.name: getattr(self, each.name) for each in fields(Placement)}
        with user_errors():
            placement = Placement(**values)
            pace = Pace(self.refresh_seconds, self.checkpoint_seconds if self.checkpoint == "auto" else None)
        return {"placement": placement, "pace": pace, "minutes": self.minutes}

    def trackers(self) -> list[Tracker]:
        """The trackers that the user asked for. Raises UsageError if one is not installed."""
        if not self.tensorboard and not self.wandb:
            return []
        from asymrl.runs.trackers import TensorBoard, WeightsAndBiases

        kinds = [kind for kind, on in ((TensorBoard, self.tensorboard), (WeightsAndBiases, self.wandb)) if on]
        for kind in kinds:
            with user_errors():
                kind.package()
        return [*kinds]

    def print_results(self, store: Store) -> None:
        """What the runs have reached, what to do next, and the page about them.

        Nothing is written into the folder of a store that was only opened: no page but one that was asked for by name.
        """
        wants_page = store.was_taken or self.report is not None
        print_results(store, (lambda: self.write_page(store.path)) if wants_page else None)

    def show_findings(self, made: Findings, out: Path, folder: Path) -> None:
        """Prints and writes tables and figures of the runs in a folder, and the page about them."""
        print_findings(made, out)

        def section() -> list[Section]:
            from asymrl.report.html import findings_section

            return [findings_section(made)]

        self.write_page(folder, section, out)

    def write_page(
        self, folder: Path, more: Callable[[], Sequence[Section]] | None = None, out: Path | None = None
    ) -> None:
        """The page about the runs in a folder, with more sections, in `out` or that folder if no file was named.

        A page that was not asked for by name and cannot be written is no failure: the runs are complete.
        """
        if self.report is None and self.no_report:
            return
        sections = [] if more is None else more()
        if self.report is not None:
            save_page(folder, self.report, sections)
            return
        try:
            save_page(folder, (out or folder) / PAGE_FILE, sections)
        except Exception as error:
            print(f"asymrl: the page about the runs could not be written: {error}", file=sys.stderr)


@dataclass(frozen=True)
class NetworkOptions:
    """Whether a store keeps the networks of its runs."""

    keep_networks: Flag = False
    """Keep the networks of finished runs, to evaluate or extend them: a few MB each. By default they are kept if there
    are at most 300 runs."""
    no_keep_networks: Flag = False
    """Keep learning curves only."""

    def networks_wanted(self) -> bool | None:
        """None if the user has not decided. Raises UsageError for both."""
        if self.keep_networks and self.no_keep_networks:
            raise UsageError("--keep-networks and --no-keep-networks: choose one of them")
        return True if self.keep_networks else False if self.no_keep_networks else None


def train_to_the_end(
    store: Store,
    options: Mapping[str, Any],
    trackers: Sequence[Tracker] = (),
    *,
    probes: Mapping[str, Any] | None = None,
    only: Sequence[int] | None = None,
    report: Callable[[Store], None] | None = None,
    again: str | None = None,
) -> int:
    """Trains the runs of a store that was taken, reports on them, and returns the exit status.

    0: all runs are over. 1: some failed, or something could not be written. 3: out of time, runs are left. 128 + n:
    interrupted by signal n. `report` is called once all runs are over, unless none of them could be trained. `again`:
    the command that goes on; by default `asymrl resume`.
    """
    from asymrl.cli.curve_file import CurveFile
    from asymrl.runs.display import display
    from asymrl.runs.driver import train_store
    from asymrl.runs.files import RunError, StorageError
    from asymrl.runs.listeners import ListenerGroup

    listener = ListenerGroup([display(), CurveFile(store.path), *(tracker(store.path) for tracker in trackers)])
    try:
        _say_what_is_complete(store, only)
        outcome = train_store(store, listener, **options, probes=probes, only=only)
    except KeyboardInterrupt:  # before anything was trained
        print(f"Stopped; to go on: {again or f'asymrl resume {store.path}'}")
        return INTERRUPTED
    except RunError as error:
        raise UsageError(str(error)) from error
    except StorageError as error:
        print(f"asymrl: {error}", file=sys.stderr)
        return 1
    finally:
        store.release()
    print_failures(outcome.failures)
    again = again or f"asymrl resume {store.path}"
    if status := _status_of_the_rest(store, outcome, again):
        return status
    _say_how_to_try_again(store, again)
    if report is not None and outcome.over:
        report(store)
    return 1 if outcome.failures else 0


def _say_what_is_complete(store: Store, only: Sequence[int] | None) -> None:
    """Says how many of the runs that are wanted need no training, if there are any."""
    from asymrl.runs.wording import plural, thousands

    numbers = set(range(len(store)) if only is None else only)
    remaining = len(numbers & set(store.unfinished()))
    if remaining < len(numbers):
        share = "" if not remaining else f"{thousands(len(numbers) - remaining)} of {plural('run', len(numbers))} "
        print(f"{store.path}: {share}already complete")


def _status_of_the_rest(store: Store, outcome: Outcome, again: str) -> int:
    """Says how to go on if runs are left. Returns the exit status, or 0 if all are over."""
    from asymrl.cli.curve_file import CURVE_FILE

    if outcome.interrupted is None and not outcome.is_out_of_time:
        return 0
    why = "Out of time" if outcome.interrupted is None else "Stopped"
    rest = f"all runs are over, in {store.path}" if outcome.is_complete else None
    print(f"{why}; {rest or f'everything so far is in {store.path}. To go on: {again}'}")
    if (curve := store.path / CURVE_FILE).exists():
        print(f"learning curve so far  {curve}")
    return OUT_OF_TIME if outcome.interrupted is None else 128 + outcome.interrupted


def print_failures(failures: Mapping[str, str]) -> None:
    """Why runs failed, a line on stderr for each reason, and under it the traceback of the user's code if it is new."""
    shown = set()
    for reason in dict.fromkeys(failures.values()):
        runs = [run for run, why in failures.items() if why == reason]
        more = f" and {len(runs) - MOST_SHOWN} more" if len(runs) > MOST_SHOWN else ""
        line, _, traceback = reason.partition("\n")
        print(f"failed: {'; '.join(runs[:MOST_SHOWN])}{more}: {line}", file=sys.stderr)
        if traceback and traceback not in shown:
            print(traceback, file=sys.stderr)
        shown.add(traceback)


def _say_how_to_try_again(store: Store, again: str) -> None:
    """Says what to do about runs that could not be trained, or not to their end, and are saved."""
    from asymrl.runs.progress import BROKEN
    from asymrl.runs.world_sources import FILE

    if any(result.status == BROKEN for result in store.results().values()):
        has_files = any(source.kind == FILE for source in store.sources.values())
        option = " --current-code" if has_files and again.startswith("asymrl resume") else ""
        print(f"Once this is fixed: {again}{option}", file=sys.stderr)


def print_results(store: Store, write_page: Callable[[], None] | None) -> None:
    """What the runs have reached, where that is written, and what to do next."""
    from asymrl.api import Runs
    from asymrl.report.summary import next_commands
    from asymrl.runs.runs import differing

    runs = Runs(store.path)
    where: dict[str, Any] = {}
    print()
    if not (names := differing(runs.runs)):
        print(f"{runs.summary()}\n")
    else:
        ranking = runs.ranking()
        print_table(ranking)
        one = ", which one run does not have" if 1 in ranking["runs"] else ""
        print(
            f"\nfinal return: interquartile mean of the runs, with its 95 % interval{one}; best first in each world\n"
        )
        # Defaults that learners do not share are no columns: the method says enough.
        best = {name: ranking[name][0] for name in names if name in ranking.columns}
        where = {name: value for name, value in best.items() if value is not None}
    if store.was_taken and runs.metrics["return"].count():
        print(f"learning curve  {runs.plot()}")
    print(f"metrics         {store.path / 'metrics.parquet'}")
    if write_page is not None:
        write_page()
    print("\nnext:")
    settings = [run.settings for run in store.runs]
    least = next((each for each in settings if getattr(each, "anneal", False)), settings[0])  # longer, all or none are
    print(next_commands(store.path, least, where, has_networks=store.keeps_networks))


def print_findings(made: Findings, out: Path) -> None:
    """Writes tables and figures into a folder, and prints the numbers. Raises UsageError if it cannot be written."""
    try:
        files = made.save(out)
    except OSError as error:
        raise UsageError(f"{error.filename or out}: cannot be written: {error.strerror}") from error
    for note in made.notes:
        print(note)
    print_table(made.leaders)
    for name in made.shown:
        print()
        print_table(made.tables[name])
    if made.reading:
        print(made.reading)
    print(*files, sep="\n")


def print_table(table: pl.DataFrame) -> None:
    """A table on the terminal; a number is shown with its bounds, `NAME_low` and `NAME_high`."""
    from rich.table import Table

    from asymrl.runs.display import plain_console

    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    own = [name for name in table.columns if not name.endswith(("_low", "_high"))]
    for name in own:
        is_number = table[name].dtype.is_numeric()
        shown.add_column(name.replace("_", " "), justify="right" if is_number else "left")
    for row in table.to_dicts():
        shown.add_row(*(_shown(row, name) for name in own))
    console = plain_console()
    console.width = 200
    console.print(shown)


def _shown(row: dict[str, object], name: str) -> str:
    from asymrl.report.intervals import Interval

    value, low, high = (row.get(key) for key in (name, f"{name}_low", f"{name}_high"))
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if name in SETTINGS:
        return f"{value:g}"
    text = f"{value:z.3f}" if abs(value) >= 0.01 or abs(value) < ROUNDING else f"{value:.2g}"
    if not (isinstance(low, float) and isinstance(high, float)) or row.get("runs") == 1:
        return text
    digits = Interval(value, low, high).digits(3)
    return f"{text} [{low:z.{digits}f}, {high:z.{digits}f}]"
