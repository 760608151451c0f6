"""The numbers on the page of the study of PPO's lambda, from the runs that ship and the exact analysis."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import asymrl
from asymrl.report.findings import Findings
from asymrl.runs.wording import estimate
from asymrl.studies.answers import answer
from asymrl.studies.arm_tables import exact_table
from asymrl.studies.half_experts import STAGES
from asymrl.studies.other_learners import STUDY as LEARNERS
from asymrl.studies.ppo_bootstrap import LAMBDAS, STUDY, label

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "studies" / "ppo-bootstrap.md").read_text()
WORDS = " ".join(TEXT.split())
CRITICS = ("V(h)", "V(s)", "V(h, s)")


@pytest.fixture(scope="module")
def answers() -> Findings:
    return answer(STUDY, ROOT / "results" / "studies" / "ppo-bootstrap")


def test_the_page_has_the_cosines():
    rows = {row["arm"]: row for row in exact_table(STUDY).to_dicts()}
    for lambda_ in LAMBDAS:
        of_state, *unbiased = (
            [rows[label(critic, lambda_)][f"{stage}: cosine"] for stage in STAGES]
            for critic in ("V(s)", "V(h)", "V(h, s)")
        )
        assert f"| lambda {lambda_:g} | {' | '.join(f'{each:.2f}' for each in of_state)} |" in TEXT
        assert [each for cosines in unbiased for each in cosines] == pytest.approx([1] * 6, abs=1e-9)


def test_the_page_has_the_numbers_of_the_shipped_runs(answers: Findings):
    rows = {row["arm"]: row for row in answers.numbers.to_dicts()}
    assert answers.notes == []  # all runs are there
    for lambda_ in LAMBDAS:
        cells = re.findall(
            rf"^\| lambda {lambda_:g} \| ([^|]+ ± [^|]+) \| ([^|]+) \| ([^|]+) \| ([\d, ]+) \|$", TEXT, re.M
        )
        ((*means, solved),) = cells
        of_lambda = [rows[label(critic, lambda_)] for critic in CRITICS]
        assert means == [estimate(row["mean"], row["standard_error"]) for row in of_lambda]
        assert solved == ", ".join(str(round(20 * row["solved"])) for row in of_lambda)


def test_most_runs_with_history_and_state_earn_nothing_with_lambda_0():
    table = asymrl.load(ROOT / "results" / "studies" / "ppo-bootstrap").table
    finals = table.filter(method="ppo-asym-hs", gae_lambda=0.0)["final_return"].to_numpy()
    assert len(finals) == 20
    assert f"{(np.abs(finals) < 0.01).sum()} of 20 runs earn nothing" in WORDS
    reproduced = (ROOT / "docs" / "reproduction.md").read_text()
    assert "| 20 | 1.13 [0.75, 3.46] |" in reproduced  # A2C, quoted here
    assert "after 0.75 to 3.46 million steps" in WORDS


def test_the_probabilities_on_the_page_are_those_of_the_shipped_runs(answers: Findings):
    compared = answers.tables["ppo-bootstrap-comparisons"].to_dicts()
    shown = {
        (
            row["arm"],
            row["than"],
        ): f"{row['improvement']:.2f} [{row['improvement_low']:.2f}, {row['improvement_high']:.2f}]"
        for row in compared
    }
    assert len(shown) == len(STUDY.comparisons)
    assert [pair for pair, chance in shown.items() if chance not in WORDS] == []


def test_nothing_but_lambda_differs_from_the_study_of_learners():
    (world,) = STUDY.setups
    there = {arm.label: LEARNERS.settings(world, arm, {}) for arm in LEARNERS.arms_in(world)}
    for arm in STUDY.arms_in(world):
        critic, _, lambda_ = arm.label.partition(", lambda ")
        settings = STUDY.settings(world, arm, {})
        known = there[f"ppo {critic}"]
        changed = {name for name in vars(known) if getattr(settings, name) != getattr(known, name)}
        assert changed == (set() if float(lambda_) == 0.95 else {"gae_lambda"})
