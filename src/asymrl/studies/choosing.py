"""Which runs of a store belong to a study, and what the study's search has chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from asymrl.runs.statistics import final_returns
from asymrl.runs.store import Store
from asymrl.studies.study import FIRST_SEARCH_SEED, Choices, PlannedRun, Study


def places_in(store: Store, planned: Iterable[PlannedRun]) -> dict[int, PlannedRun]:
    """The planned runs that a store holds with as many steps, by their numbers there."""
    places = {each.run.key: each for each in planned}
    there = ((number, run.settings.steps, places.get(run.key)) for number, run in enumerate(store.runs))
    return {number: place for number, steps, place in there if place is not None and place.run.settings.steps == steps}


def search_numbers(store: Store) -> frozenset[int]:
    """The numbers of the runs of a store by which a study searched for settings, to be reported apart from the others.

    None of them if no other run has begun: then there is nothing else to report.
    """
    from asymrl.studies.catalogue import STUDIES  # which imports the studies and their theory

    if all(run.seed < FIRST_SEARCH_SEED for run in store.runs):
        return frozenset()
    planned = {each.run.key for study in STUDIES.values() for each in study.search_runs()}
    numbers = frozenset(number for number, run in enumerate(store.runs) if run.key in planned)
    return numbers if store.results().keys() - numbers else frozenset()


def placed_curves(store: Store, places: Mapping[int, PlannedRun]) -> pl.DataFrame:
    """The learning curves of these runs of a store, with the columns `setup` and `arm` in front."""
    labels = pl.DataFrame(
        {
            "run": list(places),
            "setup": [place.setup.name for place in places.values()],
            "arm": [place.arm.label for place in places.values()],
        },
        schema={"run": pl.Int32, "setup": pl.String, "arm": pl.String},
    )
    curves = store.metrics().join(labels, on="run", maintain_order="left")
    return curves.select("setup", "arm", pl.exclude("setup", "arm"))


def final_scores(curves: pl.DataFrame, places: Mapping[int, PlannedRun]) -> pl.DataFrame:
    """The final return of each run, `final`, by the metric that counts for its arm; see `stores.statistics`."""
    by_metric: dict[str, list[int]] = {}
    for number, place in places.items():
        by_metric.setdefault(place.arm.metric, []).append(number)
    parts = [final_returns(curves.filter(pl.col("run").is_in(runs)), metric) for metric, runs in by_metric.items()]
    return pl.concat(parts) if parts else final_returns(curves.clear())


def choose(study: Study, store: Store) -> Choices:
    """What the search has chosen, by setup and arm, where all its runs are over: see `Search` for the rule."""
    scores, choices = _search_means(study, store), {}
    for setup in study.searched_setups():
        for arm in study.arms_in(setup):
            candidates = study.candidates(setup, arm)
            means = [scores[place] for i in range(len(candidates)) if (place := (setup.name, arm.label, i)) in scores]
            if len(candidates) > 1 and len(means) == len(candidates):
                choices[setup.name, arm.label] = candidates[means.index(max(means))]
    return choices


def search_table(study: Study, store: Store) -> pl.DataFrame:
    """The search in numbers: for each setup and arm what was tried, its mean final return, and what was chosen.

    Only combinations all of whose runs are over.
    """
    scores, choices, rows = _search_means(study, store), choose(study, store), []
    for setup in study.searched_setups():
        for arm in study.arms_in(setup):
            choice = choices.get((setup.name, arm.label))
            for i, values in enumerate(study.candidates(setup, arm)):
                if (mean := scores.get((setup.name, arm.label, i))) is not None:
                    place = {"setup": setup.name, "arm": arm.label, **values}
                    rows.append({**place, "mean": mean, "chosen": "*" if values == choice else ""})
    return pl.DataFrame(rows, infer_schema_length=None)


def _search_means(study: Study, store: Store) -> dict[tuple[str, str, int], float]:
    """Mean final returns by setup, arm and number of the combination, where all runs are over.

    A run without a return, because it failed before its first point, has the worst one, so that its combination is not
    chosen.
    """
    places, results = places_in(store, study.search_runs()), store.results()
    over = {number: place for number, place in places.items() if number in results and results[number].is_over}
    if study.search is None or not over:
        return {}
    scores = final_scores(placed_curves(store, over), over)
    finals = dict(zip(scores["run"].to_list(), scores["final"].to_list(), strict=True))
    groups: dict[tuple[str, str, int], list[float]] = {}
    for number, (_, setup, arm, values) in over.items():
        group = (setup.name, arm.label, study.candidates(setup, arm).index(dict(values)))
        final = finals.get(number, np.nan)
        groups.setdefault(group, []).append(final if np.isfinite(final) else -np.inf)
    return {group: float(np.mean(each)) for group, each in groups.items() if len(each) == study.search.seeds}


def undecided(study: Study, choices: Choices) -> list[str]:
    """The setups and arms whose search is not over, as text."""
    return [
        f"{setup.name} {arm.label}"
        for setup in study.setups
        for arm in study.arms_in(setup)
        if study.choice(setup, arm, choices) is None
    ]
