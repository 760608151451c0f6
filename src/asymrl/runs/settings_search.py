"""The search itself: trials are asked for in batches, and their runs share the lanes of one store.

A trial is a choice of settings, trained with every seed; its value is the mean final return of its runs. What is on
disk decides what is still to do: the study says which trials were asked for, the store how far their runs came.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asymrl.runs.callback import Callback, Callbacks, StopRuns
from asymrl.runs.description import is_store
from asymrl.runs.driver import Outcome, train_store
from asymrl.runs.files import Lock, RunError
from asymrl.runs.placement import Pace, Placement
from asymrl.runs.runs import Run
from asymrl.runs.search_space import Space
from asymrl.runs.statistics import final_returns
from asymrl.runs.store import Store
from asymrl.runs.study_file import STUDY_FILE, distributions, open_study, unlisted
from asymrl.settings import Settings, new_settings

if TYPE_CHECKING:
    import optuna  # pyright: ignore[reportMissingImports]
    import polars as pl

STUDY_FOLDER = "study"
COMPLETE, PRUNED, FAILED, RUNNING = "complete", "pruned", "failed", "running"


@dataclass(frozen=True)
class Trial:
    """A choice of settings and what it reached."""

    number: int
    state: str
    """complete, pruned, failed or running."""
    value: float | None
    """Mean final return of its runs; for a pruned trial, the mean return last reported."""
    settings: Mapping[str, Any]
    """Those that were searched."""


@dataclass(frozen=True)
class SettingsSearch:
    """A search over settings in a folder."""

    folder: Path
    base: Mapping[str, Any]
    """Values for `Settings` of all runs, complete with world, method and steps."""
    space: Space
    trials: int = 20
    seeds: Sequence[int] = (0, 1)
    """Of the runs of each trial."""
    together: int = 8
    """Trials whose runs are trained together."""
    sampler_seed: int = 0
    given: Mapping[str, Any] = field(default_factory=dict)
    """The part of `base` that the user chose, to be written into the settings file."""

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise ValueError(f"{self.trials} trials: at least 1 is needed")
        if not self.seeds:
            raise ValueError("no seeds: train at least one run of each trial")
        if self.together < 1:
            raise ValueError(f"{self.together} trials together: at least 1 is needed")
        for name, axis in self.space.items():  # every end must be valid together with the other settings
            for end in axis.ends:
                self.settings({name: end})

    def settings(self, chosen: Mapping[str, Any]) -> Settings:
        """The settings of a trial. Raises ValueError if they are invalid."""
        return new_settings(**{**self.base, **chosen})

    def runs(self, chosen: Mapping[str, Any]) -> list[Run]:
        settings = self.settings(chosen)
        return [Run(settings, seed) for seed in self.seeds]

    def description(self) -> dict[str, Any]:
        """What must stay the same when a search is continued."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in self.base.items()}
        space = {name: axis.to_json() for name, axis in self.space.items()}
        return {"settings": plain, "space": space, "seeds": list(self.seeds)}

    def run(
        self,
        callback: Callable[[], Callback],
        *,
        pace: Pace = Pace(),  # noqa: B008  it is frozen
        placement: Placement = Placement(),  # noqa: B008
        minutes: float | None = None,
        keeps_networks: bool = True,
    ) -> Outcome:
        """Runs the missing trials, batch by batch. SIGINT and SIGTERM end it, with a checkpoint.

        Args:
            callback: makes a callback for the training of each batch.
            pace: how often to refresh and to save.
            placement: where to train.
            minutes: after which it stops with a checkpoint. None: at its end.
            keeps_networks: whether a new store keeps the networks of the runs.

        Raises:
            RunError: if the folder holds something else, or another process has it.
        """
        end_at = None if minutes is None else time.monotonic() + 60 * minutes
        lock = self._hold()
        try:
            study = self._study()
            outcome = self._tell_what_is_over(study)
            while batch := self._batch(study):
                remaining = None if end_at is None else (end_at - time.monotonic()) / 60
                outcome = self._train(study, batch, callback(), pace, placement, remaining, keeps_networks)
                if outcome.interrupted is not None or outcome.is_out_of_time:
                    return outcome
            return outcome
        finally:
            lock.release()

    def results(self) -> list[Trial]:
        """The trials so far, best first: complete ones, then pruned ones, then the others."""
        lock = self._hold()
        try:
            trials = [self._described(each) for each in self._study().get_trials(deepcopy=False)]
        finally:
            lock.release()
        order = {COMPLETE: 0, PRUNED: 1}
        return sorted(trials, key=lambda t: (order.get(t.state, 2), -(t.value if t.value is not None else -math.inf)))

    def _hold(self) -> Lock:
        """Locks the folder of the study against other processes."""
        if is_store(self.folder) and not (self.folder / STUDY_FOLDER / STUDY_FILE).is_file():
            raise RunError(f"{self.folder}: already holds runs of something else; choose another --out")
        inner = self.folder / STUDY_FOLDER
        try:
            inner.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"{self.folder}: cannot be made a folder: {error.strerror}") from error
        return Lock(inner)

    def _study(self) -> optuna.Study:
        points = int(self.base.get("log_points", Settings.log_points))
        return open_study(self.folder / STUDY_FOLDER, self.description(), points, self.sampler_seed)

    def _described(self, trial: optuna.trial.FrozenTrial) -> Trial:
        states = {"COMPLETE": COMPLETE, "PRUNED": PRUNED, "FAIL": FAILED}
        value = trial.value if trial.state.name in ("COMPLETE", "PRUNED") else None
        return Trial(trial.number, states.get(trial.state.name, RUNNING), value, self._trial_settings(trial))

    def _trial_settings(self, trial: optuna.trial.FrozenTrial) -> dict[str, Any]:
        return {name: unlisted(value, self.space[name]) for name, value in trial.params.items()}

    def _tell_what_is_over(self, study: optuna.Study) -> Outcome:
        """Updates trials whose runs are over already, as after a search was killed."""
        running = [each for each in study.get_trials(deepcopy=False) if each.state.name == "RUNNING"]
        over = 0
        if is_store(self.folder):
            store = Store.open(self.folder)
            over = sum(result.is_over for result in store.results().values())
            self._tell(study, running, store)
        return Outcome(over, over, {}, None, False, 0.0, 0)

    def _batch(self, study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
        """The trials to train next: those that were begun, and new ones up to `together`."""
        there = study.get_trials(deepcopy=False)
        running = [each for each in there if each.state.name == "RUNNING"]
        kinds = {name: type(getattr(self.settings({}), name)) for name in self.space}
        axes = distributions(self.space, kinds)
        for _ in range(min(self.together - len(running), self.trials - len(there))):
            study.ask(fixed_distributions=axes)
        return [each for each in study.get_trials(deepcopy=False) if each.state.name == "RUNNING"]

    def _train(
        self,
        study: optuna.Study,
        batch: Sequence[optuna.trial.FrozenTrial],
        callback: Callback,
        pace: Pace,
        placement: Placement,
        minutes: float | None,
        keeps_networks: bool,
    ) -> Outcome:
        runs = [run for trial in batch for run in self.runs(self._trial_settings(trial))]
        runs = list({run.key: run for run in runs}.values())  # two trials may have chosen the same
        store = Store.take_or_create(self.folder, runs, keeps_networks=keeps_networks)
        try:
            numbers = {run.key: number for number, run in enumerate(store.runs)}
            of_trial = {
                trial.number: [numbers[run.key] for run in self.runs(self._trial_settings(trial))] for trial in batch
            }
            pruning = Pruning(study, batch, of_trial, self.settings({}).log_period)
            only = sorted({number for each in of_trial.values() for number in each})
            outcome = train_store(
                store, Callbacks([callback, pruning]), pace=pace, placement=placement, minutes=minutes, only=only
            )
            self._tell(study, batch, store)
            return outcome
        finally:
            store.release()

    def _tell(self, study: optuna.Study, batch: Sequence[optuna.trial.FrozenTrial], store: Store) -> None:
        """Tells the study about the trials that have no run left to train."""
        from optuna.trial import TrialState  # pyright: ignore[reportMissingImports]

        numbers = {run.key: number for number, run in enumerate(store.runs)}
        results = store.results()
        finals = _finals(store)
        for trial in batch:
            own = [numbers.get(run.key) for run in self.runs(self._trial_settings(trial))]
            states = [results[number].status if number in results else "waiting" for number in own]
            if not all(state in ("complete", "solved", "stopped", "failed", "error") for state in states):
                continue
            values = [finals.get(number, math.nan) for number in own if number is not None]
            if any(state in ("failed", "error") for state in states) or not all(map(math.isfinite, values)):
                study.tell(trial.number, state=TrialState.FAIL)
            elif "stopped" in states:
                study.tell(trial.number, state=TrialState.PRUNED)
            else:
                study.tell(trial.number, sum(values) / len(values))


class Pruning(Callback):
    """A callback that stops the runs of trials that are worse than the median of earlier ones at the same point."""

    def __init__(
        self,
        study: optuna.Study,
        batch: Sequence[optuna.trial.FrozenTrial],
        runs: Mapping[int, Sequence[int]],
        period: int,
    ):
        """`runs`: the numbers of the runs of each trial, by its number; `period`: steps between points of a curve."""
        import optuna  # pyright: ignore[reportMissingImports]

        self._trials = {each.number: optuna.trial.Trial(study, each._trial_id) for each in batch}
        self._reported = {each.number: set(each.intermediate_values) for each in batch}
        self._runs = dict(runs)
        self._curves: dict[int, dict[int, float]] = {number: {} for each in runs.values() for number in each}
        self._period = period
        self._pruned: set[int] = set()  # numbers of trials

    def points(self, run: int, table: pl.DataFrame) -> None:
        if run not in self._curves:
            return
        table = table.drop_nulls("return")  # before the first episode is over
        points = (table["timestep"] // self._period).to_list()
        self._curves[run] |= dict(zip(points, table["return"].to_list(), strict=True))
        for trial in [number for number, own in self._runs.items() if run in own]:
            self._report(trial)
        active_runs = {run for trial, own in self._runs.items() if trial not in self._pruned for run in own}
        if unwanted := {run for trial in self._pruned for run in self._runs[trial]} - active_runs:
            raise StopRuns(*unwanted)

    def _report(self, trial: int) -> None:
        """Reports the points that all runs of a trial have, and asks whether to go on."""
        curves = [self._curves[run] for run in self._runs[trial]]
        for point in sorted(set.intersection(*map(set, curves)) - self._reported[trial]):
            value = sum(curve[point] for curve in curves) / len(curves)
            if not math.isfinite(value):
                continue
            self._trials[trial].report(value, point)
            self._reported[trial].add(point)
            if trial not in self._pruned and self._trials[trial].should_prune():
                self._pruned.add(trial)


def _finals(store: Store) -> dict[int, float]:
    """The final return of each run in which an episode was over, by number."""
    if not any(result.is_over for result in store.results().values()):
        return {}  # before the first table is written, too
    metrics = store.metrics()
    table = final_returns(metrics).drop_nulls("final")
    return dict(zip(table["run"].to_list(), table["final"].to_list(), strict=True))
