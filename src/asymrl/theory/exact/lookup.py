"""Values at a single history, including histories that the policy never reaches or that were not followed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from asymrl.theory.exact.beliefs import begin_history, belief_of
from asymrl.theory.exact.following import follow
from asymrl.theory.exact.histories import History, describe
from asymrl.theory.exact.history_graph import HistoryGraph
from asymrl.theory.exact.policies import HistoryPolicy
from asymrl.theory.exact.time_layers import Root
from asymrl.theory.exact.values import Values


class HistoryValues(NamedTuple):
    """The values at a history, for all states; NaN where the state is impossible."""

    V: Float64[np.ndarray, "S"]
    Q: Float64[np.ndarray, "S A"]
    """NaN also where the policy does not take the action."""
    error: Float64[np.ndarray, "S"]
    """How far V can be from the true value."""


@dataclass(frozen=True, eq=False)
class Lookup:
    """Looks up histories in the graph of a policy; from a history that is not in it, follows the policy anew."""

    graph: HistoryGraph
    values: Values
    policy: HistoryPolicy
    horizon: float
    options: dict[str, Any]
    """The options with which the policy was followed; see `asymrl.theory.exact.following.follow`."""

    def at(self, h: History) -> HistoryValues:
        """The values at a history. Raises ValueError if it is impossible, or longer than the horizon."""
        pomdp, length = self.graph.pomdp, self._length(h)
        over = length >= self.horizon if self.options["truncation"] == "end" else length > self.horizon
        if over:
            raise ValueError(f"{pomdp.name}: the history has {length} actions, the horizon is {self.horizon:g}")
        belief = belief_of(pomdp, h)
        node = self.graph.find(h)
        if node is not None and not self.graph.open[node]:
            return _values_at(self.graph, self.values, node)
        graph = self._follow_from(h, belief)
        return _values_at(graph, Values(graph), 0)

    def memory(self, h: History) -> Any:
        """The policy's memory after a history."""
        pomdp = self.graph.pomdp
        _, rest = begin_history(pomdp, h)
        first = h[0][1] if pomdp.first_observation is not None else pomdp.observations
        memory, row = self.policy.begin(np.array([first])), np.array([0])
        for a, o in rest:
            memory = self.policy.advance(memory, row, np.array([a]), np.array([o]))
        return memory

    def mean(self, h: History, s: int | None, x: Float64[np.ndarray, "S"]) -> float:
        """E[x(s) | h], or x in one state. Raises ValueError if that is impossible after the history."""
        pomdp, belief = self.graph.pomdp, belief_of(self.graph.pomdp, h)
        if s is None:
            possible = belief > 0
            return float(belief[possible] @ x[possible])
        if not 0 <= s < pomdp.states or not belief[s] > 0:
            raise ValueError(f"{pomdp.name}: state {s} is impossible after {describe(pomdp, h)}")
        return float(x[s])

    def untaken(self, h: History, a: int) -> Float64[np.ndarray, "S"]:
        """Q(h, s, a) of an action that the policy does not take after h."""
        pomdp, belief = self.graph.pomdp, belief_of(self.graph.pomdp, h)
        Q = np.full(pomdp.states, np.nan)
        later: dict[int, np.ndarray] = {}
        last = self._length(h) + 1 >= self.horizon and self.options["truncation"] == "end"
        for s in np.flatnonzero(belief):
            Q[s] = 0.0
            for k in range(int(pomdp.first[s * pomdp.actions + a]), int(pomdp.first[s * pomdp.actions + a + 1])):
                o, value = int(pomdp.observation[k]), 0.0
                if not pomdp.done[k] and not last:
                    if o not in later:
                        later[o] = self.at((*h, (a, o))).V
                    value = later[o][pomdp.next_state[k]]
                Q[s] += pomdp.probability[k] * (pomdp.reward[k] + pomdp.discount * value)
        return Q

    def _follow_from(self, h: History, belief: Float64[np.ndarray, "S"]) -> HistoryGraph:
        """The graph of the policy from this history on."""
        state = np.flatnonzero(belief)
        root = Root(self.memory(h), np.array([-1]), np.zeros(len(state), int), state, belief[state])
        remaining = self.horizon - self._length(h)
        if remaining < 1:
            return follow(self.graph.pomdp, self.policy, math.inf, root=root)
        return follow(self.graph.pomdp, self.policy, remaining, root=root, **{**self.options, "mass": 1.0})

    def _length(self, h: History) -> int:
        """The number of actions of a history."""
        return len(begin_history(self.graph.pomdp, h)[1])


def _values_at(graph: HistoryGraph, values: Values, node: int) -> HistoryValues:
    S, A, pairs = graph.pomdp.states, graph.pomdp.actions, graph.pairs_of(node)
    at = HistoryValues(np.full(S, np.nan), np.full((S, A), np.nan), np.full(S, np.nan))
    states = graph.state[pairs]
    at.V[states], at.Q[states], at.error[states] = values.V_hs[pairs], values.Q_hsa[pairs], values.error[pairs]
    return at
