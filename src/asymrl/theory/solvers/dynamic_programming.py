"""Dynamic programming over all reachable beliefs, and plans as finite-state controllers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int
from scipy import sparse
from scipy.sparse import linalg

from asymrl.theory.exact.policies import Controller
from asymrl.theory.solvers.belief_mdp import BeliefGraph
from asymrl.worlds.pomdp import Pomdp

TIE = 1e-12  # relative: values that differ by less are equal up to rounding


@dataclass(frozen=True)
class Plan:
    """A deterministic controller: an action for each node, and edges (node, action, observation, next node).

    Without an edge a plan stays in its node and repeats the action.
    """

    action: Int[np.ndarray, "Z"]
    first: Int[np.ndarray, "O1"]
    """The node after each first observation; the last entry is for the constant symbol; 0 where impossible."""
    edges: Int[np.ndarray, "edges 4"]
    actions: int

    def controller(self) -> Controller:
        """The plan as a policy."""
        A, O = self.actions, len(self.first)
        code = (self.edges[:, 0] * A + self.edges[:, 1]) * O + self.edges[:, 2]
        order = np.argsort(code)
        code, target = np.append(code[order], -1), np.append(self.edges[order, 3], -1)

        def follow(z: np.ndarray, a: np.ndarray, o: np.ndarray) -> np.ndarray:
            edge = (z * A + a) * O + o
            index = np.searchsorted(code[:-1], edge)
            return np.where(code[index] == edge, target[index], z)

        return Controller(np.eye(A)[self.action], self.first, follow)


@dataclass(frozen=True)
class ValueTable:
    """Optimal values and actions of all beliefs of a graph; row k is for k steps to go."""

    values: Float64[np.ndarray, "K N"]
    actions: Int[np.ndarray, "K N"]


def backward_induction(graph: BeliefGraph, horizon: int, discount: float) -> ValueTable:
    """V_k(b) = max_a R(b,a) + g sum_o Pr(o|b,a) V_{k-1}(b'). Ties go to the action that ends the episode sooner."""
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
    return ValueTable(values, actions)


def policy_iteration(graph: BeliefGraph, discount: float) -> tuple[Int[np.ndarray, "N"], Float64[np.ndarray, "N"]]:
    """The best action of each belief and its value without a horizon, by Howard's policy iteration, which is exact."""
    N, A = graph.rewards.shape
    row, action = np.arange(N), graph.rewards.argmax(1)
    while True:
        chain = sparse.identity(N, format="csc") - discount * graph.transition[row * A + action].tocsc()
        values = np.asarray(linalg.spsolve(chain, graph.rewards[row, action]))
        Q = graph.rewards + discount * (graph.transition @ values).reshape(N, A)
        # Rounding must not make the iteration cycle between equally good actions.
        better = Q.max(1) > Q[row, action] + 1e3 * TIE * np.maximum(1, np.abs(values))
        if not better.any():
            return action, values
        action = np.where(better, Q.argmax(1), action)


def timed_plan(graph: BeliefGraph, table: ValueTable) -> Plan:
    """The optimal plan for a finite horizon: a node for each reachable belief and time."""
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
    return Plan(table.actions[steps, belief].astype(int), first, stacked_edges(edges), graph.pomdp.actions)


def stationary_plan(graph: BeliefGraph, action: Int[np.ndarray, "N"]) -> Plan:
    """A plan with one node for each belief, at all times."""
    edges = np.stack([graph.belief, graph.action, graph.observation, graph.following], 1)
    first = first_nodes(graph.pomdp, graph.first_observation, graph.first_belief)
    return Plan(action.astype(int), first, edges, graph.pomdp.actions)


def first_nodes(pomdp: Pomdp, observation: Int[np.ndarray, "F"], node: Int[np.ndarray, "F"]) -> Int[np.ndarray, "O1"]:
    """`Plan.first`, from the node after each possible first observation."""
    first = np.zeros(pomdp.observations + 1, int)
    first[observation] = node
    return first


def stacked_edges(edges: Sequence[Int[np.ndarray, "_ 4"]]) -> Int[np.ndarray, "edges 4"]:
    return np.concatenate(edges) if edges else np.zeros((0, 4), int)
