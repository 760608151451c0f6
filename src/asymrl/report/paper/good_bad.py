"""The good/bad example of the paper's appendix, step by step, with its numbers beside their closed forms."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from asymrl.theory.exact.analysis import analyse
from asymrl.theory.exact.histories import History

GOOD, BAD = 0, 1


def good_bad_steps(g: float) -> Iterator[str]:
    """The example as lines of text: numbers computed from the model on the left, closed forms on the right."""
    analysis = analyse("good-bad", np.eye(2), horizon=math.inf, discount=g)
    V = analysis.state_value().V
    assert V is not None  # the policy is reactive and observations depend on the state alone
    h_good: History = ((None, GOOD),)
    h_bad: History = ((None, BAD),)

    def line(what: str, number: float | np.ndarray, form: str, expected: float) -> str:
        return f"  {what:<44}{float(number):>12.6f}   {form} = {expected:.6f}"

    yield f"The good/bad POMDP (paper, appendix), discount g = {g:g}, no time limit."
    yield "The agent repeats its observation. The good state always shows good, the bad one a fair coin; good pays 1."
    yield ""
    yield "1. The policy is reactive and observations depend on the state alone, so V(s) is well defined:"
    yield line("V(good)", V[GOOD], "1/(1-g)", 1 / (1 - g))
    yield line("V(bad)", V[BAD], "1/(2(1-g))", 1 / (2 * (1 - g)))
    yield "2. After the first observation good, the agent believes:"
    yield line("b(good)", analysis.belief(h_good)[GOOD], "2/3", 2 / 3)
    yield "3. The mean of V(s) under this belief, and the true value of the history:"
    yield line("E[V(s) | h = good]", analysis.belief(h_good) @ V, "5/(6(1-g))", 5 / (6 * (1 - g)))
    yield line("V(h = good)", analysis.V(h_good), "(6-g)/(6(1-g))", (6 - g) / (6 * (1 - g)))
    yield "4. They differ for every discount: V(s) is biased, by"
    yield line("E[V(s) | good] - V(good)", analysis.belief(h_good) @ V - analysis.V(h_good), "-1/6", -1 / 6)
    yield line("E[V(s) | bad] - V(bad)", analysis.belief(h_bad) @ V - analysis.V(h_bad), "1/2", 1 / 2)
    yield "   which is 3/4 (-1/6) + 1/4 (1/2) = 0 on average. After n observations good it is -1/(2(2^n+1)):"
    for n in (2, 3, 4):
        h = (*h_good, *[(GOOD, GOOD)] * (n - 1))
        expected = -1 / (2 * (2**n + 1))
        yield line(f"n = {n}", analysis.belief(h) @ V - analysis.V(h), f"-1/{2 * (2**n + 1)}", expected)
    yield "5. V(h, s) distinguishes the last observation, and has no bias:"
    yield line("V(h = good, bad)", analysis.V(h_good, BAD), "(2-g)/(2(1-g))", (2 - g) / (2 * (1 - g)))
    yield line("V(h = bad, bad)", analysis.V(h_bad, BAD), "g/(2(1-g))", g / (2 * (1 - g)))
    mean = sum(analysis.belief(h_good)[s] * analysis.V(h_good, s) for s in (GOOD, BAD))
    yield line("E[V(h, s) | h = good]", mean, "V(h = good)", analysis.V(h_good))
    yield "6. A biased value need not bias the gradient. For this reactive policy, one step and then V(s') is exact:"
    worst = np.nanmax(np.abs(analysis.gradient_bias("td0")))
    yield line("largest gradient bias", float(worst), "0", 0.0)
