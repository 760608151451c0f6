"""Statistics over runs against closed forms, SciPy, and recorded numbers of rliable."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from asymrl.report.intervals import (
    bootstrap,
    improvement_interval,
    interquartile_mean,
    mean,
    normalised,
    performance_profile,
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


def test_strata_are_not_mixed():
    # Within a world all runs are equal, so however they are drawn the mean stays; mixed worlds would vary.
    found = bootstrap(np.tile([[0.0, 1.0, 5.0]], (10, 1)), mean, repetitions=50)
    assert found == (2.0, 2.0, 2.0)


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
