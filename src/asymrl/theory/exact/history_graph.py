"""A policy followed through a POMDP, as a graph. Every exact result is a sum over it.

Nodes are histories, or classes of equivalent histories; pairs are (node, state); edges are outcomes. An unrolled graph
has one layer for each time step; a stationary graph has no time.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Bool, Float64, Int
from scipy.sparse.linalg import spsolve

from asymrl.theory.exact.beliefs import begin_history
from asymrl.theory.exact.histories import History
from asymrl.worlds.pomdp import Pomdp

BY_BELIEF = "belief"  # histories with equal belief and policy memory are one node
BY_HISTORY = "history"  # every history is a node of its own
BY_MEMORY = "memory"  # histories with equal policy memory are one node: the product chain (z, s)
LARGE = 20_000  # rows; factors may fill in: those for 170 444 pairs of 4x5x2 took more than 116 CPU seconds
MOST_TERMS = 10_000  # of the series: enough up to a discount of 0.995
PRECISION = 1e-14


@dataclass(frozen=True, eq=False)
class HistoryGraph:
    """All histories, states and outcomes under a policy.

    The rows of a layer are contiguous; a stationary graph is one layer with edges to itself.
    """

    pomdp: Pomdp
    merged: str
    """What two histories must share to be one node: "history", "belief" or "memory"."""
    horizon: int | None
    """The largest number of actions; None: no limit."""
    pi: Float64[np.ndarray, "nodes A"]
    parameter: Int[np.ndarray, "nodes"]
    """Which row of the policy's table a node reads; nodes with equal numbers share their probabilities."""
    time: Int[np.ndarray, "nodes"]
    parent: Int[np.ndarray, "nodes"]
    parent_action: Int[np.ndarray, "nodes"]
    parent_observation: Int[np.ndarray, "nodes"]
    """The previous node, the action and the observation; followed back, they give the node's likeliest history."""
    open: Bool[np.ndarray, "nodes"]
    """Nodes that were not expanded; the values of their pairs are between `low` and `high`."""
    node: Int[np.ndarray, "pairs"]
    state: Int[np.ndarray, "pairs"]
    start: Float64[np.ndarray, "pairs"]
    """The probability that an episode starts in a pair."""
    low: Float64[np.ndarray, "pairs"]
    high: Float64[np.ndarray, "pairs"]
    source: Int[np.ndarray, "edges"]
    outcome: Int[np.ndarray, "edges"]
    target: Int[np.ndarray, "edges"]
    """Pair, outcome and next pair; -1 where the episode ends."""
    first_node: Int[np.ndarray, "layers1"]
    first_pair: Int[np.ndarray, "layers1"]
    end_memory: Any = None
    """What the policy remembers in the nodes of the last layer, if they are open because the horizon is reached."""

    @property
    def nodes(self) -> int:
        return len(self.pi)

    @property
    def pairs(self) -> int:
        return len(self.node)

    @property
    def layers(self) -> int:
        return len(self.first_pair) - 1

    @property
    def stationary(self) -> bool:
        return self.horizon is None and self.layers == 1

    @cached_property
    def action(self) -> Int[np.ndarray, "edges"]:
        return self.pomdp.rows()[1].astype(np.int32)[self.outcome]

    @cached_property
    def probability(self) -> Float64[np.ndarray, "edges"]:
        """The probability of an edge given its pair: pi(a; h) times the probability of the outcome."""
        return self.pi[self.node[self.source], self.action] * self.pomdp.probability[self.outcome]

    @cached_property
    def P(self) -> sparse.csr_array:
        """Pr(next pair | pair) under the policy."""
        on = self.target >= 0
        if np.all(np.diff(self.source) >= 0):  # true of unrolled graphs; saves memory and time
            first = np.concatenate([[0], np.cumsum(np.bincount(self.source[on], minlength=self.pairs))])
            rows = (self.probability[on], self.target[on], first.astype(np.int32))
            return sparse.csr_array(rows, shape=(self.pairs, self.pairs))
        entries = (self.probability[on], (self.source[on], self.target[on]))
        return sparse.csr_array(entries, shape=(self.pairs, self.pairs))

    @cached_property
    def layer_P(self) -> list[sparse.csr_array]:
        """The rows of P that belong to each layer, as views of it."""
        P, layers = self.P, []
        for low, high in itertools.pairwise(self.first_pair.tolist()):
            begin, end = P.indptr[low], P.indptr[high]
            rows = (P.data[begin:end], P.indices[begin:end], P.indptr[low : high + 1] - begin)
            layers.append(sparse.csr_array(rows, shape=(high - low, self.pairs)))
        return layers

    @cached_property
    def reward(self) -> Float64[np.ndarray, "pairs"]:
        """The expected next reward of each pair."""
        paid = self.probability * self.pomdp.reward[self.outcome]
        return np.bincount(self.source, paid, minlength=self.pairs)

    def backward(self, gain: Float64[np.ndarray, "pairs *more"], discount: float) -> Float64[np.ndarray, "pairs *more"]:
        """Solves x = gain + discount P x."""
        if self.stationary:
            return self._solve(self.P, gain, discount)
        x = gain.copy()
        for t in reversed(range(self.layers - 1)):
            rows = slice(self.first_pair[t], self.first_pair[t + 1])
            x[rows] += discount * (self.layer_P[t] @ x)
        return x

    def forward(
        self, source: Float64[np.ndarray, "pairs *more"], discount: float
    ) -> Float64[np.ndarray, "pairs *more"]:
        """Solves x = source + discount P^T x: the discounted visits of episodes that start in `source`."""
        if self.stationary:
            return self._solve(self.P.T, source, discount)
        x = source.copy()
        for t in range(self.layers - 1):
            rows = slice(self.first_pair[t], self.first_pair[t + 1])
            x += discount * (self.layer_P[t].T @ x[rows])
        return x

    def _solve(self, matrix: sparse.csr_array | sparse.csc_array, right: np.ndarray, discount: float) -> np.ndarray:
        if discount == 1 and not self.every_episode_ends:
            raise ValueError(
                f"{self.pomdp.name}: some episodes never end, so that undiscounted returns without a horizon "
                "are infinite or undefined; give a horizon or a discount below 1"
            )
        return solve_chain(matrix, right, discount)

    @cached_property
    def every_episode_ends(self) -> bool:
        """Whether an end can be reached from every pair."""
        ends = np.bincount(self.source[self.target < 0], minlength=self.pairs) > 0
        ends |= self.open[self.node]
        reaching, previous = ends, np.zeros_like(ends)
        while not np.array_equal(reaching, previous):
            previous = reaching
            reaching = reaching | (self.P @ reaching.astype(float) > 0)
        return bool(reaching.all())

    @cached_property
    def mass(self) -> Float64[np.ndarray, "pairs"]:
        """Pr(H_t = h, S_t = s); in a stationary graph the expected number of visits.

        If episodes may never end, visits are discounted, since there are infinitely many.
        """
        endless = self.stationary and not self.every_episode_ends
        return self.forward(self.start, self.pomdp.discount if endless else 1.0)

    @cached_property
    def discounted_mass(self) -> Float64[np.ndarray, "pairs"]:
        """sum_t gamma^t Pr(H_t = h, S_t = s)."""
        return self.forward(self.start, self.pomdp.discount)

    @cached_property
    def acting(self) -> Bool[np.ndarray, "pairs"]:
        """The pairs where the agent acts: those of nodes that are not open."""
        return ~self.open[self.node]

    def per_node(self, x: Float64[np.ndarray, "pairs *more"]) -> Float64[np.ndarray, "nodes *more"]:
        """Sums over the pairs of each node."""
        return self._node_of_pair @ x

    @cached_property
    def _node_of_pair(self) -> sparse.csr_array:
        entries = (np.ones(self.pairs), (self.node, np.arange(self.pairs)))
        return sparse.csr_array(entries, shape=(self.nodes, self.pairs))

    @cached_property
    def probability_of_node(self) -> Float64[np.ndarray, "nodes"]:
        """Pr(H_t = h) summed over the histories of a node; in a stationary graph the expected number of visits."""
        return self.per_node(self.mass)

    @property
    def left_over(self) -> float:
        """The probability that an episode reaches an open node before the horizon."""
        early = self.open & (self.time < (self.horizon or 0))
        return float(self.probability_of_node[early].sum())

    @cached_property
    def belief(self) -> Float64[np.ndarray, "pairs"]:
        """Pr(s | node)."""
        return self.mass / self.probability_of_node[self.node]

    @cached_property
    def _successors(self) -> tuple[Int[np.ndarray, "triples"], Int[np.ndarray, "triples"]]:
        on = self.target >= 0
        z, o = self.node[self.source[on]].astype(np.int64), self.pomdp.observation[self.outcome[on]]
        triple = (z * self.pomdp.actions + self.action[on]) * self.pomdp.observations + o
        codes, first = np.unique(triple, return_index=True)
        return codes, self.node[self.target[on][first]]

    def successor(self, node: int, a: int, o: int) -> int | None:
        """The node after (a, o); None if the policy never reaches it."""
        codes, to = self._successors
        code = (node * self.pomdp.actions + a) * self.pomdp.observations + o
        index = int(np.searchsorted(codes, code))
        return int(to[index]) if index < len(codes) and codes[index] == code else None

    def root(self, o: int) -> int | None:
        """The node after this first observation; -1: the only node, if histories leave the first observation out."""
        return self._roots.get(o)

    @cached_property
    def _roots(self) -> dict[int, int]:
        return {int(self.parent_observation[z]): int(z) for z in np.flatnonzero(self.parent < 0)}

    def find(self, h: History) -> int | None:
        """The node of a history; None if the policy never reaches it. Raises ValueError if it is impossible."""
        _, rest = begin_history(self.pomdp, h)
        node = self.root(h[0][1] if self.pomdp.first_observation is not None else -1)
        for a, o in rest:
            node = None if node is None or a is None else self.successor(node, a, o)
        return node

    def pairs_of(self, node: int) -> Int[np.ndarray, "support"]:
        """The pairs of a node."""
        begin, end = self._node_of_pair.indptr[[node, node + 1]]
        return self._node_of_pair.indices[begin:end]

    def history(self, node: int) -> History:
        """The most likely history of a node."""
        return trace_history(node, self.parent, self.parent_action, self.parent_observation)

    def per_state(self, x: Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "S"]:
        """Sums over the pairs of each state."""
        return np.bincount(self.state, x, minlength=self.pomdp.states)


def trace_history(node: int, parent: np.ndarray, action: np.ndarray, observation: np.ndarray) -> History:
    """The history that leads to a node, by following its parents."""
    pairs = []
    while node >= 0:
        if observation[node] >= 0:
            pairs.append((int(action[node]) if action[node] >= 0 else None, int(observation[node])))
        node = int(parent[node])
    return tuple(reversed(pairs))


def solve_chain(
    chain: sparse.csr_array | sparse.csc_array, constant: Float64[np.ndarray, "n *more"], discount: float
) -> Float64[np.ndarray, "n *more"]:
    """Solves x = constant + discount chain x.

    Small systems are factorised. Large ones are solved by summing discount^k chain^k constant, whose terms shrink with
    the discount, if few terms suffice.

    Args:
        chain: a matrix with rows, or columns, of probabilities.
        constant: the first term.
        discount: a factor between 0 and 1.
    """
    size = len(constant)
    if size >= LARGE and _terms(discount) <= MOST_TERMS:
        chain, term, x = sparse.csr_array(chain), constant, constant
        for _ in range(math.ceil(_terms(discount))):
            term = discount * (chain @ term)
            x = x + term
        return x
    system = sparse.csc_array(sparse.eye_array(size) - discount * chain)
    return np.asarray(spsolve(system, constant)).reshape(constant.shape)


def _terms(discount: float) -> float:
    """How many terms of the series leave a remainder below the precision."""
    if not 0 < discount < 1:
        return math.inf if discount == 1 else 1
    return math.log(PRECISION * (1 - discount)) / math.log(discount)
