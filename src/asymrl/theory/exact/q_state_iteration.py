"""Learning with Q(s, a) and the greedy actions of Q(h, a), target copy by target copy, until it settles or repeats.

Q(s, a) is regressed to r + gamma Q(s', a*) with a* = argmax_a Q(h', a). The maximum is taken by a different network
from the one that is learned, so the iteration is not a contraction: it may end in a fixed point, or in a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float64, Int
from scipy.sparse.linalg import splu

from asymrl.theory.exact.q_regression import Regression, greedy_actions

COPIES = 3_000  # target copies, after which the iteration gives up
STABLE = 20  # copies with the same greedy actions, after which these are tried as the final ones
LONGEST_CYCLE = 100
TOLERANCE = 1e-9  # relative: tables that differ by less are the same


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
