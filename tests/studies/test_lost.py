"""How far one gradient moves a parameter: closed forms, and Adam itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from asymrl.settings import A2CSettings, Settings
from lost import (
    RARE_NORM,
    STUDY,
    USUAL_ENTRY,
    USUAL_NORM,
    falls_by_arm,
    kick,
    kicks,
    rate_interval,
    rates_differ,
    shares_differ,
)
from tests.oracles.update import Adam

ROOT = Path(__file__).parents[2]
LABELS = [arm.label for arm in STUDY.arms_in(STUDY.setups[0])]
RECORDED = ROOT / "results" / "studies" / "lost-updates" / "updates.parquet"


def test_what_is_large_and_rare_moves_a_parameter_by_thirty_learning_rates():
    # However large it is: sum_k 0.1 0.9^k / sqrt(0.001 0.999^k).
    bound = 0.1 / np.sqrt(0.001) / (1 - 0.9 / np.sqrt(0.999))
    for gradient in (10.0, 1000.0):
        assert kick(A2CSettings(), gradient, gradient, 0.0, 1.0) == pytest.approx(bound, rel=1e-3)


def test_with_a_large_epsilon_it_is_proportional_to_the_gradient():
    settings = A2CSettings(adam_eps=100.0)
    assert kick(settings, 0.3, 1.0, 0.0, 1.0) == pytest.approx(0.3 / 100, rel=1e-3)


def moved_by_adam(settings: Settings, gradients: list[float]) -> float:
    """Where a parameter is after these gradients, in units of the learning rate."""
    adam, weights = Adam(), {"w": np.zeros(1)}
    for gradient in gradients:
        limit = settings.clip_norm or np.inf
        adam.step(weights, {"w": np.asarray([gradient])}, 1.0, settings.adam_eps, limit, settings.adam_beta2)
    return float(weights["w"][0])


@pytest.mark.parametrize("changed", [{}, {"adam_beta2": 0.9}, {"adam_eps": 1e-3}, {"clip_norm": 0.01}], ids=str)
def test_adam_moves_a_parameter_as_far(changed: dict[str, Any]):
    usual, rare = 3e-4, 0.05
    before, after = [usual, -usual] * 5000, [usual, -usual] * 200
    settings = A2CSettings(**changed)
    difference = moved_by_adam(settings, [*before, *after]) - moved_by_adam(settings, [*before, rare, *after])
    # The parameter is the whole model: its entries are the norms.
    assert kick(settings, rare, rare, usual, usual) == pytest.approx(difference, rel=0.05)


def test_the_study_changes_one_setting_in_each_arm_and_its_runs_share_a_program():
    runs = [planned.run for planned in STUDY.final_runs({})]
    assert len(runs) == 20 * len(LABELS)
    assert len({run.settings.shape() for run in runs}) == 1
    paper = next(each for each in STUDY.final_runs({}) if each.arm.label == "paper").run.settings
    assert (paper.actor_rate, paper.critic_rate, paper.entropy_weight) == (0.001, 0.001, 0.1)
    for planned in STUDY.final_runs({}):
        changed = [n for n, value in planned.run.settings.numbers().items() if value != paper.numbers()[n]]
        own = [name for name in planned.arm.settings if name != "method"]
        # The share of a new square follows from beta2.
        assert [name for name in changed if name != "adam_new_square"] == own
        assert len(own) <= 1
    assert kicks("heaven-hell-3")["arm"].to_list() == LABELS


def test_falls_of_arms_are_counted_and_compared_with_the_papers():
    def run(arm: str, seed: int, *returns: float) -> list[tuple[str, str, int, int, int, int, float]]:
        return [("there", arm, seed, 3_000_000, i * 1_000_000, i * 100, value) for i, value in enumerate(returns, 1)]

    rows = [*run("clip 1", 0, 1.0, 1.0, 1.0), *run("paper", 0, 1.0, 0.0, 1.0), *run("paper", 1, 0.0, 0.2, 0.1)]
    names = ["setup", "arm", "seed", "steps", "timestep", "episode", "return"]
    paper, clipped = falls_by_arm(pl.DataFrame(rows, names, orient="row")).rows(named=True)
    assert (paper["arm"], paper["ever_solved"], paper["first_solved"]) == ("paper", 1, 1e6)
    assert (paper["falls"], paper["fallen_runs"], paper["solved_millions"], paper["falls_per_million"]) == (
        1,
        1,
        1.0,
        1.0,
    )
    assert paper["lost"] == 0.5  # of the two million steps since one of its runs had solved the task
    assert (clipped["arm"], clipped["falls"], clipped["solved_millions"], clipped["lost"]) == ("clip 1", 0, 2.0, 0.0)
    # One fall in three million steps: that it is among the paper's million has a probability of a third.
    assert clipped["p"] == pytest.approx(1 / 3)
    assert paper["p"] == paper["p_runs"] == 1


def test_the_recorded_updates_have_the_norms_that_the_analysis_starts_from():
    updates = pl.read_parquet(RECORDED)
    usual = updates.filter(pl.col("sampled"), pl.col("lowest_return") == 1).median()
    rare = updates.filter(pl.col("lowest_return") == -1)
    assert len(rare) == 9
    assert usual["critic_gradient_norm"].item() == pytest.approx(USUAL_NORM, rel=0.02)
    assert usual["critic_mean_root"].item() == pytest.approx(USUAL_ENTRY, rel=0.02)
    assert rare["critic_gradient_norm"].median() == pytest.approx(RARE_NORM, rel=0.02)
    # The most that Adam moves a parameter at once: 0.1 / sqrt(0.001) learning rates.
    assert rare["critic_largest_step"].median() == pytest.approx(0.1 / 0.001**0.5 * 1e-3, rel=0.001)
    assert usual["critic_below_eps"].item() > 0.98


@pytest.mark.parametrize(("falls", "millions"), [(0, 4.0), (3, 2.0), (40, 100.0)])
def test_bounds_of_a_rate_are_where_so_many_falls_become_unlikely(falls: int, millions: float):
    found = rate_interval(falls, millions)
    assert found.estimate == falls / millions
    assert stats.poisson.cdf(falls, found.high * millions) == pytest.approx(0.025)
    if falls:
        assert stats.poisson.sf(falls - 1, found.low * millions) == pytest.approx(0.025)
    else:
        assert found.low == 0


def test_two_rates_differ_as_the_binomial_distribution_says():
    # Ten falls, all in the half of the steps that one of them has.
    assert rates_differ((0, 10), (5.0, 5.0)) == pytest.approx(2 / 2**10)
    assert rates_differ((5, 5), (5.0, 5.0)) == 1
    assert rates_differ((0, 0), (1.0, 3.0)) == 1


def test_nothing_is_known_about_a_rate_without_steps():
    found = rate_interval(0, 0.0)
    assert np.isnan(found.estimate)
    assert found[1:] == (0, np.inf)
    assert rates_differ((0, 0), (0.0, 0.0)) == 1


def test_many_falls_of_one_run_count_once_among_runs():
    # All three of one kind and none of the other: 2 of the 20 ways to choose three of six.
    assert shares_differ((3, 0), (3, 3)) == pytest.approx(0.1)
    assert shares_differ((0, 0), (0, 20)) == 1


def test_the_shares_of_replays_are_those_of_the_recorded_ones():
    folder = ROOT / "results" / "studies" / "lost" / "replays"
    replays, shares = pl.read_parquet(folder / "replays.parquet"), pl.read_csv(folder / "lost-replays.csv")
    counts = replays.group_by("later", "variant").agg(pl.len().alias("replays"), pl.col("fell").sum())
    assert sorted(counts.rows()) == sorted(shares.select("later", "variant", "replays", "fell").rows())
