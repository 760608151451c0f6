"""A study as data: a question, a prediction, and the runs that answer it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from asymrl.api.wanted import settings_for
from asymrl.runs import Run, Store
from asymrl.runs.statistics import final_returns
from asymrl.settings import Settings, names_of, own_values, settings_type

FIRST_SEARCH_SEED = 1000  # runs of a search have seeds from here on, the final runs those below
QUICK_SEEDS = 2
EVERY_PANEL = "*"


@dataclass(frozen=True)
class Arm:
    """One line of a figure: what is compared."""

    label: str
    settings: Mapping[str, Any]
    """The `method`, and what else this arm has of its own."""
    metric: str = "return"
    """The column of the learning curves that counts; `evaluation_return` where training explores much."""
    panel: str = ""
    """Arms of one panel are drawn together, those of `EVERY_PANEL` in each; without one, in the panel of the setup."""
    line: str = ""
    """The name of the line in the legend, which decides its colour, such as V(h, s). Empty: the label."""


@dataclass(frozen=True)
class Setup:
    """A world of a study, how long its runs are, and what is set there for all arms."""

    world: str
    steps: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """A setting that only some learners have goes to the arms whose learner has it."""
    searched_as: str | None = None
    """The name of the setup whose search decides for this one too. None: it is searched itself."""
    label: str = ""
    """Its name, if it is not that of the world: where two setups share one."""

    @property
    def name(self) -> str:
        return self.label or self.world

    @property
    def threshold(self) -> float:
        """The normalised score (0: a random policy, 1: the best known) above which a run has solved the world.

        In Shopping a random policy is so bad that 0.9 is far from the best.
        """
        return 0.98 if self.world.startswith("shopping") else 0.9


@dataclass(frozen=True)
class Search:
    """A small grid that is searched for each setup and arm before the final runs.

    The rule: the combination with the highest mean final return over the search's seeds; among equals the first. An arm
    is searched over those axes that its learner has and that it does not set itself.
    """

    axes: Callable[[Setup], Mapping[str, Sequence[Any]]]
    """Values to try in a setup, by the names of settings."""
    seeds: int
    """How many: 1000, 1001, ..., none of which a final run has."""


class PlannedRun(NamedTuple):
    """A run and its place in a study."""

    run: Run
    setup: Setup
    arm: Arm
    chosen: Mapping[str, Any]
    """What the search tries here, or has chosen."""


# What a search has chosen, by the name of the setup and the label of the arm.
Choices = Mapping[tuple[str, str], Mapping[str, Any]]


@dataclass(frozen=True)
class Study:
    """A question, what was predicted, and the runs that answer it: every setup with every arm and seeds 0, 1, ...

    Settings are those that the paper tuned for the world and method, then the setup's, then what the search chose, then
    the arm's; all others are defaults.
    """

    name: str
    title: str
    question: str
    prediction: str
    """Written before the runs."""
    setups: tuple[Setup, ...]
    arms_in: Callable[[Setup], tuple[Arm, ...]]
    """The arms of a setup."""
    seeds: int = 20
    search: Search | None = None
    search_setups: tuple[Setup, ...] = ()
    """The setups that are searched, if they are not those that no other one decides for."""
    exact: Callable[[str], pl.DataFrame] | None = None
    """The exact analysis of a world: a row for each arm that has one, its label in the column `arm`, then numbers. A
    world that has none gives an empty table. Columns called `POLICY: NUMBER` are printed as a table for each policy."""
    exact_score: str | None = None
    """The column of the exact analysis to draw results against."""
    result: str = "iqm"
    """The column to draw against it, whose bounds have the same name with `_low` and `_high`."""
    measure: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    """More numbers from the learning curves, whose first columns are `setup` and `arm`: a row for each of these."""
    beside: Callable[[Path], Mapping[str, pl.DataFrame]] | None = None
    """Tables of what was measured besides the runs, in their folder, by the names of their files."""
    comparisons: tuple[tuple[str, str], ...] = ()
    """Labels of two arms: how probable is it that a run of the first beats one of the second?"""
    log_points: int = 100
    precision: str = "tf32"
    """Of products on a GPU: all arms are compared with the same, and the less exact one trains a quarter faster."""
    steps: int | None = None
    """Steps of every run, in place of those of setups and arms."""
    quick_steps: int = 200_000

    def settings(self, setup: Setup, arm: Arm, chosen: Mapping[str, Any]) -> Settings:
        """The settings of the runs of an arm."""
        methods = [each.settings["method"] for each in self.arms_in(setup)]
        common = {"steps": setup.steps, "log_points": self.log_points, "precision": self.precision}
        own = own_values(arm.settings["method"], methods, setup.settings)
        shorter = {} if self.steps is None else {"steps": self.steps}
        return settings_for(setup.world, **{**common, **own, **chosen, **arm.settings, **shorter})

    def candidates(self, setup: Setup, arm: Arm) -> list[dict[str, Any]]:
        """What the search tries for an arm: one empty combination if there is nothing to search."""
        axes = {} if self.search is None else self.search.axes(setup)
        known = names_of(settings_type(arm.settings["method"]))
        own = {name: values for name, values in axes.items() if name in known and name not in arm.settings}
        return [dict(zip(own, values, strict=True)) for values in itertools.product(*own.values())]

    def searched(self) -> list[tuple[Setup, Arm]]:
        """The setups and arms that have something to search."""
        setups = self.search_setups or tuple(setup for setup in self.setups if setup.searched_as is None)
        pairs = ((setup, arm) for setup in setups for arm in self.arms_in(setup))
        return [(setup, arm) for setup, arm in pairs if len(self.candidates(setup, arm)) > 1]

    def search_runs(self) -> list[PlannedRun]:
        """The runs of the search."""
        seeds = range(FIRST_SEARCH_SEED, FIRST_SEARCH_SEED + (self.search.seeds if self.search else 0))
        return [
            PlannedRun(Run(self.settings(setup, arm, candidate), seed), setup, arm, candidate)
            for setup, arm in self.searched()
            for candidate in self.candidates(setup, arm)
            for seed in seeds
        ]

    def final_runs(self, choices: Choices) -> list[PlannedRun]:
        """The runs that answer the question; only of setups and arms that something was chosen for."""
        return [
            PlannedRun(Run(self.settings(setup, arm, choice), seed), setup, arm, choice)
            for setup in self.setups
            for arm in self.arms_in(setup)
            if (choice := self.choice(setup, arm, choices)) is not None
            for seed in range(self.seeds)
        ]

    def choice(self, setup: Setup, arm: Arm, choices: Choices) -> Mapping[str, Any] | None:
        """What was chosen for an arm; None if its search has not decided yet."""
        if len(self.candidates(setup, arm)) == 1:
            return {}
        return choices.get((setup.searched_as or setup.name, arm.label))

    def undecided(self, choices: Choices) -> list[str]:
        """The setups and arms whose search is not over, as text."""
        pairs = [(setup, arm) for setup in self.setups for arm in self.arms_in(setup)]
        return [f"{setup.name} {arm.label}" for setup, arm in pairs if self.choice(setup, arm, choices) is None]

    def part(self, worlds: Sequence[str] | None = None, seeds: int | None = None) -> Study:
        """The study in some of its worlds, with fewer seeds. A search that decides for one of these worlds stays.

        Raises:
            ValueError: if a world is not in the study.
        """
        names = [setup.name for setup in self.setups]
        for world in worlds or ():
            if world not in names:
                raise ValueError(f"{world}: the study {self.name} has {', '.join(names)}")
        setups = tuple(setup for setup in self.setups if worlds is None or setup.name in worlds)
        deciding = {setup.searched_as or setup.name for setup in setups}
        searched = self.search_setups or self.setups
        searched = tuple(setup for setup in searched if setup.searched_as is None and setup.name in deciding)
        return replace(self, setups=setups, search_setups=searched, seeds=seeds or self.seeds)

    def quick(self) -> Study:
        """A version for a quarter of an hour on two cores: the first setup, two seeds, short runs, no search."""
        first = replace(self.setups[0], searched_as=None)
        short = {"setups": (first,), "search": None, "search_setups": (), "steps": self.quick_steps}
        return replace(self, seeds=QUICK_SEEDS, **short)


def places_in(store: Store, planned: Iterable[PlannedRun]) -> dict[int, PlannedRun]:
    """The planned runs that are over in a store, with as many steps, by their numbers there."""
    places, results = {each.run.key: each for each in planned}, store.results()
    there = ((number, run, places.get(run.key)) for number, run in enumerate(store.runs))
    return {
        number: place
        for number, run, place in there
        if place is not None and place.run.settings.steps == run.settings.steps
        if number in results and results[number].is_over
    }


def placed_curves(store: Store, places: Mapping[int, PlannedRun]) -> pl.DataFrame:
    """The learning curves of these runs of a store, with the columns `setup` and `arm` in front."""
    rows = [(number, place.setup.name, place.arm.label) for number, place in places.items()]
    labels = pl.DataFrame(rows, {"run": pl.Int32, "setup": pl.String, "arm": pl.String}, orient="row")
    curves = store.metrics().join(labels, on="run", maintain_order="left")
    return curves.select("setup", "arm", pl.exclude("setup", "arm"))


def final_scores(curves: pl.DataFrame, places: Mapping[int, PlannedRun]) -> pl.DataFrame:
    """The final return of each run, `final`, by the metric that counts for its arm; see `asymrl.runs.statistics`."""
    by_metric: dict[str, list[int]] = {}
    for number, place in places.items():
        by_metric.setdefault(place.arm.metric, []).append(number)
    parts = [final_returns(curves.filter(pl.col("run").is_in(runs)), metric) for metric, runs in by_metric.items()]
    return pl.concat(parts) if parts else final_returns(curves.clear())


def search_means(study: Study, store: Store) -> dict[tuple[str, str], dict[int, float]]:
    """Mean final returns by setup and arm, then by the number of the combination, where all its runs are over.

    A run without a return, because it failed before its first point, has the worst one, so that its combination is not
    chosen.
    """
    over = places_in(store, study.search_runs())
    if study.search is None or not over:
        return {}
    scores = final_scores(placed_curves(store, over), over)
    finals = dict(zip(scores["run"].to_list(), scores["final"].to_list(), strict=True))
    groups: dict[tuple[str, str], dict[int, list[float]]] = {}
    for number, (_, setup, arm, values) in over.items():
        candidate = study.candidates(setup, arm).index(dict(values))
        final = finals.get(number, np.nan)
        returns = groups.setdefault((setup.name, arm.label), {}).setdefault(candidate, [])
        returns.append(final if np.isfinite(final) else -np.inf)
    return {
        place: {i: float(np.mean(each)) for i, each in sorted(group.items()) if len(each) == study.search.seeds}
        for place, group in groups.items()
    }


def choose(study: Study, store: Store) -> Choices:
    """What the search has chosen, by setup and arm, where all its runs are over: see `Search` for the rule."""
    means, choices = search_means(study, store), {}
    for setup, arm in study.searched():
        own, candidates = means.get((setup.name, arm.label), {}), study.candidates(setup, arm)
        if len(own) == len(candidates):
            choices[setup.name, arm.label] = candidates[max(own, key=own.__getitem__)]
    return choices


def search_table(study: Study, store: Store) -> pl.DataFrame:
    """The search in numbers: for each setup and arm what was tried, its mean final return, and what was chosen."""
    means, choices, rows = search_means(study, store), choose(study, store), []
    for setup, arm in study.searched():
        candidates, choice = study.candidates(setup, arm), choices.get((setup.name, arm.label))
        for i, mean in means.get((setup.name, arm.label), {}).items():
            values = candidates[i]
            chosen = "*" if values == choice else ""
            rows.append({"setup": setup.name, "arm": arm.label, **values, "mean": mean, "chosen": chosen})
    return pl.DataFrame(rows, infer_schema_length=None)
