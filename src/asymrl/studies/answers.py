"""A study's answer: tables and figures from a folder with its runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from asymrl.report.findings import Findings
from asymrl.report.score_rows import power_statement
from asymrl.runs.files import RunError
from asymrl.runs.store import Store
from asymrl.runs.wording import plural
from asymrl.studies.arm_figures import against_exact, arm_curves
from asymrl.studies.arm_tables import arm_table, comparison_table, exact_table
from asymrl.studies.choosing import choose, final_scores, placed_curves, places_in, search_table
from asymrl.studies.study import Choices, PlannedRun, Study

NOT_SHOWN = ("normalised", "normalised_low", "normalised_high", "steps")  # but written
SOONER = (
    "sooner: the probability that a run of arm first solves the world before one of than; a run that never does comes "
    "last, and a tie counts half"
)


def answer(study: Study, folder: str | os.PathLike[str]) -> Findings:
    """The tables and figures of a study, from the runs of a store that are over.

    Raises:
        RunError: if there is no store in the folder, or it holds no run of the study that is over.
    """
    store = Store.open(Path(folder))
    choices, results = choose(study, store), store.results()
    places = {
        number: place
        for number, place in places_in(store, study.final_runs(choices)).items()
        if number in results and results[number].is_over and results[number].curve is not None
    }
    if not places:
        how = f"`asymrl study {study.name}` trains them"
        raise RunError(f"{folder}: no runs of the study {study.name} that are over; {how}")
    curves = placed_curves(store, places)
    finals = final_scores(curves, places)
    numbers, compared = arm_table(study, curves, finals, choices), comparison_table(study, curves, finals)
    exact = [name for name in exact_table(study).columns if name not in ("setup", "arm")]
    comparisons = f"{study.name}-comparisons"
    tables = {comparisons: compared, f"{study.name}-search": search_table(study, store)}
    figures: dict[str, Figure] = {study.name: arm_curves(study, curves)}
    if study.exact_score is not None and study.exact_score in numbers.columns:
        figures[f"{study.name}-exact"] = against_exact(study, numbers, study.exact_score)
    more_tables, more_figures = ({}, {}) if study.beside is None else study.beside(Path(folder))
    shown = [comparisons] if len(compared) else []
    return Findings(
        study.name,
        numbers,
        numbers.drop(*NOT_SHOWN, *(name for name in exact if name != study.exact_score), strict=False),
        {**figures, **more_figures},
        _missing(study, places.values(), choices),
        _reading(compared) if len(compared) else None,
        {name: table for name, table in {**tables, **more_tables}.items() if len(table)},
        (*shown, *more_tables),
    )


def _reading(compared: pl.DataFrame) -> str:
    """How to read the comparisons."""
    return "\n".join(filter(None, (power_statement(compared), SOONER if compared["sooner"].count() else None)))


def _missing(study: Study, places: Iterable[PlannedRun], choices: Choices) -> list[str]:
    """What a reader should know: setups without all of their runs."""
    there, notes = Counter(each.setup.name for each in places), []
    for setup in study.setups:
        arms = study.arms_in(setup)
        total = study.seeds * len(arms)
        open_arms = sum(study.choice(setup, arm, choices) is None for arm in arms)
        if there[setup.name] < total:
            why = f"; the search is not over for {plural('arm', open_arms)}" if open_arms else ""
            notes.append(f"{setup.name}: {there[setup.name]} of {plural('run', total)} are over{why}")
    return notes
