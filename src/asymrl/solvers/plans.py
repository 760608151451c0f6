"""Plans: what to do in each belief with each number of steps to go, found by dynamic programming or by search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int
from scipy import sparse

from asymrl.solvers.beliefgraph import BeliefGraph, Numbering
from asymrl.solvers.search import Search
from asymrl.theory.policies import Controller
from asymrl.worlds.pomdp import Pomdp

TIE = 1e-12  # relative: values that differ by less are equal up to rounding


@dataclass(frozen=True)
class Plan:
    """Nodes that each take one action, and the node that follows (node, action, observation).

    Where a plan names no next node it stays in the same one, so that it repeats its action from there on.
    """

    action: Int[np.ndarray, "Z"]
    first: Int[np.ndarray, "O1"]
    """The node after each first observation, the last entry for the constant symbol; 0 where that is impossible."""
    edges: Int[np.ndarray, "edges 4"]
    actions: int

    def controller(self) -> Controller:
        """The same as a finite-state controller."""
        A, O = self.actions, len(self.first)
        code = (self.edges[:, 0] * A + self.edges[:, 1]) * O + self.edges[:, 2]
        order = np.argsort(code)
        code, target = np.append(code[order], -1), np.append(self.edges[order, 3], -1)

        def follow(z: np.ndarray, a: np.ndarray, o: np.ndarray) -> np.ndarray:
            wanted = (z * A + a) * O + o
            place = np.searchsorted(code[:-1], wanted)
            return np.where(code[place] == wanted, target[place], z)

        return Controller(np.eye(A)[self.action], self.first, follow)


@dataclass(frozen=True)
class Table:
    """The optimal values and actions of all beliefs of a graph; row k is for k steps to go."""

    values: Float64[np.ndarray, "K N"]
    actions: Int[np.ndarray, "K N"]


def backward_induction(graph: BeliefGraph, horizon: int, discount: float) -> Table:
    """V_k(b) = max_a R(b,a) + g sum_o Pr(o|b,a) V_{k-1}(b'). Among equally good actions, those that end sooner win."""
    N, A = graph.rewards.shape
    values, steps = np.zeros((horizon + 1, N)), np.zeros(N)
    actions = np.zeros((horizon + 1, N), np.int32)
    for k in range(1, horizon + 1):
        ahead = (graph.transition @ np.stack([values[k - 1], steps], 1)).reshape(N, A, 2)
        Q = graph.rewards + discount * ahead[..., 0]
        values[k] = Q.max(1)
        ties = (values[k] - TIE * np.maximum(1, np.abs(values[k])))[:, None] <= Q
        length = np.where(ties, 1 + ahead[..., 1], np.inf)
        actions[k] = length.argmin(1)
        steps = length.min(1)
    return Table(values, actions)


def timed_plan(graph: BeliefGraph, table: Table) -> Plan:
    """The optimal plan for a finite horizon: a node for each belief and time that any actions can lead to."""
    horizon = len(table.actions) - 1
    reached, nodes = np.zeros((horizon + 1, len(graph)), bool), np.full((horizon + 1, len(graph)), -1)
    reached[horizon, graph.first_belief] = True
    for k in range(horizon, 0, -1):
        reached[k - 1, graph.following[reached[k][graph.belief]]] = True
    steps, belief = np.nonzero(reached)
    nodes[steps, belief] = np.arange(steps.size)
    edges = []
    for k in range(1, horizon + 1):
        leaving = np.flatnonzero(reached[k][graph.belief])
        z, following = nodes[k][graph.belief[leaving]], nodes[k - 1][graph.following[leaving]]
        edges.append(np.stack([z, graph.action[leaving], graph.observation[leaving], following], 1))
    first = first_nodes(graph.pomdp, graph.first_observation, nodes[horizon][graph.first_belief])
    return Plan(table.actions[steps, belief].astype(int), first, _stacked(edges), graph.pomdp.actions)


def stationary_plan(graph: BeliefGraph, action: Int[np.ndarray, "N"]) -> Plan:
    """One node for each belief, whatever the time."""
    edges = np.stack([graph.belief, graph.action, graph.observation, graph.following], 1)
    first = first_nodes(graph.pomdp, graph.first_observation, graph.first_belief)
    return Plan(action.astype(int), first, edges, graph.pomdp.actions)


def searched_plan(found: Search, blind: Float64[np.ndarray, "K A S"]) -> Plan:
    """The plan that is greedy for the lower bounds; where the search did not look, the best blind action."""
    offset = np.cumsum([0, *map(len, found.levels)])
    actions, edges = [], []
    for k, level in enumerate(found.levels):
        greedy = (level.beliefs @ blind[k].T).argmax(1)
        if level.expanded.any():
            below = found.levels[k - 1]
            greedy = np.where(level.expanded, level.q(below.lower, found.discount).argmax(1), greedy)
            z, following = level.belief + offset[k], level.following + offset[k - 1]
            edges.append(np.stack([z, level.action, level.observation, following], 1))
        actions.append(greedy)
    first = first_nodes(found.pomdp, found.first.observation, found.first_belief + offset[-2])
    return Plan(np.concatenate(actions), first, _stacked(edges), found.pomdp.actions)


def without_time(plan: Plan, found: Search) -> Plan:
    """Merges the nodes of equal beliefs into the one with the most steps to go that was expanded."""
    expanded = np.concatenate([level.expanded for level in found.levels])
    beliefs = sparse.csr_array(sparse.vstack([level.beliefs for level in found.levels], "csr"))
    order = np.concatenate([np.flatnonzero(expanded)[::-1], np.flatnonzero(~expanded)])
    number, kept = Numbering().add(beliefs[order])
    merged = np.empty_like(number)
    merged[order] = number
    leaving = np.isin(plan.edges[:, 0], order[kept])
    edges = plan.edges[leaving]
    edges[:, 0], edges[:, 3] = merged[edges[:, 0]], merged[edges[:, 3]]
    return Plan(plan.action[order[kept]], merged[plan.first], edges, plan.actions)


def first_nodes(pomdp: Pomdp, seen: Int[np.ndarray, "F"], node: Int[np.ndarray, "F"]) -> Int[np.ndarray, "O1"]:
    """The node after each first observation, as a plan wants it."""
    first = np.zeros(pomdp.observations + 1, int)
    first[seen] = node
    return first


def _stacked(edges: Sequence[Int[np.ndarray, "_ 4"]]) -> Int[np.ndarray, "edges 4"]:
    return np.concatenate(edges) if edges else np.zeros((0, 4), int)
