"""`asymrl study`: questions that the paper leaves open, each with a prediction, an exact analysis and runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from asymrl.cli.output import busy, print_table
from asymrl.cli.running import NetworkOptions, Training
from asymrl.cli.usage import Flag, check_folder, open_store, user_errors
from asymrl.runs.wording import wrapped

if TYPE_CHECKING:
    from asymrl.runs.store import Store
    from asymrl.studies.study import Study

WIDTH = 100


@dataclass(frozen=True, kw_only=True)
class RunStudy(NetworkOptions):
    """Answer a question that the paper leaves open: prediction, exact analysis, training, tables and a figure.

    Without a name, lists the studies. Runs that are already in the folder are not trained again, so a study can be done
    in pieces.

      asymrl study
      asymrl study bootstrap --exact-only
      asymrl study bootstrap --quick
    """

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="NAME")] = None
    """Which study."""
    env: tuple[str, ...] | None = None
    """Worlds of the study. None: all."""
    arms: tuple[str, ...] | None = None
    """What is compared, by labels or how they begin, such as ppo in the study learners. None: all."""
    seeds: int | None = None
    """How many seeds. None: the study's own number, 20."""
    steps: int | None = None
    """Steps of each run. None: the study's own number."""
    quick: Flag = False
    """A version for a quarter of an hour on a laptop: one world, the first or that of --env, two seeds, short runs, no
    search for settings."""
    phase: Literal["search", "final", "all"] = "all"
    """Train only the search for settings, only the final runs, or both in order."""
    exact_only: Flag = False
    """Train nothing: only the question, the prediction and the exact analysis."""
    out: Path | None = None
    """Folder of the runs and figures. None: runs in runs/study-NAME, with --quick in runs/study-quick-NAME; figures in
    figures."""
    from_results: Path | None = None
    """Train nothing; make tables and figures from the runs in this folder."""
    reuse: tuple[Path, ...] = ()
    """Folders with finished runs: those that the study needs are copied instead of trained."""
    no_draw: Flag = False
    """Only train: no exact analysis, tables or figure."""
    training: Training = field(default_factory=Training)

    def run(self) -> int:
        if self.name is None:
            return _list_studies()
        from asymrl.api.studied import wanted_study

        with user_errors():
            study = wanted_study(self.name, self.env, self.seeds, self.steps, self.arms, quick=self.quick)
        self.training.checked()
        for folder in filter(None, (self.from_results, *self.reuse)):
            open_store(folder)  # a mistake is told before the exact analysis, which takes a while
        if self.out is not None:
            check_folder(self.out)
        if self.exact_only or not self.no_draw:
            _print_question(study)
        if self.exact_only:
            return 0
        if self.from_results is not None:
            self._report(open_store(self.from_results), study)
            return 0
        return self._train(study, self.name)

    def _train(self, study: Study, name: str) -> int:
        from asymrl.api.studied import study_folder, study_stores

        begin, training = time.monotonic(), self.training
        out = self.out or study_folder(name, quick=self.quick)
        status = 0
        with user_errors():
            for store, only in study_stores(
                study, out, self.phase, keep_networks=self.networks_wanted(), reuse=self.reuse
            ):
                if (minutes := self.training.minutes) is not None:
                    training = replace(training, minutes=max(0.0, minutes - (time.monotonic() - begin) / 60))
                again = f"the same command, or asymrl resume {out} for what is listed there"
                status = training.train(store, only=only, again=again, report=lambda _: None)
                if status > 1 or set(store.unfinished()) & set(only):
                    return status
        if not self.no_draw and self.phase != "search":
            self._report(open_store(out), study)
        else:
            self.training.write_page(open_store(out))
        return status

    def _report(self, store: Store, study: Study) -> None:
        """Prints the numbers, and writes them and the figures."""
        from asymrl.studies.answers import answer

        out = check_folder(self.out or Path("figures"))
        with user_errors(store.path), busy("drawing tables and figures from the runs"):
            findings = answer(study, store.path)
        self.training.show_findings(findings, out, store)


def _list_studies() -> int:
    from asymrl.studies.catalogue import STUDIES

    for study in STUDIES.values():
        print(f"{study.name:<12} {study.title}")
    print("\nasymrl study NAME answers one; --quick gives a first impression, --exact-only trains nothing")
    return 0


def _print_question(study: Study) -> None:
    """The question, the prediction and the exact analysis."""
    from asymrl.studies.arm_tables import exact_parts

    print(study.title)
    for word, text in (("question", study.question), ("prediction", study.prediction)):
        print("", *wrapped(f"{word}: {text}", WIDTH), sep="\n")
    print(flush=True)
    if study.exact is None:
        print("This study has no exact analysis.\n", flush=True)
        return
    for setup in study.setups:
        with busy(f"computing values and gradients of {setup.name} exactly"):
            parts = exact_parts(study, setup)
        if not parts:
            print(f"\n{setup.name}: no exact analysis")
        for policy, table in parts.items():
            print(f"\n{setup.name}, exactly{policy and f', {policy} agent'}:")
            print_table(table)
    print()
