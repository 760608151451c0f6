"""The example of the paper's appendix: every closed form."""

import math

import numpy as np
import pytest

from asymrl import theory
from asymrl.theory.exact.analysis import Analysis

GOOD, BAD = 0, 1


def copies(discount: float, p: float = 1.0, q: float = 0.0) -> Analysis:
    """The reactive policy with Pr(good | good) = p and Pr(good | bad) = q; by default it repeats what it sees."""
    table = np.array([[p, 1 - p], [q, 1 - q]])
    return theory.analyse("good-bad", table, horizon=math.inf, discount=discount)


def goods(n: int) -> theory.History:
    """n observations GOOD in a row."""
    return ((None, GOOD), *[(GOOD, GOOD)] * (n - 1))


@pytest.mark.parametrize("g", [0.5, 0.9, 0.99])
def test_values_and_bias(g: float) -> None:
    analysis = copies(g)
    found = analysis.state_value()
    assert found.V is not None
    np.testing.assert_allclose(found.V, [1 / (1 - g), 1 / (2 * (1 - g))], rtol=1e-12)
    h_good, h_bad = ((None, GOOD),), ((None, BAD),)
    np.testing.assert_allclose(analysis.belief(h_good), [2 / 3, 1 / 3], rtol=1e-15)
    assert analysis.belief(h_good) @ found.V == pytest.approx(5 / (6 * (1 - g)), rel=1e-12)
    assert analysis.V(h_good) == pytest.approx((6 - g) / (6 * (1 - g)), rel=1e-12)
    assert analysis.V(h_bad) == pytest.approx(g / (2 * (1 - g)), rel=1e-12)
    biases = [analysis.belief(h) @ found.V - analysis.V(h) for h in (h_good, h_bad)]
    np.testing.assert_allclose(biases, [-1 / 6, 1 / 2], atol=1e-11)
    assert 3 / 4 * biases[0] + 1 / 4 * biases[1] == pytest.approx(0, abs=1e-11)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_after_n_good_observations(n: int) -> None:
    g = 0.9
    analysis = copies(g)
    h = goods(n)
    np.testing.assert_allclose(analysis.belief(h), np.array([2**n, 1]) / (2**n + 1), rtol=1e-13)
    assert analysis.V(h) == pytest.approx((2**n + (2 - g) / 2) / ((2**n + 1) * (1 - g)), rel=1e-12)
    assert analysis.V(h, BAD) == pytest.approx((2 - g) / (2 * (1 - g)), rel=1e-12)
    after_bad = (*h, (GOOD, BAD))
    np.testing.assert_allclose(analysis.belief(after_bad), [0, 1])
    assert analysis.V(after_bad, BAD) == pytest.approx(g / (2 * (1 - g)), rel=1e-12)


def test_stochastic_reactive_policy() -> None:
    g, p, q = 0.9, 0.7, 0.4
    analysis = copies(g, p, q)
    found = analysis.state_value()
    assert found.V is not None
    np.testing.assert_allclose(found.V, [p / (1 - g), (p + q) / (2 * (1 - g))], rtol=1e-12)
    for n in (1, 2, 5):
        bias = analysis.belief(goods(n)) @ found.V - analysis.V(goods(n))
        assert bias == pytest.approx((q - p) / (2 * (2**n + 1)), abs=1e-12)
    assert pytest.approx((3 * p + q) / (4 * (1 - g)), rel=1e-12) == analysis.J
    slopes = analysis.gradient(parameters="direct").table
    np.testing.assert_allclose(slopes[:, 0] - slopes[:, 1], [3 / (4 * (1 - g)), 1 / (4 * (1 - g))], rtol=1e-10)


def test_value_is_biased_but_the_gradient_is_not() -> None:
    """For a reactive policy Q(h, s, a) does not depend on h, so that bootstrapping on V(s') does no harm."""
    analysis = copies(0.9, 0.7, 0.4)
    assert np.nanmax(np.abs(analysis.value_bias("td0"))) > 0.1
    assert np.nanmax(np.abs(analysis.gradient_bias("td0"))) < 1e-11
    assert analysis.gradient("td0").error(analysis.gradient()) < 1e-11


def test_equal_beliefs_and_different_values() -> None:
    """BG and BB: the counterexample to unbiased timed state values, of either kind."""
    analysis = theory.analyse("good-bad", np.eye(2), horizon=5)
    bg, bb = (((None, BAD), (BAD, o)) for o in (GOOD, BAD))
    np.testing.assert_array_equal(analysis.belief(bg), analysis.belief(bb))
    assert analysis.V(bg) - analysis.V(bb) == pytest.approx(1, rel=1e-12)
    for kind in ("mc", "td"):
        expected = analysis.belief(bg)[BAD] * analysis.timed_values(1, kind)[BAD]
        assert abs(expected - analysis.V(bg)) + abs(expected - analysis.V(bb)) >= 1 - 1e-12
