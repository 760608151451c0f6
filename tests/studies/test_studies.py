"""The studies: the runs that they plan, what a search chooses, and their tables, which are the recorded ones."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import runner
from asymrl.report.html.run_groups import SEARCH_SEED, search_numbers
from asymrl.runs.files import RunError
from asymrl.runs.store import Store
from asymrl.settings.hyperparameters import tuned
from runner import answer, exact_parts, exact_table
from study import EVERY_PANEL, FIRST_SEARCH_SEED, Arm, PlannedRun, Setup, Study, choose, search_table
from tests.runs.engine.stores import store_with_curves
from tests.studies.tiny import TINY, fill

ROOT = Path(__file__).parents[2]
NAMES = ("bootstrap", "information", "knowledge", "learners", "lost", "ppo-bootstrap")
STUDIES = {name: import_module(name.replace("-", "_")).STUDY for name in NAMES}
CHOICES = {
    ("heaven-hell-3", "V(h)"): {"entropy_weight": 0.3},
    ("heaven-hell-3", "V(h, s)"): {"entropy_weight": 0.01},
}
SLOW_WORLDS = ("shopping-5", "rock-sample-3-3")  # whose exact analysis takes ten seconds and more


def results(name: str) -> Path:
    return ROOT / "results" / "studies" / name


def recorded(name: str) -> pl.DataFrame:
    return pl.read_csv(Path(__file__).parent / "tables" / f"{name}.csv", infer_schema_length=None)


def check(table: pl.DataFrame, name: str) -> None:
    """Checks that a table is a recorded one, which may have more columns, those of the exact analysis."""
    expected, how = recorded(name).select(table.columns), {"check_dtypes": False, "rel_tol": 1e-4, "abs_tol": 1e-6}
    strings = [column for column in expected.columns if expected[column].dtype == pl.String]
    table = table.with_columns(pl.col(strings).cast(pl.String).fill_null(""))
    assert_frame_equal(table, expected.with_columns(pl.col(strings).fill_null("")), **how)  # pyright: ignore


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_of_the_shipped_runs_are_the_recorded_ones(name: str):
    made = answer(replace(STUDIES[name], exact=None), results(name))
    assert made.notes == [], "runs are missing"
    check(made.numbers, name)
    for part in ("comparisons", "search"):
        if (table := made.tables.get(f"{name}-{part}")) is not None:
            check(table, f"{name}-{part}")


@pytest.mark.parametrize(
    ("name", "world"),
    [
        pytest.param(name, setup.name, marks=[pytest.mark.slow] if setup.name in SLOW_WORLDS else [])
        for name, study in STUDIES.items()
        for setup in study.setups
    ],
)
def test_the_exact_analysis_is_the_recorded_one(name: str, world: str):
    """Of arms that have runs; some pages also list a critic that has learned nothing."""
    table, known = exact_table(STUDIES[name].part([world])), recorded(name).filter(setup=world)
    rows = table.filter(pl.col("arm").is_in(known["arm"].to_list()))
    known = known.filter(pl.col("arm").is_in(rows["arm"].to_list())).select(rows.columns)
    assert_frame_equal(rows, known, check_dtypes=False, rel_tol=1e-4, abs_tol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_study_quotes_its_tables(name: str):
    """Every mean with its error, and every probability with its interval."""
    text = " ".join((ROOT / "docs" / "studies" / f"{name}.md").read_text().split())
    known = {
        f"{row[kind]:.2f} [{row[f'{kind}_low']:.2f}, {row[f'{kind}_high']:.2f}]"
        for row in recorded(f"{name}-comparisons").to_dicts()
        for kind in ("improvement", "sooner")
        if row[kind] is not None
    }
    quoted = re.findall(r"probability (\d\.\d\d \[\d\.\d\d, \d\.\d\d\])", text)
    assert [each for each in quoted if each not in known] == []
    means = [(row["mean"], row["standard_error"]) for row in recorded(name).to_dicts()]
    for mean, error in re.findall(r"\| (-?\d+\.\d+) ± (\d+\.\d+) ", text):
        digits = len(error.partition(".")[2])
        assert (mean, error) in {(f"{m:.{digits}f}", f"{e:.{digits}f}") for m, e in means}, (mean, error)


@pytest.mark.parametrize("name", NAMES)
def test_every_study_is_possible(name: str):
    """Its settings exist, no two arms are the same, its comparisons name arms, and it planned the shipped runs."""
    study = STUDIES[name]
    store = Store.open(results(name))
    planned = [*study.search_runs(), *study.final_runs(choose(study, store))]
    assert len({each.run.key for each in planned}) == len(planned)
    assert set(store.runs) == {each.run for each in planned}
    labels = {arm.label for setup in study.setups for arm in study.arms_in(setup)}
    assert {label for pair in study.comparisons for label in pair} <= labels
    assert study.quick().final_runs({})


def test_runs_are_every_setup_with_every_arm_and_seed():
    planned = TINY.final_runs(CHOICES)
    settings = [(p.setup.world, p.arm.label, p.run.settings.entropy_weight, p.run.seed) for p in planned]
    assert settings == [
        (world, arm, weight, seed)
        for world in ("heaven-hell-3", "heaven-hell-4")
        for arm, weight in (("V(h)", 0.3), ("V(h, s)", 0.01))
        for seed in (0, 1)
    ]
    searched = TINY.search_runs()
    assert len(searched) == 2 * 3 * 2  # arms, values, seeds
    assert {p.setup.name for p in searched} == {"heaven-hell-3"}
    assert {p.run.seed for p in searched} == {FIRST_SEARCH_SEED, FIRST_SEARCH_SEED + 1}


def test_the_quick_version_has_one_world_and_no_search():
    quick = TINY.quick()
    assert not quick.search_runs()
    runs = [(p.setup.name, p.run.settings.steps, p.run.seed) for p in quick.final_runs({})]
    assert runs == [("heaven-hell-3", 100, 0), ("heaven-hell-3", 100, 1)] * 2


def test_an_arm_overrides_the_setup_and_the_setup_what_the_paper_tuned():
    arms = (Arm("a", {"method": "a2c-asym-s", "td_lambda": 0.9}), Arm("dqn", {"method": "dqn", "steps": 500}))
    setup = Setup("heaven-hell-3", 100, {"critic_rate": 0.5, "td_lambda": 0.1})
    study = Study("t", "", "", "", setups=(setup,), arms_in=lambda setup: arms, seeds=1)
    first, second = (planned.run.settings for planned in study.final_runs({}))
    known = tuned("heaven-hell-3", "a2c-asym-s")
    assert known is not None
    assert first.entropy_weight == known["entropy_weight"] == 1.0
    assert (first.critic_rate, first.td_lambda, first.steps) == (0.5, 0.9, 100)
    assert second.steps == 500


def test_the_choice_is_the_highest_mean_and_among_equals_the_first(tmp_path: Path):
    # V(h): means 0.5, 1.0, 1.0, so the second value; V(h, s): the first seed alone would choose the third.
    def returns(planned: PlannedRun) -> float:
        value, seed = planned.chosen["entropy_weight"], planned.run.seed - FIRST_SEARCH_SEED
        if planned.arm.label == "V(h)":
            return {0.01: 0.5, 0.3: 1.0, 0.1: [2.0, 0.0][seed]}[value]
        return {0.01: 0.9, 0.3: 0.1, 0.1: [1.5, 0.0][seed]}[value]

    store = fill(tmp_path, TINY.search_runs(), returns)
    assert choose(TINY, store) == CHOICES
    assert search_table(TINY, store)["mean"].to_list() == pytest.approx([0.5, 1.0, 1.0, 0.9, 0.1, 0.75])
    assert search_numbers(store) == frozenset(), "nothing else is there to report"
    store = fill(tmp_path, TINY.final_runs(CHOICES)[:1], lambda planned: 0.0)
    assert search_numbers(store) == set(range(12))
    assert SEARCH_SEED == FIRST_SEARCH_SEED


def returns(planned: PlannedRun) -> float:
    """The search prefers the smallest weight; seeds 0 and 1 of V(h) reach 0 and 1, those of V(h, s) 1 and 2."""
    if planned.run.seed >= FIRST_SEARCH_SEED:
        return -planned.chosen["entropy_weight"]
    return planned.run.seed + (planned.arm.label == "V(h, s)")


def test_the_numbers_of_arms_and_comparisons(tmp_path: Path):
    searched = fill(tmp_path, TINY.search_runs(), returns)
    with pytest.raises(RunError, match="no runs of the study tiny that are over"):
        answer(TINY, tmp_path)
    final = TINY.final_runs(choose(TINY, searched))
    fill(tmp_path, final[:1], returns)
    assert answer(TINY, tmp_path).notes == [
        f"heaven-hell-{n}: {there} of 4 runs are over" for n, there in ((3, 1), (4, 0))
    ]
    fill(tmp_path, final, returns)
    made = answer(TINY, tmp_path)
    assert made.numbers["mean"].to_list() == [0.5, 1.5] * 2
    # Two runs that are 1 apart: a standard deviation of sqrt(1/2), and its standard error 1/2.
    assert made.numbers["standard_error"].to_list() == [0.5] * 4
    # A return of 1 is the best, so that V(h, s) solves both runs from the first point on, and V(h) one of them.
    assert made.numbers["solved"].to_list() == [0.5, 1.0] * 2
    assert made.numbers["steps_to_solve"].to_list() == [None, 0] * 2
    assert made.numbers["variance"].to_list() == [13.0, 2.0] * 2  # the exact analysis of the same world and arm
    # Of the four pairs of runs V(h, s) wins three and ties one; two are sooner, and two equally soon or never.
    compared = made.tables["tiny-comparisons"]
    assert compared["improvement"].to_list() == [0.875] * 2
    assert compared["sooner"].to_list() == [0.75] * 2
    assert {"tiny", "tiny-exact"} == set(made.figures)


def test_arms_have_their_own_metric_and_panel(tmp_path: Path):
    arms = (
        Arm("a", {"method": "a2c"}, panel=EVERY_PANEL),
        Arm("b", {"method": "a2c-asym-s"}, metric="length", panel="s"),
        Arm("c", {"method": "a2c-asym-hs"}, panel="hs"),
    )
    study = Study("t", "t", "t", "t", setups=(Setup("cleaner", 100),), arms_in=lambda setup: arms, seeds=2)
    store_with_curves(tmp_path / "store", [each.run for each in study.final_runs({})])
    made = answer(study, tmp_path / "store")
    # Returns are the seed plus the share of training that is over, lengths 10 more than the seed.
    assert made.numbers["mean"].to_list() == pytest.approx([0.5 + 0.925, 10.5, 0.5 + 0.925])
    panels = [ax for ax in made.figures["t"].axes if ax.axison]
    assert [ax.get_title(loc="left") for ax in panels] == ["cleaner, s", "cleaner, hs"]
    assert [len(ax.collections) for ax in panels] == [2, 2]


def test_an_exact_analysis_has_a_table_for_each_policy():
    exact = pl.DataFrame({"arm": ["a"], "random: bias": [0.5], "good: bias": [0.25]})
    study = replace(TINY, exact=lambda world: exact)
    parts = exact_parts(study, study.setups[0])
    assert {policy: table.rows() for policy, table in parts.items()} == {"random": [("a", 0.5)], "good": [("a", 0.25)]}


def test_the_command_says_what_is_wrong_in_a_line():
    command = [sys.executable, ROOT / "studies" / "lost.py", "--worlds", "tiger"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "lost: tiger: the study lost has heaven-hell-3\n")


@pytest.mark.slow
def test_a_study_is_searched_then_trained_then_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    runner.train(TINY, tmp_path, runner.Placement())
    store = Store.open(tmp_path)
    planned = [*TINY.search_runs(), *TINY.final_runs(choose(TINY, store))]
    assert {run.key for run in store.runs} == {each.run.key for each in planned}
    assert not store.unfinished()
    before = (tmp_path / "metrics.parquet").read_bytes()
    runner.train(TINY, tmp_path, runner.Placement())
    assert (tmp_path / "metrics.parquet").read_bytes() == before
