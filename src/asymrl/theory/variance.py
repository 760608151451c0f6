"""Variance of the values of states around that of the history, and of the actor-critic's gradient estimate."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from asymrl.theory.graph import MEMORY, Graph
from asymrl.theory.values import Values


def state_variance(values: Values) -> Float64[np.ndarray, "nodes"]:
    """Var(V(h, s) | h). Not negative except for rounding."""
    graph, V = values.graph, values.V_hs
    mean = graph.per_node(graph.belief * V)
    return graph.per_node(graph.belief * (V - mean[graph.node]) ** 2)


def estimator_variance(
    values: Values,
    critic: Float64[np.ndarray, "pairs"],
    *,
    shared: bool = False,
    resampled: Float64[np.ndarray, "nodes"] | None = None,
) -> float:
    """The total variance (the trace of the covariance) of the gradient estimate from one episode.

    The estimate is sum_t gamma^t delta_t grad log pi(a_t; h_t), with the TD error delta of the given critic and pi the
    softmax of a table.

    Args:
        values: of the policy.
        critic: what the critic says at each pair.
        shared: whether the table has a row for what the policy remembers, which may come back in an episode; otherwise
            it has one for each history.
        resampled: Var(critic | h) at each node, if the critic is given states drawn again from the belief at each
            step, instead of the true ones; `critic` is then its mean.

    Raises:
        ValueError: if nodes are no histories; or rows are shared and states resampled.
    """
    graph = values.graph
    if graph.merged == MEMORY or (graph.stationary and not shared):
        raise ValueError("the variance of the estimate needs a graph of histories or beliefs, unrolled in time")
    if shared and resampled is not None:
        raise ValueError("resampled states are supported for a table with a row for each history only")
    delta = td_errors(graph, critic)
    size = _score_size(graph)[graph.node[graph.source], graph.action]
    moment = delta**2
    if resampled is not None:
        after = np.where(graph.target >= 0, resampled[graph.node[graph.target]], 0.0)
        moment = moment + resampled[graph.node[graph.source]] + values.discount**2 * after
    gain = np.bincount(graph.source, graph.probability * moment * size, minlength=graph.pairs)
    if not shared:
        second = graph.start @ graph.backward(gain, values.discount**2)
        return float(second - _squared_means(values, delta))
    later = _later_gradients(graph, delta)
    gain += 2 * values.discount * _overlap(graph, delta, later)
    second = graph.start @ graph.backward(gain, values.discount**2)
    return float(second - np.sum(np.einsum("p,pra->ra", graph.start, later) ** 2))


def td_errors(graph: Graph, critic: Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "edges"]:
    """The TD error delta = r + gamma V' - V on each edge."""
    later = np.where(graph.target >= 0, critic[graph.target], 0.0)
    return graph.pomdp.reward[graph.outcome] + graph.pomdp.discount * later - critic[graph.source]


def _score_size(graph: Graph) -> Float64[np.ndarray, "nodes A"]:
    """|grad log pi(a)|^2 for a softmax: sum_b ([a = b] - pi(b))^2."""
    return 1 - 2 * graph.pi + np.sum(graph.pi**2, axis=1, keepdims=True)


def _score_sums(graph: Graph, weight: Float64[np.ndarray, "edges"]) -> Float64[np.ndarray, "pairs A"]:
    """E[weight grad log pi(a)] at each pair, with respect to the row of its node."""
    A = graph.pomdp.actions
    place = graph.source.astype(np.int64) * A + graph.action
    told = np.bincount(place, graph.probability * weight, minlength=graph.pairs * A).reshape(-1, A)
    return told - graph.pi[graph.node] * told.sum(1, keepdims=True)


def _squared_means(values: Values, delta: Float64[np.ndarray, "edges"]) -> float:
    """sum_h |E[gradient of the row of h]|^2, for a table with a row for each history."""
    graph = values.graph
    expected = graph.per_node(graph.belief[:, None] * _score_sums(graph, delta))
    sizes = np.sum(expected**2, axis=1)
    weight = values.discount ** (2.0 * graph.time) * squared_probabilities(graph)
    return float(weight @ sizes)


def squared_probabilities(graph: Graph) -> Float64[np.ndarray, "nodes"]:
    """The sum of Pr(h)^2 over the histories of each node: histories with equal beliefs and memories branch alike."""
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


def _later_gradients(graph: Graph, delta: Float64[np.ndarray, "edges"]) -> Float64[np.ndarray, "pairs rows A"]:
    """E[sum_k gamma^k delta_k grad log pi_k | pair]: the expected estimate from here on."""
    rows = int(graph.parameter.max()) + 1
    gain = np.zeros((graph.pairs, rows, graph.pomdp.actions))
    gain[np.arange(graph.pairs), graph.parameter[graph.node]] = _score_sums(graph, delta)
    flat = graph.backward(gain.reshape(graph.pairs, -1), graph.pomdp.discount)
    return flat.reshape(gain.shape)


def _overlap(
    graph: Graph, delta: Float64[np.ndarray, "edges"], later: Float64[np.ndarray, "pairs rows A"]
) -> Float64[np.ndarray, "pairs"]:
    """E[delta grad log pi(a) . (the expected estimate from the next pair on)] at each pair."""
    on = graph.target >= 0
    source, target, a = graph.source[on], graph.target[on], graph.action[on]
    node = graph.node[source]
    follows = later[target, graph.parameter[node]]
    product = follows[np.arange(len(a)), a] - np.sum(graph.pi[node] * follows, axis=1)
    return np.bincount(source, graph.probability[on] * delta[on] * product, minlength=graph.pairs)
