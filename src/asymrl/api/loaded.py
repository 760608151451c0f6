"""Runs in a folder, to look at and to use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from asymrl.api.run_folders import take_store
from asymrl.runs.files import RunError, StorageError
from asymrl.runs.placement import Pace, Placement
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.runs.tables import RUNS_FILE, read_table

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from asymrl.runs.callback import Callback
    from asymrl.runs.policy import ActorPolicy
    from asymrl.runs.trained import TrainedRun, TrainedRuns


class Runs:
    """Runs in a folder: their learning curves, their agents, and ways to use both."""

    def __init__(self, folder: str | PathLike[str], *, trust: bool = False):
        """Raises RunError if there are no runs in this folder.

        `trust`: run the code that their settings name; see "Open runs of someone else".
        """
        self._store = Store.open(Path(folder), trust=trust)
        self.folder, self.trust = Path(folder), trust

    @classmethod
    def of(cls, store: Store) -> Self:
        """The runs of a store that is open."""
        runs = cls.__new__(cls)
        runs._store, runs.folder, runs.trust = store, store.path, store.trust
        return runs

    def __len__(self) -> int:
        return len(self._store)

    def __repr__(self) -> str:
        from asymrl.runs.display import title

        return f"Runs({str(self.folder)!r}: {title(self.runs)})"

    def _repr_html_(self) -> str:
        """The runs in a notebook: what they are, and what each kind has reached."""
        from asymrl.report.html.run_facts import runs_html

        return runs_html(self._store)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The settings and the seed of each run."""
        return self._store.runs

    @property
    def metrics(self) -> pl.DataFrame:
        """The learning curves, one row per run and point."""
        return self._store.metrics()

    @property
    def table(self) -> pl.DataFrame:
        """One row per run: its settings, how far it came, and what it reached."""
        return read_table(self.folder, RUNS_FILE)

    @property
    def failed(self) -> list[int]:
        """The numbers of the runs that stopped because a loss, a gradient or a parameter was not finite."""
        return [number for number, result in self._store.results().items() if result.status == "failed"]

    def load(self, where: Mapping[str, Any] | None = None, seed: int | None = None) -> list[TrainedRuns]:
        """The runs with their networks, grouped by what can be computed together; all, or those with these settings."""
        from asymrl.runs.trained import choose_runs, load_trained

        return load_trained(self._store, choose_runs(self.runs, where or {}, seed))

    def best(self, where: Mapping[str, Any] | None = None, seed: int | None = None) -> TrainedRun:
        """The run with the best return of its last 100 episodes, with its networks."""
        from asymrl.runs.trained import best_run

        return best_run(self._store, seed, where)

    def policy(
        self,
        seed: int | None = None,
        generator: np.random.Generator | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> ActorPolicy:
        """The best agent with this seed and these settings, ready to act: `reset()`, then `act(observation)`."""
        from asymrl.runs.policy import ActorPolicy

        best = self.best(where, seed)
        return ActorPolicy(best.world, best.state.actor, generator)

    def evaluate(
        self, episodes: int = 1000, *, greedy: bool = False, seed: int = 0, where: Mapping[str, Any] | None = None
    ) -> pl.DataFrame:
        """Evaluates each agent over this many episodes: one row per run, with means and standard errors."""
        from asymrl.report.summary import reference_of
        from asymrl.runs.evaluation import evaluation_table

        groups = self.load(where)
        references = [reference_of(trained.settings[0]) for trained in groups]
        return evaluation_table(groups, references, episodes=episodes, greedy=greedy, seed=seed)

    def summary(self) -> str:
        """The returns of the runs, beside those of a random and the best known policy."""
        from asymrl.report.summary import summary

        return summary(self.table)

    def ranking(self) -> pl.DataFrame:
        """The final return of each kind of run with its 95 % interval, best first within each world.

        Runs of one kind differ in their seed only.
        """
        from asymrl.report.summary import ranking_of

        return ranking_of(self.table)

    def plot(self, path: str | PathLike[str] | None = None, metric: str = "return") -> Path:
        """Draws the learning curves into a file, by default `curve.png` in the folder.

        `metric`: a column of `metrics`, such as `evaluation_return`.
        """
        from asymrl.report.curves import has_values, save_learning_curve
        from asymrl.report.summary import MORE_STEPS, comparable

        own = self.folder / "curve.png"
        metrics = self.metrics
        if metric not in (columns := metrics.columns[metrics.columns.index("timestep") + 1 :]):
            raise ValueError(f"{metric!r} is not measured; there are {', '.join(columns)}")
        if not has_values(metrics[metric]):
            if metric.startswith("evaluation_"):
                raise ValueError(f"no run has values of {metric}; train with evaluation_episodes=20, for example")
            why = "no episode of a run was over yet" if metric in ("return", "length") else f"no run has a {metric} yet"
            raise ValueError(f"{self.folder}: {why}; {MORE_STEPS}")
        of_returns = metric in ("return", "evaluation_return")
        if path is None and own.is_symlink():  # in somebody else's folder, it must not redirect to another file
            own.unlink()
        path = own if path is None else Path(path)
        try:
            save_learning_curve(metrics, path, metric, references=of_returns and comparable(metrics))
        except OSError as error:
            raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error
        return path

    def report(
        self,
        path: str | PathLike[str],
        *,
        episodes: int = 8,
        starts: Sequence[int] | None = None,
        greedy: bool = False,
    ) -> Path:
        """Writes a page about the runs, one HTML file: curves to look into, tables, settings, hardware, times.

        `episodes`: about how many episodes of the trained agents to include, where networks were kept; 0 for none.
        `starts`: seeds of these episodes, instead of a choice of good, bad and other ones. `greedy`: take the most
        likely actions in them, instead of sampled ones.
        """
        from asymrl.report.html import save_report

        return save_report(self._store, path, episodes=episodes, starts=starts, greedy=greedy)

    def render(
        self,
        path: str | PathLike[str],
        *,
        seed: int = 0,
        run_seed: int | None = None,
        greedy: bool = False,
        where: Mapping[str, Any] | None = None,
        picture: Callable[..., None] | None = None,
    ) -> Path:
        """Draws an episode of the best agent, or of the one with this seed.

        A .gif or .mp4 film, or a .png of the last moment. `picture`: `draw(ax, state, observation)` draws a moment into
        matplotlib axes, in place of the usual picture of the state.
        """
        from asymrl.report.films import film_of_run

        film_of_run(self.best(where, run_seed), seed=seed, greedy=greedy, picture=picture).save(Path(path))
        return Path(path)

    def export(
        self, path: str | PathLike[str], *, run_seed: int | None = None, where: Mapping[str, Any] | None = None
    ) -> Path:
        """Writes the best policy, or the one with this seed, for other programs: an .onnx or .npz file."""
        from asymrl.export.saving import export_run

        export_run(self.best(where, run_seed), Path(path))
        return Path(path)

    def resume(
        self,
        *,
        steps: int | None = None,
        display: Callback | None = None,
        callbacks: Sequence[Callback] = (),
        pace: Pace | None = None,
        placement: Placement | None = None,
        current_code: bool = False,
    ) -> Runs:
        """Continues the runs to their end, or for more steps than they were started with; see `asymrl.resume`."""
        from asymrl.report.paper.parts import probes_from_json

        store = take_store(self.folder, steps, trust=self.trust, current_code=current_code, placement=placement)
        return train_taken(store, display, pace, placement, callbacks, probes=probes_from_json(store.probes))


def load(folder: str | PathLike[str], *, trust: bool = False) -> Runs:
    """The runs in a folder, to look at and to use.

    Args:
        folder: of the runs.
        trust: run the code that their settings name. By default, only code that you have named in this process runs.
    """
    return Runs(folder, trust=trust)


def train_taken(
    store: Store,
    display: Callback | None,
    pace: Pace | None,
    placement: Placement | None,
    callbacks: Sequence[Callback] = (),
    **what: Any,
) -> Runs:
    """Trains the runs of a store that was taken, and releases it. Raises KeyboardInterrupt if a signal stopped it."""
    from asymrl.runs.callback import Callbacks
    from asymrl.runs.display import standard_display
    from asymrl.runs.driver import train_store

    follower = Callbacks([display or standard_display(), *callbacks])
    try:
        outcome = train_store(store, follower, pace=pace or Pace(), placement=placement or Placement(), **what)
    finally:
        store.release()
    if outcome.interrupted is not None:
        raise KeyboardInterrupt(f"{outcome.interrupted.name}: go on with asymrl.resume({str(store.path)!r})")
    if outcome.failures and not outcome.over and not outcome.is_out_of_time:
        raise RunError(f"{store.path}: no run could be trained: {next(iter(outcome.failures.values()))}")
    return Runs.of(store)
