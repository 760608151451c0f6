"""Exact policy gradients: the true one in both its forms, and the expectation, bias and variance of estimates.

The actor's estimator is one of those used in training: "td0" (one step, then the critic), "td-lambda", or "mc" (returns
only). Any baseline b(h, s) that it subtracts drops out: given the history, the action does not depend on the state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float64

from asymrl.theory.exact.history_graph import BY_MEMORY, HistoryGraph
from asymrl.theory.exact.values import Values, action_values

ESTIMATORS = ("td0", "td-lambda", "mc")
PARAMETERS = ("softmax", "direct")


@dataclass(frozen=True, eq=False)
class Gradient:
    """A gradient of the expected return with respect to the policy's table."""

    table: Float64[np.ndarray, "rows A"]
    """One row for each memory of the policy, in the order of `HistoryGraph.parameter`."""

    @property
    def norm(self) -> float:
        return float(np.linalg.norm(self.table))

    def cosine(self, other: Gradient, rounding: float = 0.0) -> float:
        """The cosine of the angle to another gradient; NaN if one of them is zero up to `rounding`."""
        if min(self.norm, other.norm) <= rounding:
            return math.nan
        return float(np.sum(self.table * other.table) / (self.norm * other.norm))

    def error(self, true: Gradient) -> float:
        """The norm of the difference from the true gradient."""
        return float(np.linalg.norm(self.table - true.table))

    def relative_error(self, true: Gradient, rounding: float) -> float:
        """The error relative to the true gradient; infinite if that is zero up to `rounding` and the error is not."""
        error = self.error(true)
        return error / true.norm if true.norm > rounding else 0.0 if error <= rounding else math.inf


def estimated_values(
    values: Values, critic: Float64[np.ndarray, "pairs"], estimator: str = "td0", lambda_: float = 0.7
) -> Float64[np.ndarray, "pairs A"]:
    """E[estimate of Q | h, s, a], which the actor uses on average; NaN for actions that are never taken."""
    graph, gamma = values.graph, values.discount
    if estimator == "td0":
        return action_values(graph, critic)
    if estimator == "mc":
        return values.Q_hsa
    if estimator != "td-lambda":
        raise ValueError(f"unknown estimator {estimator!r}; choose one of {', '.join(ESTIMATORS)}")
    gain = graph.reward + gamma * (1 - lambda_) * (graph.P @ critic)
    gain[~graph.acting] = critic[~graph.acting]
    later = graph.backward(gain, gamma * lambda_)
    return action_values(graph, (1 - lambda_) * critic + lambda_ * later)


def asymmetric_gradient(
    graph: HistoryGraph, Q_hsa: Float64[np.ndarray, "pairs A"], parameters: str = "softmax"
) -> Gradient:
    """E[sum_t gamma^t Q(h_t, s_t, a_t) grad log pi(a_t; h_t)] (paper, theorem "Asymmetric Policy Gradient").

    Any estimate of Q(h, s, a) may take its place.
    """
    weight = graph.discounted_mass
    return _gathered(graph, graph.per_node(weight[:, None] * np.nan_to_num(Q_hsa)), parameters)


def symmetric_gradient(
    graph: HistoryGraph, Q_ha: Float64[np.ndarray, "nodes A"], parameters: str = "softmax"
) -> Gradient:
    """E[sum_t gamma^t Q(h_t, a_t) grad log pi(a_t; h_t)] (paper, eq. policy-gradient)."""
    weight = graph.per_node(graph.discounted_mass)
    return _gathered(graph, weight[:, None] * np.nan_to_num(Q_ha), parameters)


def gradient_bias(values: Values, Q_estimate: Float64[np.ndarray, "pairs A"]) -> Float64[np.ndarray, "nodes A"]:
    """E[estimate of Q(h, s, a) | h] - Q(h, a), minus its mean over the policy.

    The mean drops out of the gradient: only differences between actions move the actor. NaN for actions that are
    never taken.
    """
    graph = values.graph
    bias = graph.per_node(graph.belief[:, None] * np.nan_to_num(Q_estimate)) - np.nan_to_num(values.Q_ha)
    centred = bias - np.sum(graph.pi * bias, axis=1, keepdims=True)
    return np.where(graph.pi > 0, centred, np.nan)


def _gathered(graph: HistoryGraph, weighted_Q: Float64[np.ndarray, "nodes A"], parameters: str) -> Gradient:
    """The gradient with respect to the policy's table, from sum_t gamma^t Pr(h) Q(h, a) at each node.

    "softmax": pi is the softmax of a table, d log pi(a) / d theta(b) = [a = b] - pi(b). "direct": the table holds the
    probabilities themselves; the entry of an action that is never taken is 0, since its Q is unknown.
    """
    if parameters not in PARAMETERS:
        raise ValueError(f"unknown parameters {parameters!r}; choose one of {', '.join(PARAMETERS)}")
    if parameters == "softmax":
        weighted_Q = graph.pi * (weighted_Q - np.sum(graph.pi * weighted_Q, axis=1, keepdims=True))
    table = np.zeros((int(graph.parameter.max()) + 1, graph.pomdp.actions))
    np.add.at(table, graph.parameter, weighted_Q)
    return Gradient(table)


def state_variance(values: Values) -> Float64[np.ndarray, "nodes"]:
    """Var(V(h, s) | h) at each node."""
    graph, V = values.graph, values.V_hs
    mean = graph.per_node(graph.belief * V)
    return graph.per_node(graph.belief * (V - mean[graph.node]) ** 2)


def estimator_variance(
    values: Values,
    critic: Float64[np.ndarray, "pairs"],
    *,
    lambda_: float = 0.0,
    shared: bool = False,
    noise: Float64[np.ndarray, "pairs"] | None = None,
) -> float:
    """The total variance (the trace of the covariance) of the gradient estimate from one episode.

    The estimate is sum_t gamma^t A_t grad log pi(a_t; h_t), with the advantage A_t = sum_k (gamma lambda)^k delta_{t+k}
    of the given critic and pi the softmax of a table. With lambda = 0, A is the TD error; with 1, the return minus V.

    Args:
        values: of the policy.
        critic: the critic's value at each pair.
        lambda_: of the TD(lambda) estimate that the actor uses.
        shared: whether the table has a row for each memory of the policy, which may recur in an episode; otherwise it
            has a row for each history.
        noise: the variance of the critic's value at each pair, if it reads a state that is drawn from the belief at
            each step; `critic` is then its mean. Whether a draw is used twice, for V(h) and as the bootstrap of the
            previous step, makes no difference with lambda = 0: E[grad log pi | h] = 0 removes the product of the two.

    Raises:
        ValueError: if the table has a row for each history but nodes are not histories, or if the table is shared,
            states are drawn and lambda > 0.
    """
    graph, gamma = values.graph, values.discount
    if not shared and (graph.merged == BY_MEMORY or graph.stationary):
        raise ValueError("the variance of the estimate needs a graph of histories or beliefs, unrolled in time")
    if shared and lambda_ > 0 and noise is not None and noise.any():
        raise ValueError("with lambda above 0 and drawn states, the variance is known for a row per history only")
    mean, square = advantage_moments(values, critic, lambda_, noise=noise)
    size = _score_size(graph)[graph.node[graph.source], graph.action]
    gain = _at_pairs(graph, square * size)
    if not shared:
        second = graph.start @ graph.backward(gain, gamma**2)
        return float(second - _squared_means(values, mean))
    # X = A grad log pi + gamma X' is the estimate from a pair on, and E[A X] has a recursion of its own.
    delta, later = td_errors(graph, critic), _later_gradients(graph, mean)
    together = _scattered(graph, _score_sums(graph, square))
    together += gamma * _weighted_next(graph, delta, later)
    together = graph.backward(together.reshape(graph.pairs, -1), gamma**2 * lambda_).reshape(later.shape)
    gain += (
        2 * gamma * (_overlap(graph, delta, later) + gamma * lambda_ * _overlap(graph, np.ones_like(delta), together))
    )
    second = graph.start @ graph.backward(gain, gamma**2)
    return float(second - np.sum(np.einsum("p,pra->ra", graph.start, later) ** 2))


def advantage_moments(
    values: Values,
    critic: Float64[np.ndarray, "pairs"],
    lambda_: float = 0.0,
    *,
    noise: Float64[np.ndarray, "pairs"] | None = None,
    independent: bool = False,
) -> tuple[Float64[np.ndarray, "edges"], Float64[np.ndarray, "edges"]]:
    """E[A] and E[A^2] of A_t = sum_k (gamma lambda)^k delta_{t+k}, given the edge that is taken at time t.

    If the critic reads a drawn state, its noise is in both delta_t = r + gamma V_{t+1} - V_t and delta_{t+1}. With one
    draw for both uses most of it cancels in the sum, with independent draws it adds up.

    Args:
        values: of the policy.
        critic: the critic's value at each pair; its mean, if it reads a drawn state.
        lambda_: 0 for the TD error itself.
        noise: the variance of the critic's value at each pair.
        independent: whether V(x) and the bootstrap of the step before read different draws.
    """
    graph, decay = values.graph, values.discount * lambda_
    delta = td_errors(graph, critic)
    mean = delta + decay * at_targets(graph, graph.backward(_at_pairs(graph, delta), decay))
    # E[A^2] on an edge is E[(delta + decay A')^2]; the square of A' has a recursion of its own.
    cross = delta * (2 * mean - delta)
    if noise is not None:
        factor = 1 + lambda_**2 if independent else (1 - lambda_) ** 2
        # An open pair has no TD error of its own that could cancel or add to the bootstrap.
        factors = np.where(at_targets(graph, graph.acting.astype(float)) > 0, factor, 1.0)
        cross = cross + values.discount**2 * factors * at_targets(graph, noise)
    square = cross + decay**2 * at_targets(graph, graph.backward(_at_pairs(graph, cross), decay**2))
    return mean, square if noise is None else square + noise[graph.source]


def _at_pairs(graph: HistoryGraph, y: Float64[np.ndarray, "edges"]) -> Float64[np.ndarray, "pairs"]:
    """The mean of y over the edges of each pair."""
    return np.bincount(graph.source, graph.probability * y, minlength=graph.pairs)


def at_targets(graph: HistoryGraph, x: Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "edges"]:
    """The value of x at the pair that each edge leads to; 0 after the end."""
    return np.where(graph.target >= 0, x[graph.target], 0.0)


def td_errors(graph: HistoryGraph, critic: Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "edges"]:
    """The TD error delta = r + gamma V' - V on each edge."""
    later = graph.pomdp.discount * at_targets(graph, critic)
    return graph.pomdp.reward[graph.outcome] + later - critic[graph.source]


def _score_size(graph: HistoryGraph) -> Float64[np.ndarray, "nodes A"]:
    """|grad log pi(a)|^2 for a softmax: sum_b ([a = b] - pi(b))^2."""
    return 1 - 2 * graph.pi + np.sum(graph.pi**2, axis=1, keepdims=True)


def _score_sums(graph: HistoryGraph, weight: Float64[np.ndarray, "edges"]) -> Float64[np.ndarray, "pairs A"]:
    """E[weight grad log pi(a)] at each pair, with respect to the row of its node."""
    A = graph.pomdp.actions
    place = graph.source.astype(np.int64) * A + graph.action
    total = np.bincount(place, graph.probability * weight, minlength=graph.pairs * A).reshape(-1, A)
    return total - graph.pi[graph.node] * total.sum(1, keepdims=True)


def _squared_means(values: Values, delta: Float64[np.ndarray, "edges"]) -> float:
    """sum_h |E[gradient of the row of h]|^2, for a table with a row for each history."""
    graph = values.graph
    expected = graph.per_node(graph.belief[:, None] * _score_sums(graph, delta))
    sizes = np.sum(expected**2, axis=1)
    weight = values.discount ** (2.0 * graph.time) * squared_probabilities(graph)
    return float(weight @ sizes)


def squared_probabilities(graph: HistoryGraph) -> Float64[np.ndarray, "nodes"]:
    """The sum of Pr(h)^2 over the histories of each node, which branch alike since beliefs and memories are equal."""
    A, O = graph.pomdp.actions, graph.pomdp.observations
    on = graph.target >= 0
    source, target = graph.node[graph.source[on]].astype(np.int64), graph.node[graph.target[on]]
    triple = (source * A + graph.action[on]) * O + graph.pomdp.observation[graph.outcome[on]]
    _, first, place = np.unique(triple, return_index=True, return_inverse=True)
    share = np.bincount(place, graph.belief[graph.source[on]] * graph.probability[on])
    source, target = source[first], target[first]
    begins = graph.parent < 0
    squares = np.where(begins, graph.per_node(graph.start) ** 2, 0.0)
    order = np.searchsorted(source, graph.first_node)  # codes are sorted by source, hence by time
    for t in range(graph.layers - 1):
        rows = slice(order[t], order[t + 1])
        squares += np.bincount(target[rows], squares[source[rows]] * share[rows] ** 2, minlength=graph.nodes)
    return squares


def _scattered(graph: HistoryGraph, own: Float64[np.ndarray, "pairs A"]) -> Float64[np.ndarray, "pairs rows A"]:
    """A table for each pair which is zero except in the row of the pair's node."""
    table = np.zeros((graph.pairs, int(graph.parameter.max()) + 1, graph.pomdp.actions))
    table[np.arange(graph.pairs), graph.parameter[graph.node]] = own
    return table


def _later_gradients(
    graph: HistoryGraph, advantage: Float64[np.ndarray, "edges"]
) -> Float64[np.ndarray, "pairs rows A"]:
    """E[sum_k gamma^k A_k grad log pi_k | pair]: the expected estimate from here on."""
    gain = _scattered(graph, _score_sums(graph, advantage))
    flat = graph.backward(gain.reshape(graph.pairs, -1), graph.pomdp.discount)
    return flat.reshape(gain.shape)


def _weighted_next(
    graph: HistoryGraph, weight: Float64[np.ndarray, "edges"], later: Float64[np.ndarray, "pairs rows A"]
) -> Float64[np.ndarray, "pairs rows A"]:
    """E[weight x (the expected estimate from the next pair on)] at each pair."""
    on = graph.target >= 0
    entries = ((graph.probability * weight)[on], (graph.source[on], graph.target[on]))
    matrix = sparse.csr_array(entries, shape=(graph.pairs, graph.pairs))
    return (matrix @ later.reshape(graph.pairs, -1)).reshape(later.shape)


def _overlap(
    graph: HistoryGraph, weight: Float64[np.ndarray, "edges"], later: Float64[np.ndarray, "pairs rows A"]
) -> Float64[np.ndarray, "pairs"]:
    """E[weight grad log pi(a) . (a table at the next pair)] at each pair."""
    on = graph.target >= 0
    source, target, a = graph.source[on], graph.target[on], graph.action[on]
    node = graph.node[source]
    follows = later[target, graph.parameter[node]]
    product = follows[np.arange(len(a)), a] - np.sum(graph.pi[node] * follows, axis=1)
    return np.bincount(source, graph.probability[on] * weight[on] * product, minlength=graph.pairs)
