"""A large chain is solved by its series, a small one by factorisation: both to machine precision."""

import numpy as np
import pytest
import scipy.sparse as sparse

from asymrl.theory.exact import history_graph
from asymrl.theory.exact.history_graph import solve_chain


def chain(size: int) -> sparse.csr_array:
    rng = np.random.default_rng(0)
    dense = rng.random((size, size)) * (rng.random((size, size)) < 0.2) + np.eye(size)
    return sparse.csr_array(dense / dense.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.95, 0.99])
@pytest.mark.parametrize("columns", [(), (3,)])
def test_the_series_agrees_with_the_factorisation(monkeypatch, discount, columns):
    P, constant = chain(60), np.random.default_rng(1).normal(size=(60, *columns))
    for matrix in (P, P.T):
        exact = solve_chain(matrix, constant, discount)
        with monkeypatch.context() as patch:
            patch.setattr(history_graph, "LARGE", 1)
            patch.setattr(history_graph, "spsolve", None)  # would fail if it were called
            np.testing.assert_allclose(solve_chain(matrix, constant, discount), exact, rtol=1e-11, atol=1e-11)


def test_a_discount_near_one_is_factorised(monkeypatch):
    monkeypatch.setattr(history_graph, "LARGE", 1)
    P = sparse.csr_array(np.array([[0.0, 1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(solve_chain(P, np.array([1.0, 2.0]), 1.0), [3.0, 2.0])
