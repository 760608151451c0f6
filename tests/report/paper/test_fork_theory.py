"""Exact values at the fork of Heaven-Hell, as in the paper's figure 4."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from asymrl import theory
from asymrl.report.paper.fork_theory import draw_fork, fork_values
from asymrl.theory.solvers import solve
from tests.theory.exact.worlds import heard_the_priest, problem


@pytest.mark.parametrize(("n", "soft_bias"), [(3, 0.233), (4, 0.277)])
def test_values_at_the_fork(n: int, soft_bias: float) -> None:
    """Fact 9: the four pairs of the paper's figure 4. V(s) at the fork is the value after the priest."""
    pomdp, g = problem(f"heaven-hell-{n}"), 0.99
    best = solve(pomdp)
    uninformed, informed = g ** (5 * n + 2), g**n
    assert (uninformed, informed) == pytest.approx({3: (0.842943, 0.970299), 4: (0.801631, 0.960596)}[n], abs=5e-7)
    optimal = theory.analyse(pomdp, best.policy(timed=False))
    expected = [[uninformed, uninformed, informed, informed]] * 2 + [[informed] * 4] * 2
    np.testing.assert_allclose(fork_values(optimal), expected, atol=1e-12)
    soft = fork_values(theory.analyse(pomdp, theory.EpsilonSoft(best.policy(timed=False), 0.5)))
    bias = soft[:, 2] - soft[:, 1]
    np.testing.assert_allclose(bias[:2], soft_bias, atol=6e-4)
    np.testing.assert_allclose(bias[2:], 0, atol=0.01)


def test_fork_shows_what_the_critics_say_there() -> None:
    analysis = theory.analyse("heaven-hell-1", heard_the_priest(1))
    axes = Figure().subplots()
    draw_fork(axes, analysis)
    shown = np.array([[bar.get_height() for bar in group] for group in axes.containers]).T  # pyright: ignore
    np.testing.assert_allclose(shown, fork_values(analysis))
    assert shown[2, 0] == analysis.V(((1, 4), (2, 5), (3, 4), (0, 0), (0, 1)), 1)
    with pytest.raises(ValueError, match="tiger has no fork"):
        fork_values(theory.analyse("tiger", horizon=2))
