"""Trains the runs of a study and reports on them: `python studies/NAME.py`.

python studies/bootstrap.py --exact                          # question, prediction, exact analysis: trains nothing
python studies/bootstrap.py --quick                          # one world, two seeds, short runs, no search
python studies/bootstrap.py --processes 4                    # the whole study; a second call trains what is missing
python studies/bootstrap.py --from-results results/studies/bootstrap     # tables and figures of existing runs
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import tyro
from jaxtyping import Float
from matplotlib.figure import Figure

from arm_figures import against_exact, arm_curves
from asymrl.cli.running import print_findings, print_table
from asymrl.report import improvement_interval, normalised
from asymrl.report.findings import Findings
from asymrl.report.score_rows import improvement_row, power_statement, score_row
from asymrl.runs import Placement, RunError, Store, train_store
from asymrl.runs.display import standard_display
from asymrl.runs.statistics import run_columns
from asymrl.runs.wording import plural, wrapped
from study import Arm, Choices, Setup, Study, choose, final_scores, placed_curves, places_in, search_table

SEPARATOR = ": "  # between a policy and a number, in the columns of an exact analysis
NOT_SHOWN = ("normalised", "normalised_low", "normalised_high", "steps")  # but written
SOONER = (
    "sooner: the probability that a run of arm first solves the world before one of than; a run that never does comes "
    "last, and a tie counts half"
)


@dataclass(frozen=True)
class Options:
    """Answers a question that the paper leaves open: prediction, exact analysis, training, tables and a figure."""

    worlds: tuple[str, ...] | None = None
    """Worlds of the study. None: all."""
    seeds: int | None = None
    """How many. None: as many as the study has, 20."""
    quick: bool = False
    """A version for a quarter of an hour on a laptop: one world, two seeds, short runs, no search for settings."""
    exact: bool = False
    """Train nothing: only the question, the prediction and the exact analysis."""
    from_results: Path | None = None
    """Train nothing; make tables and figures from the runs in this folder."""
    out: Path | None = None
    """Folder of the runs. None: runs/study-NAME, with --quick runs/study-quick-NAME."""
    figures: Path = Path("figures")
    """Folder of the tables and figures."""
    lanes: int | None = None
    """Runs that a pool trains together."""
    processes: int | None = None
    """Pools that run in processes of their own, this many at a time."""


def main(study: Study) -> None:
    """The command of a study."""
    options = tyro.cli(Options, description=study.title)
    try:
        part = study.part(options.worlds, options.seeds)
        part = part.quick() if options.quick else part
        if options.from_results is not None:
            Store.open(options.from_results)  # a mistake is reported before the exact analysis, which takes a while
        print_question(part)
        if options.exact:
            return
        folder = options.from_results
        if folder is None:
            folder = options.out or Path("runs") / f"study-{'quick-' if options.quick else ''}{study.name}"
            train(part, folder, Placement(lanes=options.lanes, processes=options.processes))
        print_findings(answer(part, folder), options.figures)
    except (RunError, ValueError) as error:
        sys.exit(f"{study.name}: {error}")


def train(study: Study, folder: Path, placement: Placement) -> None:
    """Trains the search, then the final runs with what was chosen; what is already in the folder is not trained again.

    Raises:
        RunError: if the training was stopped, or runs could not be trained.
    """
    for phase in ("search", "final"):
        planned = study.search_runs()
        if phase == "final":
            choices = choose(study, Store.open(folder)) if planned else {}
            if missing := study.undecided(choices):
                raise RunError(f"{folder}: the search is not over for {missing[0]}; the same command goes on with it")
            planned = study.final_runs(choices)
        if not planned:
            continue
        keys = {each.run.key for each in planned}
        store = Store.take_or_create(folder, [each.run for each in planned], keeps_networks=False)
        try:
            numbers = [number for number, run in enumerate(store.runs) if run.key in keys]
            outcome = train_store(store, standard_display(), placement=placement, only=numbers)
        finally:
            store.release()
        if outcome.interrupted is not None:
            raise RunError(f"stopped; everything so far is in {folder}, and the same command goes on")
        for run, reason in outcome.failures.items():
            print(f"failed: {run}: {reason}", file=sys.stderr)


def print_question(study: Study) -> None:
    """The question, the prediction and the exact analysis."""
    print(study.title)
    for word, text in (("question", study.question), ("prediction", study.prediction)):
        print("", *wrapped(f"{word}: {text}", 100), sep="\n")
    for setup in study.setups:
        parts = exact_parts(study, setup)
        if not parts:
            print(f"\n{setup.name}: no exact analysis")
        for policy, table in parts.items():
            print(f"\n{setup.name}, exactly{policy and f', {policy} agent'}:")
            print_table(table)
    print(flush=True)


def answer(study: Study, folder: Path) -> Findings:
    """The tables and figures of a study, from the runs of a store that are over.

    Raises:
        RunError: if there is no store in the folder, or it holds no run of the study that is over.
    """
    store = Store.open(folder)
    choices = choose(study, store)
    places = places_in(store, study.final_runs(choices))
    if not places:
        raise RunError(f"{folder}: no runs of the study {study.name} that are over")
    curves = placed_curves(store, places)
    finals, exact = final_scores(curves, places), exact_table(study)
    numbers, compared = arm_table(study, curves, finals, choices, exact), comparison_table(study, curves, finals)
    chosen = {name: search_table(study, store) for name in [f"{study.name}-search"]}
    figures: dict[str, Figure] = {study.name: arm_curves(study, curves)}
    if study.exact_score is not None and study.exact_score in numbers.columns:
        figures[f"{study.name}-exact"] = against_exact(study, numbers, study.exact_score)
    beside = {} if study.beside is None else study.beside(folder)
    tables = {f"{study.name}-comparisons": compared, **chosen, **beside}
    tables = {name: table for name, table in tables.items() if len(table)}
    hidden = [name for name in exact.columns if name not in ("setup", "arm", study.exact_score)]
    there, planned = Counter(place.setup.name for place in places.values()), study.seeds
    totals = {setup.name: planned * len(study.arms_in(setup)) for setup in study.setups}
    return Findings(
        study.name,
        numbers,
        numbers.drop(*NOT_SHOWN, *hidden, strict=False),
        figures,
        [f"{name}: {there[name]} of {plural('run', n)} are over" for name, n in totals.items() if there[name] < n],
        _reading(compared) if len(compared) else None,
        tables,
        tuple(name for name in tables if name not in chosen),
    )


def _reading(compared: pl.DataFrame) -> str:
    """How to read the comparisons."""
    return "\n".join(filter(None, (power_statement(compared), SOONER if compared["sooner"].count() else None)))


def arm_table(
    study: Study, curves: pl.DataFrame, finals: pl.DataFrame, choices: Choices, exact: pl.DataFrame
) -> pl.DataFrame:
    """A row for each setup and arm.

    `mean` with its `standard_error` and `iqm` (interquartile mean, with bounds) are of final returns; `solved` is the
    share of runs whose final score is above the setup's threshold, `solved_once` the share that was above it at any
    point, and `steps_to_solve` the median of the timesteps at which they first were, if at least half of them ever
    were. What the search chose stands in front, what the study measures besides and its exact analysis behind.
    """
    rows = []
    for setup in study.setups:
        for arm in study.arms_in(setup):
            runs = finals.filter(setup=setup.name, arm=arm.label)
            if len(runs):
                chosen = study.choice(setup, arm, choices) or {}
                labels = {"setup": setup.name, "arm": arm.label, **chosen, "steps": runs["steps"][0]}
                scores = runs["final"].to_numpy()[:, None]
                rows.append({**labels, **score_row(scores, setup.world), **_solved(curves, scores, setup, arm)})
    table = pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)
    if study.measure is not None:
        table = _joined(table, study.measure(curves))
    return _joined(table, exact)


def _solved(
    curves: pl.DataFrame, scores: Float[np.ndarray, "run 1"], setup: Setup, arm: Arm
) -> Mapping[str, float | int | None]:
    """How many runs solved the world, and after how many steps; None if nobody knows what solving it means."""
    steps = steps_to_solve(curves, setup, arm)
    if steps is None:
        return {"solved": None, "solved_once": None, "steps_to_solve": None}
    share = float((normalised(scores, setup.world) > setup.threshold).mean())
    ever, median = float(np.isfinite(steps).mean()), float(np.median(steps))
    return {"solved": share, "solved_once": ever, "steps_to_solve": round(median) if np.isfinite(median) else None}


def steps_to_solve(curves: pl.DataFrame, setup: Setup, arm: Arm) -> Float[np.ndarray, "run"] | None:
    """The timestep at which each run of an arm first solved the world; infinite if it never did.

    None if no reference returns of the world are known.
    """
    own = curves.filter(setup=setup.name, arm=arm.label)
    try:
        score = normalised(own[arm.metric].cast(pl.Float64).fill_null(np.nan).to_numpy(), setup.world)
    except ValueError:
        return None
    first = pl.col("timestep").filter(pl.col("score") > setup.threshold).min().cast(pl.Float64).fill_null(np.inf)
    runs = own.with_columns(score=pl.Series(score)).group_by(run_columns(own), maintain_order=True).agg(first)
    return runs["timestep"].to_numpy()


def comparison_table(study: Study, curves: pl.DataFrame, finals: pl.DataFrame) -> pl.DataFrame:
    """The study's comparisons, with bounds: how probable it is that a run of `arm` does better than one of `than`.

    `improvement` is by final returns, `sooner` by the steps until a run first solved the world.
    """
    rows = []
    for setup in study.setups:
        arms = {arm.label: arm for arm in study.arms_in(setup)}
        for labels in study.comparisons:
            mine, theirs = (finals.filter(setup=setup.name, arm=label)["final"].to_numpy()[:, None] for label in labels)
            if len(mine) and len(theirs):
                runs = min(len(mine), len(theirs))
                row = {"setup": setup.name, "arm": labels[0], "than": labels[1], "runs": runs}
                steps = [steps_to_solve(curves, setup, arms[label]) for label in labels]
                first, second = (None if each is None else -each[:, None] for each in steps)
                sooner = None if first is None or second is None else improvement_interval(first, second)
                bounds = (None, None, None) if sooner is None else sooner
                sooner_row = dict(zip(("sooner", "sooner_low", "sooner_high"), bounds, strict=True))
                rows.append({**row, **improvement_row(mine, theirs), **sooner_row})
    return pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)


def exact_table(study: Study) -> pl.DataFrame:
    """The exact analysis of all setups, with the columns `setup` and `arm` in front; empty if there is none."""
    tables = [(setup.name, _exact(study.exact, setup.world)) for setup in study.setups if study.exact is not None]
    parts = [table.select(pl.lit(name).alias("setup"), pl.exclude("setup")) for name, table in tables]
    return pl.concat(parts, how="diagonal_relaxed") if parts else pl.DataFrame()


def exact_parts(study: Study, setup: Setup) -> dict[str, pl.DataFrame]:
    """The exact analysis of a setup by policy: columns called `POLICY: NUMBER` have a table for each policy.

    Columns without a number are left out, and a setup without rows has no table.
    """
    table = pl.DataFrame() if study.exact is None else _exact(study.exact, setup.world)
    if table.is_empty():
        return {}
    table = table.select(column for column in table if column.null_count() < len(column))
    labels = [name for name in table.columns if SEPARATOR not in name]
    policies = dict.fromkeys(name.partition(SEPARATOR)[0] for name in table.columns if SEPARATOR in name)
    if not policies:
        return {"": table}
    own = {policy: [name for name in table.columns if name.startswith(policy + SEPARATOR)] for policy in policies}
    return {
        policy: table.select(*labels, pl.col(names).name.map(lambda name: name.partition(SEPARATOR)[2]))
        for policy, names in own.items()
    }


@functools.cache
def _exact(analysis: Callable[[str], pl.DataFrame], world: str) -> pl.DataFrame:
    return analysis(world)


def _joined(table: pl.DataFrame, more: pl.DataFrame) -> pl.DataFrame:
    """The table with the columns of another one; where both have one, that is called `NAME_exact`."""
    if more.is_empty() or table.is_empty():
        return table
    return table.join(more, on=["setup", "arm"], how="left", suffix="_exact", maintain_order="left")
