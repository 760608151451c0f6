"""Which runs of a store belong to a study, and what the study's search has chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from asymrl.stores.statistics import final_returns
from asymrl.stores.store import Store
from asymrl.studies.study import Choices, PlannedRun, Study


def places_in(store: Store, planned: Iterable[PlannedRun]) -> dict[int, PlannedRun]:
    """The planned runs that a store holds with as many steps, by their numbers there."""
    places = {each.run.key: each for each in planned}
    there = ((number, run.settings.steps, places.get(run.key)) for number, run in enumerate(store.runs))
    return {number: place for number, steps, place in there if place is not None and place.run.settings.steps == steps}


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


def search_table(study: Study, store: Store) -> pl.DataFrame:
    """The search in numbers: for each setup, arm and combination, its runs and their mean final return.

    Only combinations all of whose runs are over, in the order in which they are tried; `values` numbers them. A run
    without a return, because it failed before its first point, has the worst one, so its combination is not chosen.
    """
    places, results = places_in(store, study.search_runs()), store.results()
    over = {number: place for number, place in places.items() if number in results and results[number].is_over}
    finals: dict[int, float] = {}
    if over:
        scores = final_scores(placed_curves(store, over), over)
        finals = dict(zip(scores["run"].to_list(), scores["final"].to_list(), strict=True))
    groups: dict[tuple[str, str, int], list[float]] = {}
    for number, place in over.items():
        value = study.candidates(place.setup, place.arm).index(dict(place.chosen))
        final = finals.get(number, np.nan)
        group = groups.setdefault((place.setup.name, place.arm.label, value), [])
        group.append(final if np.isfinite(final) else -np.inf)
    seeds = study.search.seeds if study.search else 0
    rows = [(*group, len(each), float(np.mean(each))) for group, each in groups.items() if len(each) == seeds]
    schema = {"setup": pl.String, "arm": pl.String, "values": pl.Int64, "runs": pl.Int64, "mean": pl.Float64}
    return pl.DataFrame(rows, schema, orient="row")


def choose(study: Study, store: Store) -> Choices:
    """What the search has chosen, by setup and arm, where all its runs are over: see `Search` for the rule."""
    scores = {(setup, arm, value): mean for setup, arm, value, _, mean in search_table(study, store).rows()}
    choices: dict[tuple[str, str], Mapping[str, Any]] = {}
    for setup in study.searched_setups():
        for arm in study.arms_in(setup):
            candidates = study.candidates(setup, arm)
            means = [scores.get((setup.name, arm.label, value)) for value in range(len(candidates))]
            known = [mean for mean in means if mean is not None]
            if len(candidates) > 1 and len(known) == len(candidates):
                choices[setup.name, arm.label] = candidates[known.index(max(known))]
    return choices


def undecided(study: Study, choices: Choices) -> list[str]:
    """The setups and arms whose search is not over, as text."""
    return [
        f"{setup.name} {arm.label}"
        for setup in study.setups
        for arm in study.arms_in(setup)
        if study.choice(setup, arm, choices) is None
    ]
