"""Which runs a study has, and what its search chooses."""

from __future__ import annotations

from pathlib import Path

import pytest

from asymrl.runs.store import Store
from asymrl.settings.hyperparameters import tuned
from asymrl.studies.arm_tables import exact_parts, exact_table
from asymrl.studies.catalogue import STUDIES, study_named
from asymrl.studies.choosing import choose, search_numbers, search_table, undecided
from asymrl.studies.study import FIRST_SEARCH_SEED, Arm, PlannedRun, Setup, Study
from tests.studies.tiny import TINY, fill

CHOICES = {
    ("heaven-hell-3", "V(h)"): {"entropy_weight": 0.3},
    ("heaven-hell-3", "V(h, s)"): {"entropy_weight": 0.01},
}


def test_runs_are_every_setup_with_every_arm_and_seed():
    planned = TINY.final_runs(CHOICES)
    settings = [(p.setup.world, p.arm.label, p.run.settings.entropy_weight, p.run.seed) for p in planned]
    assert settings == [
        (world, arm, weight, seed)
        for world in ("heaven-hell-3", "heaven-hell-4")
        for arm, weight in (("V(h)", 0.3), ("V(h, s)", 0.01))
        for seed in (0, 1)
    ]
    assert {(p.run.settings.memory_size, p.run.settings.steps) for p in planned} == {(8, 200)}


def test_the_search_tries_every_value_with_seeds_of_its_own_where_it_decides():
    planned = TINY.search_runs()
    assert len(planned) == 2 * 3 * 2  # arms, values, seeds
    assert {p.setup.name for p in planned} == {"heaven-hell-3"}
    assert {p.run.seed for p in planned} == {FIRST_SEARCH_SEED, FIRST_SEARCH_SEED + 1}
    assert not {p.run.key for p in planned} & {p.run.key for p in TINY.final_runs(CHOICES)}


def test_an_arm_overrides_the_setup_and_the_setup_what_the_paper_tuned():
    study = Study(
        "t", "", "", "",
        setups=(Setup("heaven-hell-3", 100, {"critic_rate": 0.5, "td_lambda": 0.1}),),
        arms=(Arm("a", {"method": "a2c-asym-s", "td_lambda": 0.9}),),
    )  # fmt: skip
    settings = study.final_runs()[0].run.settings
    known = tuned("heaven-hell-3", "a2c-asym-s")
    assert known is not None
    assert settings.entropy_weight == known["entropy_weight"] == 1.0
    assert (settings.critic_rate, settings.td_lambda) == (0.5, 0.9)


def test_a_setting_of_the_setup_goes_to_the_learners_that_have_it():
    study = Study(
        "t", "", "", "",
        setups=(Setup("heaven-hell-3", 1000, {"gae_lambda": 0.5, "memory_size": 8}),),
        arms=(Arm("ppo", {"method": "ppo"}), Arm("dqn", {"method": "dqn", "steps": 500})),
    )  # fmt: skip
    by_arm = {p.arm.label: p.run.settings for p in study.final_runs()}
    assert by_arm["ppo"].gae_lambda == 0.5
    assert by_arm["ppo"].steps == 1000
    assert by_arm["dqn"].memory_size == 8
    assert by_arm["dqn"].steps == 500


def test_the_choice_is_the_highest_mean_and_among_equals_the_first(tmp_path: Path):
    # V(h): means 0.5, 1.0, 1.0, so the second value; V(h, s): the first seed alone would choose the third.
    def returns(planned: PlannedRun) -> float:
        value, seed = planned.chosen["entropy_weight"], planned.run.seed - FIRST_SEARCH_SEED
        if planned.arm.label == "V(h)":
            return {0.01: 0.5, 0.3: 1.0, 0.1: [2.0, 0.0][seed]}[value]
        return {0.01: 0.9, 0.3: 0.1, 0.1: [1.5, 0.0][seed]}[value]

    store = fill(tmp_path, TINY.search_runs(), returns)
    assert choose(TINY, store) == CHOICES
    table = search_table(TINY, store)
    assert table["mean"].to_list() == pytest.approx([0.5, 1.0, 1.0, 0.9, 0.1, 0.75])


def test_runs_of_a_search_are_told_from_final_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(STUDIES, "tiny", TINY)
    store = fill(tmp_path / "both", TINY.search_runs(), lambda planned: 0.0)
    assert search_numbers(store) == frozenset(), "nothing else is there to report"
    own = TINY.final_runs(CHOICES)[0]
    # Not of the search, although its seed is as large.
    others = [own, own._replace(run=own.run._replace(seed=FIRST_SEARCH_SEED + 50))]
    store = fill(tmp_path / "both", others, lambda planned: 0.0)
    assert search_numbers(store) == set(range(12))
    assert search_numbers(fill(tmp_path / "own", others, lambda planned: 0.0)) == frozenset()


def test_a_search_decides_only_when_all_its_runs_are_over(tmp_path: Path):
    half = [p for p in TINY.search_runs() if p.arm.label == "V(h)" or p.run.seed == FIRST_SEARCH_SEED]
    store = fill(tmp_path, half, lambda planned: planned.chosen["entropy_weight"])
    choices = choose(TINY, store)
    assert choices == {("heaven-hell-3", "V(h)"): {"entropy_weight": 0.3}}
    assert undecided(TINY, choices) == ["heaven-hell-3 V(h, s)", "heaven-hell-4 V(h, s)"]
    assert {p.arm.label for p in TINY.final_runs(choices)} == {"V(h)"}


def test_a_part_of_a_study_keeps_the_search_that_decides_for_it():
    part = TINY.narrowed(["heaven-hell-4"], seeds=1, steps=50)
    assert {p.setup.name for p in part.search_runs()} == {"heaven-hell-3"}
    assert [p.setup.name for p in part.final_runs(CHOICES)] == ["heaven-hell-4"] * 2
    assert {p.run.settings.steps for p in [*part.search_runs(), *part.final_runs(CHOICES)]} == {50}
    with pytest.raises(ValueError, match="shopping-5: the study tiny has heaven-hell-3, heaven-hell-4"):
        TINY.narrowed(["shopping-5"])
    with pytest.raises(ValueError, match="0 seeds"):
        TINY.narrowed(seeds=0)


def test_a_part_of_a_study_has_the_arms_whose_labels_begin_so():
    part = TINY.narrowed(["heaven-hell-3"], arms=["V(h,"])
    assert part.labels() == ["V(h, s)"]
    assert {p.arm.label for p in [*part.search_runs(), *part.final_runs(CHOICES)]} == {"V(h, s)"}
    assert {p.arm.label for p in TINY.narrowed(arms=["V(h"]).final_runs(CHOICES)} == {"V(h)", "V(h, s)"}
    with pytest.raises(ValueError, match=r"V\(b\): in heaven-hell-3, heaven-hell-4 the study tiny has V\(h\); V"):
        TINY.narrowed(arms=["V(b)"])
    with pytest.raises(ValueError, match="no arms: in"):
        TINY.narrowed(arms=[])
    with pytest.raises(ValueError, match=r"V\(h, item\): in heaven-hell-3 the study knowledge has V\(h\); "):
        STUDIES["knowledge"].narrowed(["heaven-hell-3"], arms=["V(h, item)"])
    assert [setup.name for setup in STUDIES["knowledge"].narrowed(arms=["V(h, item)"]).setups] == ["shopping-5"]
    learners = STUDIES["learners"].narrowed(["cleaner"], arms=["ppo"])
    assert learners.labels() == ["ppo V(h)", "ppo V(s)", "ppo V(h, s)"]
    assert all(label.startswith("ppo") for pair in learners.comparisons for label in pair)


def test_the_exact_analysis_of_a_part_has_the_rows_of_its_arms():
    part = TINY.narrowed(arms=["V(h,"])
    assert exact_table(part)["arm"].to_list() == ["V(h, s)"] * len(part.setups)
    (table,) = exact_parts(part, part.setups[0]).values()
    assert table.rows() == [("V(h, s)", 2.0)]


def test_the_quick_version_has_one_world_and_no_search():
    quick = TINY.quick()
    assert not quick.search_runs()
    assert [(p.setup.name, p.run.settings.steps, p.run.seed) for p in quick.final_runs()] == [
        ("heaven-hell-3", 100, 0),
        ("heaven-hell-3", 100, 1),
    ] * 2


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_is_possible(name: str):
    """Its settings exist, no two arms are the same, and its comparisons name arms."""
    study = STUDIES[name]
    assert study.name == name
    assert study.title
    assert study.question
    assert study.prediction
    first = {
        (setup.name, arm.label): study.candidates(setup, arm)[-1]
        for setup in study.searched_setups()
        for arm in study.arms_in(setup)
    }
    planned = [*study.search_runs(), *study.final_runs(first)]
    assert len({p.run.key for p in planned}) == len(planned)
    assert len(study.final_runs(first)) == study.seeds * sum(len(study.arms_in(setup)) for setup in study.setups)
    for one, other in study.comparisons:
        assert {one, other} <= set(study.labels())
    assert study.quick().final_runs()


def test_every_shipped_run_is_one_that_its_study_plans():
    study, store = STUDIES["learners"], Store.open(Path(__file__).parents[2] / "results" / "studies" / "learners")
    planned = [*study.search_runs(), *study.final_runs(choose(study, store))]
    assert set(store.runs) <= {each.run for each in planned}


def test_an_unknown_study_lists_the_names():
    with pytest.raises(ValueError, match=r"nonsense: the studies are .*learners"):
        study_named("nonsense")
