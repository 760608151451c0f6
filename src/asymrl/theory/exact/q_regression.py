"""Regression of action values on a replay: each step's weight, and targets that read the history."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float64, Int

from asymrl.theory.exact.history_graph import HistoryGraph

STEPS = "steps"  # a loss that is a sum over the steps of the replay
EPISODES = "episodes"  # a loss that averages over each episode's steps, then over episodes, as in the authors' program
TIE = 1e-10  # relative: actions whose values differ by less are equally good up to rounding


def greedy_actions(Q: Float64[np.ndarray, "n A"]) -> Int[np.ndarray, "n"]:
    """The best action of each row; the first one in a tie."""
    best = np.ascontiguousarray(Q.T).max(axis=0)  # four times faster than along the short axis
    return np.argmax((best - TIE * np.maximum(1.0, np.abs(best)))[:, None] <= Q, axis=1)


@dataclass(frozen=True, eq=False)
class Regression:
    """Weighted least squares on everything that a policy puts into an endless replay, in a graph with a horizon.

    A table that is regressed to targets becomes their weighted mean in each of its cells.
    """

    graph: HistoryGraph
    weighting: str = STEPS

    @cached_property
    def rewards(self) -> Float64[np.ndarray, "edges"]:
        return self.graph.pomdp.reward[self.graph.outcome]

    @cached_property
    def weight(self) -> Float64[np.ndarray, "edges"]:
        """The weight of each transition: its probability; with EPISODES, times E[1 / length of the episode]."""
        graph = self.graph
        return graph.mass[graph.source] * graph.probability * self._share

    @cached_property
    def weight_of_pair(self) -> Float64[np.ndarray, "pairs"]:
        """The weight of each (h, s), summed over the actions that follow."""
        return np.bincount(self.graph.source, self.weight, minlength=self.graph.pairs)

    @cached_property
    def share_in_node(self) -> sparse.csr_array:
        """The weight of each pair within its node: Pr(s | h) if steps count the same."""
        graph = self.graph
        share = self.weight_of_pair / graph.per_node(self.weight_of_pair)[graph.node]
        return sparse.csr_array((share, (graph.node, np.arange(graph.pairs))), shape=(graph.nodes, graph.pairs))

    @cached_property
    def _share(self) -> Float64[np.ndarray, "edges"]:
        """How much one step counts: 1, or the expected 1 / length of an episode with this transition."""
        graph = self.graph
        if self.weighting == STEPS:
            return np.ones(len(graph.source))
        at_end = 1.0 / (graph.time[graph.node[graph.source]] + 1.0)
        ends = np.where(graph.target < 0, graph.probability * at_end, 0.0)
        expected = graph.backward(np.bincount(graph.source, ends, minlength=graph.pairs), 1.0)
        return np.where(graph.target < 0, at_end, expected[graph.target])

    def edges_of(self, t: int) -> slice:
        """The transitions of a time step."""
        first, last = np.searchsorted(self.graph.source, self.graph.first_pair[t : t + 2])
        return slice(int(first), int(last))

    def cell_means(
        self, edges: slice, cell: Int[np.ndarray, "edges"], cells: int, target: Float64[np.ndarray, "edges"]
    ) -> Float64[np.ndarray, "cells"]:
        """The weighted mean of targets in each cell; NaN in cells that are never visited."""
        weight = self.weight[edges]
        total = np.bincount(cell, weight, minlength=cells)
        mean = np.bincount(cell, weight * target, minlength=cells)
        return np.divide(mean, total, out=np.full(cells, np.nan), where=total > 0)


def history_fixed_point(
    regression: Regression, *, privileged: bool, short: bool, reduced: bool
) -> tuple[Float64[np.ndarray, "nodes A"], Float64[np.ndarray, "pairs A"] | None]:
    """The fixed point of Q(h, a) and, if `privileged`, of Q(h, s, a).

    Targets at one time need values at the next one only, so one pass backward in time gives it exactly; there is one
    fixed point.

    Args:
        regression: the replay.
        privileged: learn Q(h, s, a), and Q(h, a) from it; otherwise Q(h, a) alone.
        short: Q(h, s, a) bootstraps from max_a Q(h', a) instead of from itself.
        reduced: Q(h, a) is regressed to Q(h, s, a) for all actions, instead of to r + gamma Q(h', s', a*).
    """
    graph = regression.graph
    A, gamma = graph.pomdp.actions, graph.pomdp.discount
    Q_h, greedy = np.zeros((graph.nodes, A)), np.zeros(graph.nodes, int)
    Q_hs = np.zeros((graph.pairs, A)) if privileged else None
    for t in reversed(range(graph.layers)):
        edges = regression.edges_of(t)
        nodes, pairs = (slice(first[t], first[t + 1]) for first in (graph.first_node, graph.first_pair))
        to, source, action = graph.target[edges], graph.source[edges], graph.action[edges]
        a = greedy[graph.node[to]]

        def targets(later: np.ndarray, edges: slice = edges, to: np.ndarray = to) -> np.ndarray:
            return regression.rewards[edges] + gamma * np.where(to >= 0, later, 0.0)

        from_history = targets(Q_h[graph.node[to], a])
        from_both = from_history if Q_hs is None else targets(Q_hs[to, a])
        if Q_hs is not None:
            cell = (source.astype(np.int64) - pairs.start) * A + action
            size = (pairs.stop - pairs.start) * A
            learned = regression.cell_means(edges, cell, size, from_history if short else from_both)
            Q_hs[pairs] = learned.reshape(-1, A)
        if Q_hs is not None and reduced:
            Q_h[nodes] = regression.share_in_node[nodes, pairs] @ Q_hs[pairs]
        else:
            cell = (graph.node[source].astype(np.int64) - nodes.start) * A + action
            size = (nodes.stop - nodes.start) * A
            Q_h[nodes] = regression.cell_means(edges, cell, size, from_both).reshape(-1, A)
        greedy[nodes] = greedy_actions(Q_h[nodes])
    return Q_h, Q_hs
