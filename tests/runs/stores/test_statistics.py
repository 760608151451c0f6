"""Mean and standard error over runs, and the recent and final returns of a run."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from asymrl.runs.statistics import final_points, final_returns, mean_and_error, recent_mean, tenth_means


def test_mean_and_standard_error():
    assert mean_and_error(np.asarray([1.0, 2.0, 6.0])) == (3.0, pytest.approx(np.sqrt(7.0 / 3.0)))
    values = np.random.default_rng(0).normal(size=(7, 3))
    mean, error = mean_and_error(values)
    np.testing.assert_allclose(mean, values.mean(axis=0))
    np.testing.assert_allclose(error, stats.sem(values))


def test_what_is_not_finite_is_left_out():
    values = np.asarray([[1.0, 4.0, np.nan], [3.0, np.nan, np.inf], [np.nan, np.nan, np.nan]])
    mean, error = mean_and_error(values)
    np.testing.assert_array_equal(mean, [2.0, 4.0, np.nan])
    np.testing.assert_array_equal(error, [1.0, np.nan, np.nan])


def test_the_recent_mean_is_over_the_episodes_that_there_were():
    values = np.asarray([1, 2, 6, 0], np.float32)
    assert recent_mean(values, 3) == 3.0
    assert recent_mean(values, 4) == recent_mean(values, 1000) == 2.25
    assert np.isnan(recent_mean(values, 0))


def curves() -> pl.DataFrame:
    """Of 100 steps: a run with its points at 0, 10, ..., 90; one with more at its end; one that failed after 40."""
    points = {0: range(0, 100, 10), 1: [0, 50, 89, 90, 95, 99], 2: [0, 20, 40]}
    rows = [(seed, 100, t, float(t)) for seed, timesteps in points.items() for t in timesteps]
    return pl.DataFrame(rows, ["seed", "steps", "timestep", "return"], orient="row")


def test_the_final_return_is_that_of_the_last_tenth_or_of_the_last_point():
    assert final_returns(curves()).rows() == [(0, 100, 90.0), (1, 100, pytest.approx((90 + 95 + 99) / 3)), (2, 100, 40)]
    assert final_points(curves())["timestep"].to_list() == [90, 90, 95, 99, 40]


def test_other_measurements_are_averaged_over_the_same_points():
    table = curves().with_columns(length=2 * pl.col("timestep"))
    np.testing.assert_allclose(final_returns(table, "length")["final"], 2 * final_returns(table)["final"].to_numpy())


def test_means_over_tenths_end_with_the_last_one():
    curves = np.stack([np.arange(20.0), np.full(20, 3.0)])
    found = tenth_means(curves)
    np.testing.assert_array_equal(found, [np.arange(19) + 0.5, np.full(19, 3.0)])
    np.testing.assert_array_equal(tenth_means(curves[:, :4]), curves[:, :4])  # a tenth has at least one point
