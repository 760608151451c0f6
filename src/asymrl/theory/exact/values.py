"""Exact V(h), Q(h, a), V(h, s) and Q(h, s, a) of a policy, and the bias of a critic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float64

from asymrl.theory.exact.history_graph import BY_MEMORY, HistoryGraph, solve_chain
from asymrl.worlds.pomdp import Pomdp


@dataclass(frozen=True, eq=False)
class Values:
    """The values of a policy on the nodes and pairs of its graph. Q is NaN for actions that are never taken."""

    graph: HistoryGraph

    @property
    def discount(self) -> float:
        return self.graph.pomdp.discount

    @cached_property
    def V_hs(self) -> Float64[np.ndarray, "pairs"]:
        """V(h, s) (paper, eq. vhs). At open nodes the middle of the bounds is used."""
        return self._backward((self.graph.low + self.graph.high) / 2)

    @cached_property
    def error(self) -> Float64[np.ndarray, "pairs"]:
        """How far V(h, s) can be from the true value, because of open nodes."""
        return self.graph.backward((self.graph.high - self.graph.low) / 2, self.discount)

    @cached_property
    def Q_hsa(self) -> Float64[np.ndarray, "pairs A"]:
        """Q(h, s, a) = R(s, a) + gamma E[V(hao, s')] (paper, eq. qhsa)."""
        return action_values(self.graph, self.V_hs)

    @cached_property
    def V_h(self) -> Float64[np.ndarray, "nodes"]:
        """V(h) by its own recursion over histories (paper, eq. vh).

        In a graph by memory, a node has no belief of its own, and its value is the mean of V(z, s).
        """
        graph = self.graph
        if graph.merged == BY_MEMORY:
            return graph.per_node(graph.belief * self.V_hs)
        beyond = graph.per_node(graph.belief * (graph.low + graph.high) / 2)
        gain = np.where(graph.open, beyond, np.sum(graph.pi * np.nan_to_num(self.R_ha), axis=1))
        P = self._history_chain
        if graph.stationary:
            return solve_chain(P, gain, self.discount)
        V = gain.copy()
        for t in reversed(range(graph.layers - 1)):
            rows = slice(graph.first_node[t], graph.first_node[t + 1])
            V[rows] += self.discount * (P[rows] @ V)
        return V

    @cached_property
    def R_ha(self) -> Float64[np.ndarray, "nodes A"]:
        """R(h, a) = E[R(s, a) | h]; NaN for actions that are never taken."""
        graph, A = self.graph, self.graph.pomdp.actions
        paid = graph.belief[graph.source] * graph.pomdp.probability[graph.outcome] * graph.pomdp.reward[graph.outcome]
        place = graph.node[graph.source].astype(np.int64) * A + graph.action
        total = np.bincount(place, paid, minlength=graph.nodes * A).reshape(-1, A)
        return np.where(graph.pi > 0, total, np.nan)

    @cached_property
    def Q_ha(self) -> Float64[np.ndarray, "nodes A"]:
        """Q(h, a) = R(h, a) + gamma E[V(hao) | h, a] (paper, eq. qha)."""
        graph, A = self.graph, self.graph.pomdp.actions
        if graph.merged == BY_MEMORY:
            return graph.per_node(graph.belief[:, None] * self.Q_hsa)
        on = graph.target >= 0
        source, target = graph.source[on], graph.target[on]
        weight = graph.belief[source] * graph.pomdp.probability[graph.outcome[on]]
        place = graph.node[source].astype(np.int64) * A + graph.action[on]
        later = np.bincount(place, weight * self.V_h[graph.node[target]], minlength=graph.nodes * A)
        return self.R_ha + self.discount * later.reshape(-1, A)

    @cached_property
    def J(self) -> float:
        """The expected return."""
        return float(self.graph.start @ self.V_hs)

    @cached_property
    def J_error(self) -> float:
        """How far the expected return can be from J."""
        return float(self.graph.start @ self.error)

    def _backward(self, boundary: Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "pairs"]:
        return self.graph.backward(self.graph.reward + boundary, self.discount)

    @cached_property
    def _history_chain(self) -> sparse.csr_array:
        """Pr(h' | h) under the policy."""
        graph = self.graph
        on = graph.target >= 0
        source, target = graph.source[on], graph.target[on]
        entries = (graph.belief[source] * graph.probability[on], (graph.node[source], graph.node[target]))
        return sparse.csr_array(entries, shape=(graph.nodes, graph.nodes))


def action_values(graph: HistoryGraph, later: Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "pairs A"]:
    """E[r + gamma x' | h, s, a], where x' is `later` at the next pair; NaN for actions that are never taken."""
    A, pomdp = graph.pomdp.actions, graph.pomdp
    x = np.where(graph.target >= 0, later[graph.target], 0.0)
    gain = pomdp.probability[graph.outcome] * (pomdp.reward[graph.outcome] + pomdp.discount * x)
    place = graph.source.astype(np.int64) * A + graph.action
    Q = np.bincount(place, gain, minlength=graph.pairs * A).reshape(-1, A)
    return np.where(graph.pi[graph.node] > 0, Q, np.nan)


def value_bias(values: Values, critic: Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "nodes"]:
    """E[critic | h] - V(h) at each node; NaN at open nodes."""
    graph = values.graph
    bias = graph.per_node(graph.belief * critic) - values.V_h
    return np.where(graph.open, np.nan, bias)


def state_bounds(pomdp: Pomdp, horizon: int) -> tuple[Float64[np.ndarray, "T1 S"], Float64[np.ndarray, "T1 S"]]:
    """The least and the greatest expected return from each state with k = 0 .. horizon actions left.

    An agent that sees the state can do no better and no worse, so these bound V(h, s) of every policy.
    """
    low, high = np.zeros((horizon + 1, pomdp.states)), np.zeros((horizon + 1, pomdp.states))
    s, a = pomdp.rows()
    for bound, choose in ((low, np.min), (high, np.max)):
        for k in range(1, horizon + 1):
            later = np.where(pomdp.done, 0.0, bound[k - 1][pomdp.next_state])
            gain = pomdp.probability * (pomdp.reward + pomdp.discount * later)
            Q = np.bincount(s * pomdp.actions + a, gain, minlength=pomdp.states * pomdp.actions)
            bound[k] = choose(Q.reshape(pomdp.states, pomdp.actions), axis=1)
    return low, high
