"""Is V(s) well defined? Checks the paper's conditions (section "Reactive Policy under Partial Observability").

V(s) needs Pr(a | s) to be the same after every history and at every time. It is if the policy is reactive and its
observation in a state does not depend on how the state was reached. Both are checked on the possible histories.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float64, Int
from scipy.sparse.linalg import spsolve

from asymrl.theory.exact.histories import describe
from asymrl.theory.exact.history_graph import HistoryGraph

SAME = 1e-9  # probabilities that differ by less count as equal


@dataclass(frozen=True)
class Condition:
    """A condition, whether it holds and, if not, where it fails."""

    name: str
    holds: bool
    explanation: str


@dataclass(frozen=True, eq=False)
class StateValue:
    """V(s), if it is well defined, and the conditions that decide it."""

    conditions: tuple[Condition, ...]
    V: Float64[np.ndarray, "S"] | None
    """NaN at states that are never visited; None if V(s) is not well defined."""

    @property
    def well_defined(self) -> bool:
        return self.V is not None

    @property
    def explanation(self) -> str:
        """Why V(s) is not well defined, or that it is."""
        failed = [condition.explanation for condition in self.conditions if not condition.holds]
        return (
            " ".join(failed) if failed else "V(s) is well defined: " + "; ".join(c.name for c in self.conditions) + "."
        )


def state_value(graph: HistoryGraph) -> StateValue:
    """Checks the conditions, and computes V(s) if they hold."""
    reactive, acts = _reactive(graph)
    conditions = [reactive]
    pi_s = np.full((graph.pomdp.states, graph.pomdp.actions), np.nan)
    if reactive.holds:
        sees, pi_s = _same_everywhere(graph, acts)
        conditions.append(sees)
    conditions.append(_timeless(graph))
    if not all(condition.holds for condition in conditions):
        return StateValue(tuple(conditions), None)
    return StateValue(tuple(conditions), _solved(graph, pi_s))


def _arrivals(graph: HistoryGraph) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
    """All arrivals at a node where the agent acts: the last observation, the node, and the edge (-1: the start)."""
    on = np.flatnonzero((graph.target >= 0) & graph.acting[graph.target])
    begins = np.flatnonzero((graph.start > 0) & graph.acting)
    first = graph.parent_observation[graph.node[begins]]
    observation = np.concatenate(
        [graph.pomdp.observation[graph.outcome[on]], np.where(first < 0, graph.pomdp.observations, first)]
    )
    node = np.concatenate([graph.node[graph.target[on]], graph.node[begins]])
    return observation, node, np.concatenate([on, np.full(len(begins), -1)])


def _reactive(graph: HistoryGraph) -> tuple[Condition, Float64[np.ndarray, "O1 A"]]:
    """Whether pi(a; h) is a function of the last observation, and that function."""
    name = "the policy is reactive"
    observation, node, edge = _arrivals(graph)
    acts = np.full((graph.pomdp.observations + 1, graph.pomdp.actions), np.nan)
    first = np.full(len(acts), -1)  # the first arrival with each observation
    first[observation[::-1]] = np.arange(len(observation))[::-1]
    acts[first >= 0] = graph.pi[node[first[first >= 0]]]
    apart = np.abs(graph.pi[node] - acts[observation]).max(1, initial=0.0)
    if not apart.size or apart.max() <= SAME:
        return Condition(name, True, ""), acts
    worst = int(apart.argmax())
    o = graph.pomdp.name_of_observation(int(observation[worst]))
    one, other = (_words(graph, int(node[i]), int(edge[i])) for i in (first[observation[worst]], worst))
    why = (
        f"The policy remembers more than the last observation: after {o!r} it acts differently in [{one}] and "
        f"[{other}], so Pr(a | s) depends on the history and V(s) is not well defined."
    )
    return Condition(name, False, why), acts


def _words(graph: HistoryGraph, node: int, edge: int) -> str:
    """A history that reaches a node by this edge, in words."""
    if edge < 0:
        return describe(graph.pomdp, graph.history(node))
    last = (int(graph.action[edge]), int(graph.pomdp.observation[graph.outcome[edge]]))
    return describe(graph.pomdp, (*graph.history(int(graph.node[graph.source[edge]])), last))


def _same_everywhere(
    graph: HistoryGraph, acts: Float64[np.ndarray, "O1 A"]
) -> tuple[Condition, Float64[np.ndarray, "S A"]]:
    """Whether Pr(a | s) is the same however the agent reached s, and Pr(a | s)."""
    pomdp, name = graph.pomdp, "what it does in a state does not depend on how it came there"
    S, A = pomdp.states, pomdp.actions
    on = np.flatnonzero((graph.target >= 0) & graph.acting[graph.target])
    k = np.unique(graph.outcome[on])
    s, a = pomdp.rows()
    way, group = np.unique((s[k] * A + a[k]) * S + pomdp.next_state[k], return_inverse=True)
    weight = np.bincount(group, pomdp.probability[k])
    does = np.zeros((len(way), A))
    np.add.at(does, group, pomdp.probability[k, None] * acts[pomdp.observation[k]])
    does, to = does / weight[:, None], way % S
    start, at_start = _at_the_start(graph, acts)
    does, to = np.concatenate([at_start, does]), np.concatenate([start, to])
    pi_s = np.full((S, A), np.nan)
    pi_s[to[::-1]] = does[::-1]
    apart = np.abs(does - pi_s[to]).max(1, initial=0.0)
    if not apart.size or apart.max() <= SAME:
        return Condition(name, True, ""), pi_s
    state = pomdp.state_names[to[int(apart.argmax())]]
    at_first = int(to[int(apart.argmax())]) in start
    why = (
        f"What the agent sees in state {state!r}, and so what it does there, depends on how it came there"
        + (" (it is different at the start)" if at_first else "")
        + ", so Pr(a | s) changes with time and V(s) is not well defined."
    )
    return Condition(name, False, why), pi_s


def _at_the_start(
    graph: HistoryGraph, acts: Float64[np.ndarray, "O1 A"]
) -> tuple[Int[np.ndarray, "n"], Float64[np.ndarray, "n A"]]:
    pomdp = graph.pomdp
    states = np.flatnonzero(pomdp.start)
    if pomdp.first_observation is None:
        return states, np.tile(acts[-1], (len(states), 1))
    return states, pomdp.first_observation[states] @ np.nan_to_num(acts[:-1])


def _timeless(graph: HistoryGraph) -> Condition:
    """Whether the remaining time has no influence."""
    name = "no time limit ends episodes"
    if graph.stationary:
        return Condition(name, True, "")
    cut = (graph.target < 0) & ~graph.pomdp.done[graph.outcome]
    share = float(np.sum(graph.mass[graph.source[cut]] * graph.probability[cut]))
    if share <= SAME:
        return Condition(name, True, "")
    why = (
        f"The time limit of {graph.horizon} ends {100 * share:.3g} % of the episodes, so the return from a state "
        f"depends on the time left and V(s) is not well defined."
    )
    return Condition(name, False, why)


def _solved(graph: HistoryGraph, pi_s: Float64[np.ndarray, "S A"]) -> Float64[np.ndarray, "S"]:
    """V(s) = sum_a Pr(a | s) (R(s, a) + gamma E[V(s')]) (paper, eq. vs and qsa)."""
    pomdp = graph.pomdp
    visited = ~np.isnan(pi_s[:, 0])
    s, a = pomdp.rows()
    chance = np.nan_to_num(pi_s)[s, a] * pomdp.probability
    on = ~pomdp.done & visited[s]
    P = sparse.csr_array((chance[on], (s[on], pomdp.next_state[on])), shape=(pomdp.states,) * 2)
    R = np.bincount(s, chance * pomdp.reward, minlength=pomdp.states)
    V = np.asarray(spsolve(sparse.csc_array(sparse.eye_array(pomdp.states) - pomdp.discount * P), R))
    return np.where(visited, V, np.nan)
