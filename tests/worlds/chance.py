"""Statistical assertions. Seeds are fixed, so a test either always passes or always fails;
with another seed, correct code would fail an assertion with probability `FALSE_ALARM`.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-6


def assert_frequencies(counts: np.ndarray, probabilities: np.ndarray | float) -> None:
    """Counts agree with probabilities (Pearson's chi-square test); what has probability 0 never happens."""
    counts = np.asarray(counts)
    probabilities = np.broadcast_to(probabilities, counts.shape)
    np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-5, err_msg="these are not probabilities")
    possible = probabilities > 0
    assert counts[~possible].sum() == 0, f"an impossible outcome: counts {counts}, probabilities {probabilities}"
    expected = counts.sum() * probabilities[possible] / probabilities[possible].sum()
    assert expected.min() >= 5, f"too few draws for this test: {expected.min():.2f} expected, 5 needed"
    if expected.size > 1:
        p = stats.chisquare(counts[possible], expected).pvalue
        assert p > FALSE_ALARM, f"p-value {p:.2g}: counts {counts}, expected {counts.sum() * probabilities}"


def assert_uniform(outcomes: np.ndarray, sizes: tuple[int, ...]) -> None:
    """Rows of indices, one column per variable, are independent of each other and each uniform."""
    outcomes = np.asarray(outcomes).reshape(len(outcomes), len(sizes))
    flat = np.ravel_multi_index(tuple(outcomes.T), sizes)
    assert_frequencies(np.bincount(flat, minlength=int(np.prod(sizes))), 1 / np.prod(sizes))


def assert_rate(hits: int, trials: int, probability: float) -> None:
    """A number of hits agrees with a probability (exact binomial test)."""
    p = stats.binomtest(hits, trials, probability).pvalue
    assert p > FALSE_ALARM, f"p-value {p:.2g}: {hits} of {trials}, expected a fraction of {probability}"
