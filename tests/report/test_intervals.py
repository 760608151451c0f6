"""Statistics over runs against closed forms, SciPy, and recorded numbers of rliable."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from asymrl.report.intervals import (
    Interval,
    bootstrap,
    detectable_difference,
    detectable_improvement,
    difference_interval,
    improvement_interval,
    interquartile_mean,
    mean,
    normalised,
    performance_profile,
    pooled_interval,
    probability_of_improvement,
    profile_band,
)


@pytest.fixture
def scores() -> np.ndarray:
    generator = np.random.default_rng(3)
    return generator.normal(size=(20, 3)) * [1.0, 0.2, 3.0] + [0.0, 1.0, -2.0]


def test_the_interquartile_mean_leaves_out_a_quarter_on_either_side():
    assert interquartile_mean(np.asarray([[-1e6, 1.0, 2.0, 3.0, 4.0, 1e6, 1e6, -1e6]]).T) == 2.5
    # Of five, only one on either side.
    assert interquartile_mean(np.asarray([[0.0, 1.0, 2.0, 9.0, 100.0]]).T) == 4.0


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 20])
def test_the_interquartile_mean_is_a_trimmed_mean(count: int):
    values = np.random.default_rng(count).normal(size=(count, 2))
    assert interquartile_mean(values) == pytest.approx(stats.trim_mean(values.flatten(), 0.25))


def test_a_batch_of_scores_gives_a_batch_of_statistics(scores: np.ndarray):
    batch = np.stack([scores, scores + 1.0])
    np.testing.assert_allclose(
        interquartile_mean(batch), [interquartile_mean(scores), interquartile_mean(scores) + 1.0]
    )


def test_probability_of_improvement_is_the_statistic_of_mann_and_whitney(scores: np.ndarray):
    others = np.random.default_rng(4).normal(size=(15, 3)).round(1)
    expected = np.mean(
        [stats.mannwhitneyu(scores.round(1)[:, k], others[:, k]).statistic / (20 * 15) for k in range(3)]
    )
    assert probability_of_improvement(scores.round(1), others) == pytest.approx(expected)
    assert probability_of_improvement(others, others) == 0.5
    assert probability_of_improvement(others + 100, others) == 1.0


def test_profiles_are_shares_of_runs(scores: np.ndarray):
    thresholds = np.linspace(-6, 6, 25)
    found = performance_profile(scores, thresholds)
    np.testing.assert_array_equal(found, [np.mean(scores > tau) for tau in thresholds])
    low, high = profile_band(scores, thresholds)
    assert np.all((low <= found) & (found <= high))


def test_the_interval_of_a_mean_covers_it_as_often_as_promised():
    generator, covered = np.random.default_rng(5), 0
    for i in range(200):
        found = bootstrap(generator.normal(size=(30, 1)), mean, confidence=0.8, repetitions=400, seed=i)
        covered += found.low <= 0.0 <= found.high
    # 160 expected, with a standard deviation of 5.7; the bootstrap of 30 values is a little too narrow.
    assert 140 <= covered <= 175


# How often intervals of 20 runs contain the truth, as docs/explanation/statistics.md says.
PAGE = " ".join((Path(__file__).parents[2] / "docs" / "explanation" / "statistics.md").read_text().split())
RUNS = 20


def said(ending: str) -> int:
    """How many times in 100, by the page."""
    (times,) = re.findall(rf"(\d+) times {ending}", PAGE)
    return int(times)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "samples", "interval", "simulations"),
    [
        ("for a mean", 1, lambda seed, x: bootstrap(x, mean, seed=seed), 4000),
        ("for an interquartile mean", 1, lambda seed, x: bootstrap(x, seed=seed), 4000),
        (
            "for the probability of improvement of two equal methods",
            2,
            lambda seed, x, y: improvement_interval(x, y, seed=seed),
            1500,
        ),
    ],
)
def test_the_page_says_how_often_an_interval_contains_the_truth(
    ending: str, samples: int, interval: Callable[..., Interval], simulations: int
):
    generator, truth, covered = np.random.default_rng(samples), 0.5 if samples == 2 else 0.0, 0
    for seed in range(simulations):
        found = interval(seed, *(generator.normal(size=(RUNS, 1)) for _ in range(samples)))
        covered += found.low <= truth <= found.high
    share, error = 100 * covered / simulations, 100 * np.sqrt(0.95 * 0.05 / simulations)
    assert share == pytest.approx(said(ending), abs=0.5 + 3 * error)  # the half for rounding


def test_the_page_says_how_often_few_failures_are_missed():
    """Only the number of solved runs matters, so that the coverage is a sum over the binomial distribution."""
    solving, covered = 0.9, 0.0
    for solved in range(RUNS + 1):
        found = bootstrap((np.arange(RUNS) < solved).astype(float)[:, None], mean)
        contains = found.low - 1e-9 <= solving <= found.high + 1e-9
        covered += contains * stats.binom.pmf(solved, RUNS, solving)
    assert said("for the mean of runs that solve a world with probability 0.9") == round(100 * float(covered))
    assert bootstrap(np.ones((RUNS, 1)), mean) == (1, 1, 1)
    assert f"all 20 solve the world with probability {solving**RUNS:.2f}" in PAGE


def test_strata_are_not_mixed():
    # Within a world all runs are equal, so however they are drawn the mean stays; mixed worlds would vary.
    found = bootstrap(np.tile([[0.0, 1.0, 5.0]], (10, 1)), mean, repetitions=50)
    assert found == (2.0, 2.0, 2.0)


def test_pooled_groups_are_strata_and_the_numbers_of_a_run_stay_together():
    # Within a group all runs are equal: whatever is drawn, each group has its share of the mean.
    groups = [np.full((4, 1), 0.0), np.full((8, 1), 3.0)]
    assert pooled_interval(groups, mean, repetitions=50) == (2.0, 2.0, 2.0)
    # The second number is twice the first in every run, also in those that are drawn.
    x = np.random.default_rng(0).normal(size=(10, 1))
    pairs = np.concatenate([x, 2 * x], axis=1)

    def largest_gap(rows: np.ndarray) -> np.ndarray:
        return np.abs(rows[..., 1] - 2 * rows[..., 0]).max(axis=-1)

    assert pooled_interval([pairs, 3 * pairs], largest_gap, repetitions=50).high == pytest.approx(0)
    # One group with one number is a sample.
    assert pooled_interval([x], mean, seed=3) == bootstrap(x, mean, seed=3)


def test_scores_are_normalised_between_random_and_best():
    np.testing.assert_allclose(normalised(np.asarray([0.0, 0.5, 1.0]), "heaven-hell-3"), [0.0, 0.5, 1.0])
    np.testing.assert_allclose(normalised(np.asarray([4.0]), "shopping-5"), 1.0)
    with pytest.raises(ValueError, match="no reference returns"):
        normalised(np.zeros(1), "heaven-hell-7")


def test_all_agree_with_rliable(scores: np.ndarray):
    """The numbers come from rliable 1.2.0, printed by `record_rliable.py`."""
    others = np.random.default_rng(6).normal(size=(12, 3))
    assert interquartile_mean(scores) == pytest.approx(0.18997107121607243)
    assert probability_of_improvement(scores, others) == pytest.approx(0.3902777777777778)
    above = [60, 60, 59, 57, 57, 56, 55, 51, 49, 46, 45, 40, 32, 27, 16, 4, 3, 2, 2, 1, 0, 0, 0, 0, 0]
    np.testing.assert_allclose(performance_profile(scores, np.linspace(-6, 6, 25)), np.asarray(above) / 60)
    # Both bootstraps are drawn at random. With 4000 repetitions the bounds of an interval of width w vary by about
    # w / 60, with 1000 by w / 30.
    ours = bootstrap(scores, repetitions=4000)
    np.testing.assert_allclose([ours.low, ours.high], [-0.2069, 0.4606], atol=(ours.high - ours.low) / 12)
    ours = improvement_interval(scores, others, repetitions=1000)
    np.testing.assert_allclose([ours.low, ours.high], [0.2667, 0.5139], atol=(ours.high - ours.low) / 6)


def test_a_difference_of_means_has_the_interval_of_both_sides(scores: np.ndarray):
    others = np.random.default_rng(7).normal(size=(12, 3))
    found = difference_interval(scores, others)
    assert found.estimate == pytest.approx(scores.mean() - others.mean())
    # The mean over three tasks has a third of the sum of their errors; at 95 % the interval is about 4 of them wide.
    error = np.sqrt((scores.var(axis=0, ddof=1) / 20 + others.var(axis=0, ddof=1) / 12).sum()) / 3
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.1)
    constant = difference_interval(np.full((5, 2), 3.0), np.full((4, 2), 1.0))
    assert constant == (2.0, 2.0, 2.0)


def test_intervals_of_comparisons_cover_the_truth_as_often_as_promised():
    """Two worlds, one with ten times the spread of the other; the truth is known in both."""
    generator, shift, scale, covered = np.random.default_rng(8), 0.7, np.asarray([1.0, 10.0]), np.zeros(2)
    better = stats.norm.cdf(shift / np.sqrt(2))
    for i in range(200):
        mine, theirs = (scale * (generator.normal(size=(20, 2)) + more) for more in (shift, 0.0))
        difference = difference_interval(mine, theirs, repetitions=300, seed=i)
        chance = improvement_interval(mine, theirs, repetitions=300, seed=i)
        covered[0] += difference.low <= shift * 5.5 <= difference.high
        covered[1] += chance.low <= better <= chance.high
    # 190 expected, with a standard deviation of 3.1; the bootstrap of 20 values is a little too narrow.
    assert covered.min() >= 178
    assert covered.max() <= 198


def unit_spread(runs: int) -> np.ndarray:
    values = np.linspace(-1, 1, runs)[:, None]
    return values / values.std(ddof=1)


def test_the_detectable_difference_is_that_of_the_tables_of_the_t_test():
    """Cohen's d that two groups show with 80 % power at 5 %, two-sided, as tables of power have it."""
    assert detectable_difference(unit_spread(20), unit_spread(20)) == pytest.approx(0.9091, abs=5e-5)
    assert detectable_difference(unit_spread(64), unit_spread(64)) == pytest.approx(0.49907, abs=5e-5)
    # The spread of five runs, as if there were twenty; and a spread three times as large.
    assert detectable_difference(3 * unit_spread(5), 3 * unit_spread(5), runs=20) == pytest.approx(3 * 0.9091, abs=2e-4)
    # Four tasks with equal spreads are as good as four times the runs, with a few more degrees of freedom.
    four = np.tile(unit_spread(20), (1, 4))
    assert detectable_difference(four, four) == pytest.approx(0.9091 / 2, rel=0.03)
    assert detectable_difference(np.ones((5, 1)), np.zeros((5, 1))) == 0.0
    assert np.isnan(detectable_difference(unit_spread(20), np.ones((1, 1))))


def test_the_detectable_improvement_is_noethers():
    # 0.5 + (1.95996 + 0.84162) * sqrt(41 / (12 * 20 * 20))
    assert detectable_improvement(20) == pytest.approx(0.75893, abs=1e-5)
    assert detectable_improvement(20, 10) == pytest.approx(0.5 + 2.80158 * np.sqrt(31 / 2400), abs=1e-5)
    assert detectable_improvement(20, tasks=4) - 0.5 == pytest.approx(0.25893 / 2, abs=1e-5)
    assert detectable_improvement(4) == 1.0
    assert np.isnan(detectable_improvement(3))


def _p_value(mine: np.ndarray, theirs: np.ndarray) -> float:
    """Of Welch's test."""
    test: Any = stats.ttest_ind(mine[:, 0], theirs[:, 0], equal_var=False)
    return test.pvalue


def test_differences_of_the_detectable_size_are_detected_four_times_in_five():
    """By simulation of the rule itself: the interval leaves out zero, or one half."""
    generator, runs, shown = np.random.default_rng(9), 20, np.zeros(4)
    shift = detectable_difference(unit_spread(runs), unit_spread(runs))
    chance = detectable_improvement(runs)
    shift_of_chance = np.sqrt(2) * stats.norm.ppf(chance)  # of normal runs with that probability of improvement
    for i in range(200):
        mine, theirs = generator.normal(size=(2, runs, 1))
        shown[0] += _p_value(mine + shift, theirs) < 0.05
        shown[1] += difference_interval(mine + shift, theirs, repetitions=300, seed=i).low > 0
        shown[2] += improvement_interval(mine + shift_of_chance, theirs, repetitions=300, seed=i).low > 0.5
        nothing = difference_interval(mine, theirs, repetitions=300, seed=i)
        shown[3] += nothing.low > 0 or nothing.high < 0
    # 160 of 200 with a standard deviation of 5.7. Bootstrap intervals are a little narrower than they should be, so
    # they show a little more, also where there is nothing: 10 are expected there.
    assert 145 <= shown[0] <= 175
    assert 150 <= shown[1] <= 187
    assert 150 <= shown[2] <= 190
    assert 4 <= shown[3] <= 24
