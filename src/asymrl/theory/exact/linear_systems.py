"""Linear systems of Markov chains: values and visits without a horizon."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float64
from scipy.sparse.linalg import spsolve

LARGE = 20_000  # rows; factors may fill in: those for 170 444 pairs of 4x5x2 took more than 116 CPU seconds
MOST_TERMS = 10_000  # of the series: enough up to a discount of 0.995
PRECISION = 1e-14


def solve_chain(
    chain: sparse.csr_array | sparse.csc_array, constant: Float64[np.ndarray, "n *more"], discount: float
) -> Float64[np.ndarray, "n *more"]:
    """Solves x = constant + discount chain x.

    Small systems are factorised. Large ones are solved by summing discount^k chain^k constant, whose terms shrink with
    the discount, if few terms suffice.

    Args:
        chain: a matrix with rows, or columns, of probabilities.
        constant: the first term.
        discount: a factor between 0 and 1.
    """
    size = len(constant)
    if size >= LARGE and _terms(discount) <= MOST_TERMS:
        chain, term, x = sparse.csr_array(chain), constant, constant
        for _ in range(math.ceil(_terms(discount))):
            term = discount * (chain @ term)
            x = x + term
        return x
    system = sparse.csc_array(sparse.eye_array(size) - discount * chain)
    return np.asarray(spsolve(system, constant)).reshape(constant.shape)


def _terms(discount: float) -> float:
    """How many terms of the series leave a remainder below the precision."""
    if not 0 < discount < 1:
        return math.inf if discount == 1 else 1
    return math.log(PRECISION * (1 - discount)) / math.log(discount)
