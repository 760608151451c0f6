"""A study as data: a question, a prediction, and the runs that answer it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from asymrl.runs.options import resolve
from asymrl.runs.runs import Run
from asymrl.settings import Settings, names_of, new_settings, own_values, settings_type
from asymrl.settings.hyperparameters import tuned

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl
    from matplotlib.figure import Figure

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
    """What the line is called in the legend, and decides its colour, such as V(h, s). Empty: the label."""

    @property
    def method(self) -> str:
        return self.settings["method"]


@dataclass(frozen=True)
class Setup:
    """A world of a study, how long its runs are, and what is set there for all arms."""

    world: str
    steps: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """A setting that only some learners have goes to the arms whose learner has it."""
    searched_as: str | None = None
    """The name of the setup whose search decides for this one too. None: it is searched itself."""
    solved: float | None = None
    """A run has solved the world if its normalised score is above this: 0 is a random policy, 1 the best known. None:
    0.9, or 0.98 in Shopping, where a random policy is so bad that 0.9 is far from the best."""
    label: str = ""
    """Its name, if it is not that of the world: where two setups share one."""

    @property
    def name(self) -> str:
        return self.label or self.world

    @property
    def threshold(self) -> float:
        """The normalised score above which a run has solved the world."""
        usual = 0.98 if self.world.startswith("shopping") else 0.9
        return usual if self.solved is None else self.solved


@dataclass(frozen=True)
class Search:
    """A small grid that is searched for each setup and arm before the final runs.

    The rule: the combination with the highest mean final return over the search's seeds; among equals the first. An arm
    is searched over those axes that its learner has and that it does not set itself.
    """

    axes: Mapping[str, Sequence[Any]] | Callable[[Setup], Mapping[str, Sequence[Any]]]
    """Values to try by the names of settings, the same everywhere or for each setup."""
    seeds: int = 4
    """How many: 1000, 1001, ..., none of which a final run has."""
    steps: int | None = None
    """Of each run of the search. None: as many as the final runs have."""


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
    arms: tuple[Arm, ...] | Callable[[Setup], tuple[Arm, ...]]
    seeds: int = 20
    search: Search | None = None
    exact: Callable[[str], pl.DataFrame] | None = None
    """The exact analysis of a world: a row for each arm that has one, its label in the column `arm`, then numbers. A
    world that has none gives an empty table. Columns called `POLICY: NUMBER` are printed as a table for each policy."""
    measure: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    """More numbers from the learning curves, whose first columns are `setup` and `arm`: a row for each of these."""
    beside: Callable[[Path], tuple[Mapping[str, pl.DataFrame], Mapping[str, Figure]]] | None = None
    """Tables and figures of what was measured besides the runs, in their folder, by the names of their files."""
    comparisons: tuple[tuple[str, str], ...] = ()
    """Labels of two arms: how probable is it that a run of the first beats one of the second?"""
    exact_score: str | None = None
    """The column of the exact analysis to draw results against."""
    result: str = "iqm"
    """The column to draw against it, whose bounds have the same name with `_low` and `_high`."""
    search_setups: tuple[Setup, ...] | None = None
    """The setups that are searched. None: all that no other one decides for."""
    log_points: int = 100
    precision: str = "tf32"
    """Of products on a GPU: all arms are compared with the same, and the less exact one trains a quarter faster."""
    quick_steps: int = 200_000
    """Steps of the runs of the quick version."""

    def arms_in(self, setup: Setup) -> tuple[Arm, ...]:
        """The arms of a setup."""
        return self.arms(setup) if callable(self.arms) else self.arms

    def labels(self) -> list[str]:
        """The labels of all arms, each once, in their order."""
        return list(dict.fromkeys(arm.label for setup in self.setups for arm in self.arms_in(setup)))

    def settings(self, setup: Setup, arm: Arm, chosen: Mapping[str, Any], steps: int | None = None) -> Settings:
        """The settings of the runs of an arm. `steps`: how many, if neither the arm's nor the setup's."""
        methods = [each.method for each in self.arms_in(setup)]
        common = {"steps": setup.steps, "log_points": self.log_points, "precision": self.precision}
        overrides = {**common, **own_values(arm.method, methods, setup.settings), **chosen, **arm.settings}
        if steps is not None:
            overrides["steps"] = steps
        return new_settings(**resolve(setup.world, arm.method, overrides, tuned=tuned(setup.world, arm.method)))

    def candidates(self, setup: Setup, arm: Arm) -> list[dict[str, Any]]:
        """What the search tries for an arm: one empty combination if there is nothing to search."""
        if self.search is None:
            return [{}]
        axes = self.search.axes(setup) if callable(self.search.axes) else self.search.axes
        setting_names = names_of(settings_type(arm.method))
        own = {name: values for name, values in axes.items() if name in setting_names and name not in arm.settings}
        return [dict(zip(own, values, strict=True)) for values in itertools.product(*own.values())]

    def search_runs(self) -> list[PlannedRun]:
        """The runs of the search; none for arms with a single candidate."""
        if self.search is None:
            return []
        seeds = range(FIRST_SEARCH_SEED, FIRST_SEARCH_SEED + self.search.seeds)
        planned = []
        for setup in self.searched_setups():
            for arm in self.arms_in(setup):
                candidates = self.candidates(setup, arm)
                for candidate in candidates if len(candidates) > 1 else []:
                    settings = self.settings(setup, arm, candidate, self.search.steps)
                    planned += [PlannedRun(Run(settings, seed), setup, arm, candidate) for seed in seeds]
        return planned

    def searched_setups(self) -> tuple[Setup, ...]:
        """The setups that are searched."""
        if self.search_setups is not None:
            return self.search_setups
        return tuple(setup for setup in self.setups if setup.searched_as is None)

    def final_runs(self, choices: Choices | None = None) -> list[PlannedRun]:
        """The runs that answer the question; only of setups and arms that something was chosen for."""
        planned = []
        for setup in self.setups:
            for arm in self.arms_in(setup):
                choice = self.choice(setup, arm, choices or {})
                if choice is not None:
                    settings = self.settings(setup, arm, choice)
                    planned += [PlannedRun(Run(settings, seed), setup, arm, choice) for seed in range(self.seeds)]
        return planned

    def size(self) -> int:
        """How many runs there are, those of the search included."""
        return len(self.search_runs()) + self.seeds * sum(len(self.arms_in(setup)) for setup in self.setups)

    def choice(self, setup: Setup, arm: Arm, choices: Choices) -> Mapping[str, Any] | None:
        """What was chosen for an arm; None if its search has not decided yet."""
        candidates = self.candidates(setup, arm)
        if len(candidates) == 1:
            return candidates[0]
        return choices.get((setup.searched_as or setup.name, arm.label))

    def narrowed(
        self,
        worlds: Sequence[str] | None = None,
        seeds: int | None = None,
        steps: int | None = None,
        arms: Sequence[str] | None = None,
    ) -> Study:
        """The study in some of its worlds, with some of its arms, more or fewer seeds, or other numbers of steps.

        A setup whose search decides for one of these worlds is still searched. `arms` are labels, or how some begin;
        worlds that have none of them are left out.

        Raises:
            ValueError: if a world or an arm is not in the study, or nothing is left.
        """
        if arms is not None:
            return self.narrowed(worlds, seeds, steps)._with_arms(tuple(arms))
        setups = self.setups
        if worlds is not None:
            names = [setup.name for setup in setups]
            for world in worlds:
                if world not in names:
                    raise ValueError(f"{world}: the study {self.name} has {', '.join(names)}")
            setups = tuple(setup for setup in setups if setup.name in worlds)
        if seeds is not None and not 1 <= seeds <= FIRST_SEARCH_SEED:
            raise ValueError(f"{seeds} seeds: choose 1 to {FIRST_SEARCH_SEED}")
        deciding = {setup.searched_as or setup.name for setup in setups}
        searched = tuple(setup for setup in self.searched_setups() if setup.name in deciding)
        narrow = replace(self, setups=setups, seeds=seeds or self.seeds, search_setups=searched)
        return narrow if steps is None else narrow._with_steps(steps)

    def _with_arms(self, beginnings: tuple[str, ...]) -> Study:
        labels = self.labels()
        known = f"in {', '.join(setup.name for setup in self.setups)} the study {self.name} has {'; '.join(labels)}"
        if not beginnings:
            raise ValueError(f"no arms: {known}")
        for each in beginnings:
            if not any(label.startswith(each) for label in labels):
                raise ValueError(f"{each}: {known}")

        def kept(arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
            return tuple(arm for arm in arms if arm.label.startswith(beginnings))

        all_arms = self.arms
        arms = (lambda setup: kept(all_arms(setup))) if callable(all_arms) else kept(all_arms)
        pairs = tuple(pair for pair in self.comparisons if all(label.startswith(beginnings) for label in pair))
        setups = tuple(setup for setup in self.setups if kept(self.arms_in(setup)))
        narrow = replace(self, setups=setups, search_setups=self.searched_setups(), arms=arms, comparisons=pairs)
        return narrow if self.exact is None else replace(narrow, exact=_rows_of(self.exact, beginnings))

    def _with_steps(self, steps: int) -> Study:
        def shortened(arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
            return tuple(replace(arm, settings={**arm.settings, "steps": steps}) for arm in arms)

        all_arms = self.arms
        arms = (lambda setup: shortened(all_arms(setup))) if callable(all_arms) else shortened(all_arms)
        search = self.search and replace(self.search, steps=min(steps, self.search.steps or steps))
        return replace(self, arms=arms, search=search)

    def quick(self) -> Study:
        """A version for a quarter of an hour on two cores: the first setup, two seeds, short runs, no search."""
        first = replace(self.setups[0], searched_as=None)
        return replace(self, setups=(first,), seeds=QUICK_SEEDS, search=None, search_setups=None)._with_steps(
            self.quick_steps
        )


def _rows_of(exact: Callable[[str], pl.DataFrame], beginnings: tuple[str, ...]) -> Callable[[str], pl.DataFrame]:
    """An exact analysis with the rows of those arms only whose labels begin so."""

    def some(world: str) -> pl.DataFrame:
        table = exact(world)
        return table.filter([label.startswith(beginnings) for label in table["arm"]])

    return some
