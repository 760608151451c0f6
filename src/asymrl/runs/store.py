"""A store: a folder with runs. What they are, what they reached, how to go on. One run or thousands: the same format.

`settings.json` lists the runs, `metrics.parquet` has their learning curves, `runs.parquet` a row for each, and
`checkpoint/` the states of those in training and the networks of those that are over. What is on disk decides what is
still to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asymrl.runs import runs as run_lists
from asymrl.runs.arrays import SavedRuns
from asymrl.runs.checkpoint import Checkpoints, manifests
from asymrl.runs.description import SETTINGS_FILE, is_store, read_description, write_description
from asymrl.runs.files import UNFINISHED, Lock, RunError, check_links, check_subfolders, write_whole
from asymrl.runs.runs import Run
from asymrl.runs.tables import METRICS_FILE, RunResult, read_results, read_table, reopened, write_results
from asymrl.runs.world_sources import Sources, current_files, make_ready, sources_of
from asymrl.worlds.registry import runs_code

if TYPE_CHECKING:
    import polars as pl


class Store:
    """The runs in a folder, numbered from 0.

    Reading needs no lock. To write, the store must be taken first: `create` and `take` lock it until `release` or
    the end of the process.
    """

    def __init__(
        self,
        path: Path,
        runs: Sequence[Run],
        *,
        lock: Lock | None = None,
        keeps_networks: bool = True,
        sources: Sources | None = None,
        probes: Mapping[str, Any] | None = None,
        trust: bool = False,
    ):
        self.path, self.runs, self._lock = path, tuple(runs), lock
        self.keeps_networks = keeps_networks
        """Whether the networks of runs that are over are kept; their curves always are."""
        self.sources = dict(sources or {})
        """Where its worlds come from, by their text in world names."""
        self.trust = trust
        """Whether the user trusts the code that its settings name."""
        self.probes = dict(probes or {})
        """The probes to measure during training, by world, as JSON data."""
        self.checkpoints = Checkpoints(path / "checkpoint")
        self._results: dict[int, RunResult] | None = None
        self.lost: tuple[int, ...] = ()
        """Runs that were over but have to begin again, as their networks are gone."""

    @classmethod
    def create(
        cls, path: Path, runs: Sequence[Run], *, keeps_networks: bool = True, probes: Mapping[str, Any] | None = None
    ) -> Store:
        """A new store in this folder, which may exist but must not hold one.

        Raises:
            RunError: if it does, or cannot be written.
            StorageError: if there is no room.
        """
        run_lists.check_runs(runs)
        run_lists.check_beginnings(runs)
        sources, copies = sources_of(path, _code_names(runs))
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"{path}: cannot be made a folder: {error.strerror}") from error
        lock = Lock(path)
        try:
            if (path / SETTINGS_FILE).exists() or (path / METRICS_FILE).exists():
                raise RunError(
                    f"{path}: already holds runs. Go on with them by `asymrl resume {path}`, or choose another --out"
                )
            check_subfolders(path)
            store = cls(path, runs, lock=lock, keeps_networks=keeps_networks, sources=sources, probes=probes)
            store._make_checkpoint_folder()
            store._remove_unfinished()
            store._keep(copies)
            store._write_settings()
        except BaseException:
            lock.release()
            raise
        return store

    @classmethod
    def open(cls, path: Path, *, trust: bool = False) -> Store:
        """The store in this folder, to read. Raises RunError if there is none, or it is of another version.

        `trust`: whether the user trusts the code that its settings name.
        """
        return cls(path, **read_description(path), trust=trust)

    @classmethod
    def take(cls, path: Path, *, trust: bool = False) -> Store:
        """The store in this folder, to go on with it. Raises RunError, for example if another process has it."""
        read_description(path)
        check_links(path)
        lock = Lock(path)
        try:
            store = cls(path, **read_description(path), lock=lock, trust=trust)
            store._make_checkpoint_folder()
            store._remove_unfinished()
            store._recover_results()
        except BaseException:
            lock.release()
            raise
        return store

    @classmethod
    def take_or_create(
        cls, path: Path, runs: Sequence[Run], *, keeps_networks: bool = True, probes: Mapping[str, Any] | None = None
    ) -> Store:
        """The store in this folder with these runs and probes added to its own; a new one if there is none."""
        if not is_store(path):
            return cls.create(path, runs, keeps_networks=keeps_networks, probes=probes)
        store = cls.take(path)
        try:
            store.add(runs)
            if (all_probes := {**(probes or {}), **store.probes}) != store.probes:
                store.probes = all_probes
                store._write_settings()
        except BaseException:
            store.release()
            raise
        return store

    def release(self) -> None:
        if self._lock:
            self._lock.release()

    def __len__(self) -> int:
        return len(self.runs)

    def add(self, runs: Sequence[Run]) -> None:
        """Adds runs that are not there yet; runs that are there but shorter are made longer."""
        there = {run.key: number for number, run in enumerate(self.runs)}
        changed = list(self.runs)
        for run in runs:
            if run.key not in there:
                there[run.key] = len(changed)
                changed.append(run)
            elif changed[there[run.key]].settings.steps < run.settings.steps:
                number = there[run.key]
                changed[number] = self.extended(number, run.settings.steps)
        self._change(changed)

    def extend(self, steps: int) -> None:
        """Makes all shorter runs this long.

        Raises:
            RunError: if that is not possible; then nothing has changed.
        """
        self._change(self.extended_runs(steps))

    def extended_runs(self, steps: int) -> list[Run]:
        """All runs, the shorter ones made this long; changes nothing. Raises RunError if that is not possible."""
        lengths = [run.settings.steps for run in self.runs]
        if max(lengths) > steps > min(lengths):  # of runs of several lengths, the longer ones stay as they are
            return [self.extended(n, max(length, steps)) for n, length in enumerate(lengths)]
        return [self.extended(n, steps) for n in range(len(self.runs))]

    def extended(self, number: int, steps: int) -> Run:
        """A run of the store, made longer. Raises RunError if its state is gone."""
        run = self.runs[number]
        if steps > run.settings.steps and not self.keeps_networks and self.results().get(number, RunResult()).is_over:
            raise RunError(
                f"{self.path}: the networks of its runs were not kept, so they cannot be made longer; choose another "
                f"--out, with --keep-networks for the next time, or fewer --steps: one of them has {run.settings.steps}"
            )
        return run.extended(steps)

    def _change(self, runs: Sequence[Run]) -> None:
        if tuple(runs) == self.runs:
            return
        run_lists.check_runs(runs)
        run_lists.check_beginnings(runs)
        results, old_runs = self.results(), self.runs
        new, copies = sources_of(self.path, _code_names(runs).keys() - _code_names(self.runs))
        for source, each in new.items():
            if source in self.sources and each.sha256 != self.sources[source].sha256:
                raise RunError(
                    f"{self.path}: {source} has changed since the runs began; choose another --out, or bring back the "
                    f"file as it was then"
                )
        self.runs, self.sources = tuple(runs), {**new, **self.sources}
        self._results = {n: reopened(result, runs[n], old_runs[n]) for n, result in results.items()}
        self._keep(copies)
        self._write_settings()

    def use_current_files(self) -> None:
        """Uses world files that have changed since the runs began as they are now, for all its runs.

        A store that was only opened is not written to.

        Raises:
            RunError: if one of them cannot be read.
        """
        changed, copies = current_files(self.path, self.sources)
        if changed:
            self.sources = {**self.sources, **changed}
            if self._lock:
                self._keep(copies)
                self._write_settings()

    def _keep(self, copies: Mapping[str, bytes]) -> None:
        """Writes copies of the files that worlds come from."""
        for name, data in copies.items():
            if not (self.path / name).exists():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                write_whole(self.path / name, data)

    # What the runs have reached.

    def results(self) -> dict[int, RunResult]:
        """The results so far, by the numbers of the runs, without runs that have not begun."""
        if self._results is None:
            self._results = read_results(self.path, self.runs)
        return self._results

    @property
    def trust_option(self) -> str:
        """The option that commands on this folder need if its settings name code, with a space before it."""
        return " --trust" if any(map(runs_code, _code_names(self.runs))) else ""

    @property
    def was_taken(self) -> bool:
        """Whether this process took the store, so that it may write into the folder."""
        return self._lock is not None

    def is_finished(self) -> bool:
        """Whether nothing is left to do: all runs are over, and there are checkpoints exactly if networks are kept."""
        return not self.unfinished_or_all() and self.keeps_networks == bool(manifests(self.checkpoints.folder))

    def forget_lost_networks(self) -> None:
        """Makes all runs that are over begin again if their networks should be kept but there is no checkpoint."""
        if self.keeps_networks and not manifests(self.checkpoints.folder):
            self.lost = tuple(n for n, result in self.results().items() if result.is_over)
            self._results = {n: result for n, result in self.results().items() if n not in self.lost}

    def _recover_results(self) -> None:
        """Ignores damaged tables if the checkpoints hold everything that was in them."""
        try:
            self.results()
        except RunError:
            if not self.keeps_networks:
                raise
            self._results = {}

    def unfinished(self) -> list[int]:
        """The numbers of the runs that are not over."""
        results = self.results()
        return [number for number in range(len(self.runs)) if not results.get(number, RunResult()).is_over]

    def unfinished_or_all(self) -> list[int]:
        """Like `unfinished`, before the store is taken: all runs if its tables are damaged."""
        try:
            return self.unfinished()
        except RunError:
            return list(range(len(self.runs)))

    def saved(
        self, numbers: Sequence[int], say: Callable[[str], None] = print
    ) -> Iterator[tuple[list[int], SavedRuns]]:
        """The numbers and newest states of the runs that have one, a few runs at a time.

        Raises:
            RunError: if none is sound.
        """
        runs = [self.runs[number] for number in numbers]
        self.checkpoints.check_settings(self.runs)
        by_run = {run: number for number, run in enumerate(self.runs)}
        for saved in self.checkpoints.load(runs, say):
            yield [by_run[run] for run in saved.runs], saved

    def make_ready(self, numbers: Sequence[int] | None = None, say: Callable[[str], None] = print) -> None:
        """Prepares the worlds of all or some of the runs: finds their files, and checks whether their code may run.

        Raises:
            RunError: if a file is neither where it was nor in the store, as it was when the runs began; or if code
                would run that the user has not named in this process, and does not trust.
        """
        runs = self.runs if numbers is None else [self.runs[number] for number in numbers]
        make_ready(self.path, _code_names(runs), self.sources, trust=self.trust, say=say)

    def metrics(self) -> pl.DataFrame:
        """The learning curves so far: one row per run and point."""
        return read_table(self.path, METRICS_FILE)

    def write_tables(self, results: Mapping[int, RunResult], probe_names: Sequence[str] = ()) -> None:
        """Writes the results of the runs."""
        self._results = {**self.results(), **results}
        write_results(self.path, self.runs, self._results, probe_names)

    def save(self, saved: SavedRuns, pool: str) -> None:
        """Writes a checkpoint of some runs, and removes those that it makes superfluous."""
        self.checkpoints.save(saved, pool)
        over = [self.runs[n].key for n, result in self.results().items() if result.is_over]
        self.checkpoints.remove_superseded(() if self.keeps_networks else over)

    def _make_checkpoint_folder(self) -> None:
        folder = self.checkpoints.folder
        try:
            folder.mkdir(exist_ok=True)
        except FileExistsError as error:
            raise RunError(f"{folder}: not a folder; remove it to begin these runs again") from error

    def _write_settings(self) -> None:
        write_description(
            self.path, self.runs, keeps_networks=self.keeps_networks, sources=self.sources, probes=self.probes
        )

    def _remove_unfinished(self) -> None:
        """Removes files that a killed process left half written."""
        for folder in (self.path, self.checkpoints.folder):
            for path in folder.glob(f"*{UNFINISHED}"):
                path.unlink(missing_ok=True)


def free_folder(world: str, method: str, base: Path = Path("runs")) -> Path:
    """A folder for runs of this world and method that does not exist yet: `runs/WORLD-METHOD`, or with a number."""
    name = re.sub(r"[^\w.-]+", "-", f"{world}-{method}")
    path, number = base / name, 1
    while path.exists():
        number += 1
        path = base / f"{name}-{number}"
    return path


def _code_names(runs: Iterable[Run]) -> dict[str, None]:
    """The names of worlds and of the user's own classes, in order."""
    return dict.fromkeys(name for each in dict.fromkeys(run.settings for run in runs) for name in each.code_names)
