"""What the commands that train share: where and for how long, and what they print at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from asymrl.cli.commands.report_command import check_page, save_page
from asymrl.cli.output import print_json, print_table
from asymrl.cli.usage import Flag, Quiet, UsageError, user_errors
from asymrl.runs.interrupts import INTERRUPTED
from asymrl.runs.placement import Pace, Placement

if TYPE_CHECKING:
    from asymrl.report.findings import Findings
    from asymrl.report.html import Section
    from asymrl.runs.callback import Callback
    from asymrl.runs.driver import Outcome
    from asymrl.runs.store import Store

Tracker = Callable[["Path"], "Callback"]
OUT_OF_TIME = 3
SEEDS = 5  # runs of each kind, unless another number is asked for
PAGE_FILE = "report.html"
MOST_SHOWN = 3  # runs that failed for the same reason


@dataclass(frozen=True)
class Training(Placement):
    """These options do not affect the results."""

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

    def checked(self) -> Placement:
        """Where to train. Raises UsageError, before any work is done, if one of the options is not possible."""
        if self.report is not None and self.no_report:
            raise UsageError("--report and --no-report: choose one of them")
        if self.report is not None:
            check_page(self.report)
        self.trackers()
        with user_errors():
            self.pace()
            return Placement(**{each.name: getattr(self, each.name) for each in fields(Placement)})

    def pace(self) -> Pace:
        return Pace(self.refresh_seconds, self.checkpoint_seconds if self.checkpoint == "auto" else None)

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

    def how(self) -> dict[str, Any]:
        """As arguments of `train_store`."""
        return {"placement": self.checked(), "pace": self.pace(), "minutes": self.minutes}

    def train(
        self,
        store: Store,
        *,
        only: Sequence[int] | None = None,
        report: Callable[[Store], None] | None = None,
        again: str | None = None,
        as_json: bool = False,
    ) -> int:
        """Trains the runs of a store that was taken, reports on them, and returns the exit status.

        0: all runs are over. 1: some failed, or something could not be written. 3: out of time, runs are left. 128 + n:
        interrupted by signal n.

        Args:
            store: it is released at the end.
            only: the numbers of the runs to train. None: all.
            report: called once all runs are over, unless none of them could be trained; by default, what they have
                reached is printed.
            again: the command that goes on; by default `asymrl resume`.
            as_json: whether to print what was reached as JSON.
        """
        from asymrl.cli.curve_file import CurveFile
        from asymrl.report.paper.parts import probes_from_json
        from asymrl.runs.callback import Callbacks
        from asymrl.runs.display import standard_display
        from asymrl.runs.driver import train_store
        from asymrl.runs.files import RunError, StorageError

        again = again or f"asymrl resume {store.path}{store.trust_option}"
        callback = Callbacks(
            [standard_display(), CurveFile(store), *(tracker(store.path) for tracker in self.trackers())]
        )
        try:
            probes = probes_from_json(store.probes)
            _say_what_is_complete(store, only)
            outcome = train_store(store, callback, **self.how(), probes=probes, only=only)
        except KeyboardInterrupt:  # before anything was trained
            print(f"Stopped; to go on: {again}")
            return INTERRUPTED
        except RunError as error:
            text = str(error)
            raise UsageError(text if str(store.path) in text else f"{store.path}: {text}") from error
        except StorageError as error:
            print(f"asymrl: {error}", file=sys.stderr)
            return 1
        finally:
            store.release()
        print_failures(outcome.failures)
        status = _status_of_the_rest(store, outcome, again)
        if not status:
            _say_how_to_try_again(store, again)
            if outcome.over:
                (report or self.print_results)(store)
            status = 1 if outcome.failures else 0
        if as_json:
            print_json(training_answer(store, status, self.report or store.path / PAGE_FILE))
        return status

    def print_results(self, store: Store) -> None:
        """What the runs have reached, where that is written, what to do next, and the page about them.

        Nothing is written into the folder of a store that was only opened: no page but one that was asked for by name.
        """
        from asymrl.api import Runs
        from asymrl.report.summary import next_commands
        from asymrl.runs.runs import differing

        runs = Runs.of(store)
        where: dict[str, Any] = {}
        print()
        if not (names := differing(runs.runs)):
            print(f"{runs.summary()}\n")
        else:
            ranking = runs.ranking()
            print_table(ranking)
            one = ", which one run does not have" if 1 in ranking["runs"] else ""
            mean = f"interquartile mean of the runs, with its 95 % interval{one}"
            print(f"\nfinal return: {mean}; best first in each world\n")
            # Defaults that learners do not share are no columns: the method says enough.
            best = {name: ranking[name][0] for name in names if name in ranking.columns}
            where = {name: value for name, value in best.items() if value is not None}
        if store.was_taken and runs.metrics["return"].count():
            print(f"learning curve  {runs.plot()}")
        print(f"metrics         {store.path / 'metrics.parquet'}")
        if store.was_taken or self.report is not None:
            self.write_page(store)
        print("\nnext:")
        settings = [run.settings for run in store.runs]
        least = next(
            (each for each in settings if getattr(each, "anneal", False)), settings[0]
        )  # all are longer, or none
        print(next_commands(store.path, least, where, has_networks=store.keeps_networks))

    def show_findings(self, made: Findings, out: Path, source: Store | Path) -> None:
        """Prints and writes tables and figures of the runs in a store or its folder, and the page about them."""
        from asymrl.report.html import findings_section

        print_findings(made, out)
        self.write_page(source, lambda: [findings_section(made)], out)

    def write_page(
        self, source: Store | Path, more: Callable[[], Sequence[Section]] | None = None, out: Path | None = None
    ) -> None:
        """The page about the runs in a store or its folder, with more sections, in `out` or there if no file was named.

        A page that was not asked for by name and cannot be written is no failure: the runs are complete.
        """
        if self.report is None and self.no_report:
            return
        sections = [] if more is None else more()
        if self.report is not None:
            save_page(source, self.report, sections)
            return
        folder = source if isinstance(source, Path) else source.path
        try:
            save_page(source, (out or folder) / PAGE_FILE, sections)
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


def training_answer(store: Store, status: int, page: Path) -> dict[str, Any]:
    """What the runs of a store have reached, as data; the fields are described in docs/reference/json.md.

    `page`: where the page about the runs is, if it was written.
    """
    from asymrl.api import Runs
    from asymrl.cli.curve_file import CURVE_FILE
    from asymrl.runs.tables import METRICS_FILE

    runs = Runs.of(store)
    files = {"metrics": store.path / METRICS_FILE, "curve": store.path / CURVE_FILE, "report": page}
    return {
        "folder": str(store.path),
        "exit_status": status,
        "complete": not store.unfinished(),
        "runs": runs.table.to_dicts(),
        "ranking": runs.ranking().to_dicts(),
        "files": {name: str(path) for name, path in files.items() if path.is_file()},
    }


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
