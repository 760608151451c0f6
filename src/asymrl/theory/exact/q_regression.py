"""Regression of action values on a replay, and where it ends with tables of each kind.

Where targets read the history, one pass backward in time gives the fixed point. Q(s, a) is regressed to
r + gamma Q(s', a*) with a* = argmax_a Q(h', a). The maximum is taken by a different network from the one that is
learned, so the iteration, target copy by target copy, is not a contraction: it may end in a fixed point or in a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float64, Int
from scipy.sparse.linalg import splu

from asymrl.theory.exact.history_graph import HistoryGraph

STEPS = "steps"  # a loss that is a sum over the steps of the replay
EPISODES = "episodes"  # a loss that averages over each episode's steps, then over episodes, as in the authors' program
TIE = 1e-10  # relative: actions whose values differ by less are equally good up to rounding
COPIES = 3_000  # target copies, after which the iteration gives up
STABLE = 20  # copies with the same greedy actions, after which these are tried as the final ones
LONGEST_CYCLE = 100
TOLERANCE = 1e-9  # relative: tables that differ by less are the same


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


class StateIteration(NamedTuple):
    """Where the iteration ends."""

    Q_h: Float64[np.ndarray, "nodes A"]
    Q_s: Float64[np.ndarray, "rows A"]
    """A row for each state; if timed, T x S rows. NaN where a state or an action is never visited."""
    period: int
    """1: a fixed point; above 1: the number of target copies after which the tables repeat; 0: neither was reached."""
    last: list[Float64[np.ndarray, "nodes A"]]
    """Q(h, a) after each of the last copies: one fixed point, one cycle, or the last 100."""


def iterate_state_values(
    regression: Regression, *, reduced: bool, timed: bool, start: tuple[np.ndarray, np.ndarray] | None = None
) -> StateIteration:
    """Regresses both tables to frozen copies of themselves, again and again.

    Args:
        regression: the replay.
        reduced: Q(h, a) is regressed to Q(s, a) for all actions, instead of to r + gamma Q(s', a*).
        timed: Q(s, a) also reads the time. Targets then need later values only, and there is one fixed point.
        start: Q(h, a) and Q(s, a) where another iteration ended; zeros by default.
    """
    tables, unchanged = _Tables(regression, reduced, timed), 0
    greedy = np.zeros(regression.graph.nodes, int) if start is None else greedy_actions(start[0])
    recent = [np.zeros(tables.cells) if start is None else np.nan_to_num(start[1]).reshape(-1)]
    for copy in range(1, COPIES + 1):
        Q_h, Q_s = tables.learned(recent[-1], greedy)
        following = greedy_actions(Q_h)
        unchanged = unchanged + 1 if np.array_equal(following, greedy) else 0
        greedy = following
        if unchanged == STABLE:
            fixed = tables.solved(greedy)
            Q_h, _ = tables.learned(fixed, greedy)
            if np.array_equal(greedy_actions(Q_h), greedy):
                return StateIteration(Q_h, tables.shaped(fixed), 1, [Q_h])
        recent = [*recent[-LONGEST_CYCLE:], Q_s]
        if copy % LONGEST_CYCLE == 0 and (period := _period(recent)):
            return _followed(tables, Q_s, greedy, period, period)
    return _followed(tables, recent[-1], greedy, LONGEST_CYCLE, 0)


def _period(recent: list[np.ndarray]) -> int:
    """The number of copies since the last table occurred before; 0 if it did not."""
    last = recent[-1]
    scale = TOLERANCE * max(1.0, float(np.abs(last).max()))
    for period in range(1, len(recent)):
        if np.abs(recent[-1 - period] - last).max() <= scale:
            return period
    return 0


def _followed(tables: _Tables, Q_s: np.ndarray, greedy: np.ndarray, copies: int, period: int) -> StateIteration:
    """Iterates some more copies, to see how Q(h, a) still changes."""
    last = []
    for _ in range(copies):
        Q_h, Q_s = tables.learned(Q_s, greedy)
        greedy = greedy_actions(Q_h)
        last.append(Q_h)
    return StateIteration(last[-1], tables.shaped(Q_s), period, last)


@dataclass(frozen=True, eq=False)
class _Tables:
    """The cells of both tables. Q(s, a) is a flat array, with cell (t S + s) A + a if it is timed."""

    regression: Regression
    reduced: bool
    timed: bool

    @property
    def actions(self) -> int:
        return self.regression.graph.pomdp.actions

    @property
    def cells(self) -> int:
        graph = self.regression.graph
        return (graph.layers if self.timed else 1) * graph.pomdp.states * self.actions

    @cached_property
    def row(self) -> Int[np.ndarray, "pairs"]:
        """The row of Q(s, a) that each pair reads."""
        graph = self.regression.graph
        time = graph.time[graph.node].astype(np.int64) if self.timed else 0
        return time * graph.pomdp.states + graph.state

    @cached_property
    def cell(self) -> Int[np.ndarray, "edges"]:
        """The cell of Q(s, a) that each transition updates."""
        graph = self.regression.graph
        return self.row[graph.source] * self.actions + graph.action

    @cached_property
    def history_cell(self) -> Int[np.ndarray, "edges"]:
        graph = self.regression.graph
        return graph.node[graph.source].astype(np.int64) * self.actions + graph.action

    @cached_property
    def share(self) -> Float64[np.ndarray, "edges"]:
        """The weight of each transition in its cell of Q(s, a)."""
        return self._shares(self.cell, self.cells)

    @cached_property
    def history_share(self) -> Float64[np.ndarray, "edges"]:
        return self._shares(self.history_cell, self.regression.graph.nodes * self.actions)

    def _shares(self, cell: Int[np.ndarray, "edges"], cells: int) -> Float64[np.ndarray, "edges"]:
        weight = self.regression.weight
        return weight / np.bincount(cell, weight, minlength=cells)[cell]

    @cached_property
    def discounts(self) -> Float64[np.ndarray, "edges"]:
        """The discount of what follows a transition; 0 where the episode ends."""
        graph = self.regression.graph
        return np.where(graph.target >= 0, graph.pomdp.discount, 0.0)

    @cached_property
    def following(self) -> tuple[Int[np.ndarray, "edges"], Int[np.ndarray, "edges"]]:
        """The node after each transition, and its first cell of Q(s, a); arbitrary where the episode ends."""
        graph = self.regression.graph
        return graph.node[graph.target].astype(np.intp), self.row[graph.target] * self.actions

    def _read_cell(self, greedy: Int[np.ndarray, "nodes"]) -> Int[np.ndarray, "edges"]:
        """The cell of Q(s, a) that the target of each transition reads."""
        node, first = self.following
        return first + greedy[node]

    def learned(
        self, Q_s: Float64[np.ndarray, "cells"], greedy: Int[np.ndarray, "nodes"]
    ) -> tuple[Float64[np.ndarray, "nodes A"], Float64[np.ndarray, "cells"]]:
        """Q(h, a) and Q(s, a) after regression to targets from this frozen Q(s, a) and these a*."""
        graph, regression = self.regression.graph, self.regression
        target = regression.rewards + self.discounts * Q_s[self._read_cell(greedy)]
        following = np.bincount(self.cell, self.share * target, minlength=self.cells)
        if self.reduced:
            return regression.share_in_node @ Q_s.reshape(-1, self.actions)[self.row], following
        size = graph.nodes * self.actions
        Q_h = np.bincount(self.history_cell, self.history_share * target, minlength=size)
        return Q_h.reshape(-1, self.actions), following

    def solved(self, greedy: Int[np.ndarray, "nodes"]) -> Float64[np.ndarray, "cells"]:
        """The Q(s, a) that is its own target, for these a*."""
        entries = (self.discounts * self.share, (self.cell, self._read_cell(greedy)))
        chain = sparse.csc_array(entries, shape=(self.cells, self.cells))
        reward = np.bincount(self.cell, self.share * self.regression.rewards, minlength=self.cells)
        return splu(sparse.csc_array(sparse.eye_array(self.cells) - chain)).solve(reward)

    def shaped(self, Q_s: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "rows A"]:
        visited = np.bincount(self.cell, minlength=self.cells) > 0
        return np.where(visited, Q_s, np.nan).reshape(-1, self.actions)
