"""Follows a policy with a finite memory without a horizon, until no new node appears."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from asymrl.theory.exact.beliefs import outcomes_of
from asymrl.theory.exact.histories import EDGES, History, TooLargeError, describe
from asymrl.theory.exact.history_graph import BY_BELIEF, BY_MEMORY, HistoryGraph, trace_history
from asymrl.theory.exact.policies import HistoryPolicy
from asymrl.theory.exact.time_layers import Layer, Root, episode_start, probabilities, successor_layer
from asymrl.worlds.pomdp import Pomdp

STATIONARY_NODES = 100_000


def stationary_graph(
    pomdp: Pomdp,
    policy: HistoryPolicy,
    *,
    merge: str = BY_MEMORY,
    root: Root | None = None,
    limit: int = STATIONARY_NODES,
) -> HistoryGraph:
    """The graph of a policy without a horizon. A node stands for all times at which it is reached.

    Args:
        pomdp: the world.
        policy: one with finitely many memories.
        merge: "memory", the product chain (z, s), or "belief", which may have many more nodes, or infinitely many.
        root: where to start; by default at the start of an episode.
        limit: the largest number of nodes.

    Raises:
        TooLargeError: if there are more nodes, as for a policy that remembers everything.
    """
    return stationary_graph_from(pomdp, policy, root or episode_start(pomdp, policy), merge=merge, limit=limit)[0]


def stationary_graph_from(
    pomdp: Pomdp, policy: HistoryPolicy, start: Root, *, merge: str = BY_MEMORY, limit: int = STATIONARY_NODES
) -> tuple[HistoryGraph, Int[np.ndarray, "pairs"]]:
    """`stationary_graph`, and the pair of the graph for each pair of the root."""
    closing = _Closing(pomdp, policy, merge, limit)
    pair = closing.add(Layer.first(start))
    closing.start = np.bincount(pair, start.probability, minlength=closing.pairs)
    while closing.expand():
        pass
    return closing.finished(), pair


class _Closing:
    """The nodes and pairs so far; pairs from number `done` on are not expanded yet."""

    def __init__(self, pomdp: Pomdp, policy: HistoryPolicy, merge: str, limit: int):
        self.pomdp, self.policy, self.merge, self.limit = pomdp, policy, merge, limit
        self.action_of = pomdp.rows()[1]
        self.number: dict[bytes, int] = {}
        self.pair_number: dict[int, int] = {}
        self.layers: list[dict[str, np.ndarray]] = []
        self.keys: list[np.ndarray] = []
        self.memory, self.pi = None, np.zeros((0, pomdp.actions))
        self.belief = np.zeros(0)
        self.node, self.state = np.zeros(0, int), np.zeros(0, int)
        self.done = self.acted = self.outcomes = 0
        self.edges: list[np.ndarray] = []
        self.start: np.ndarray = np.zeros(0)

    @property
    def nodes(self) -> int:
        return len(self.number)

    @property
    def pairs(self) -> int:
        return len(self.node)

    def add(self, layer: Layer) -> np.ndarray:
        """Adds the pairs of a layer that are new; returns the number of each."""
        keys = self.policy.keys(layer.memory)
        if keys is None:
            raise TooLargeError(
                f"{self.pomdp.name}: this policy remembers everything, so it has infinitely many histories "
                "without a horizon; give a horizon (--horizon)"
            )
        share = layer.mass / layer.weights()[layer.node]
        full = np.concatenate([keys, layer.beliefs()], axis=1) if self.merge == BY_BELIEF else keys
        place, fresh = np.empty(layer.nodes, int), []
        for i, row in enumerate(np.ascontiguousarray(full)):
            next_number = len(self.number)
            place[i] = self.number.setdefault(row.tobytes(), next_number)
            if place[i] == next_number:
                fresh.append(i)
        if self.nodes > self.limit:
            raise TooLargeError(
                f"{self.pomdp.name}: without a horizon there are more than {self.limit} nodes; "
                "give a horizon (--horizon)"
            )
        self._add_nodes(layer, keys, np.array(fresh, int))
        return self._add_pairs(place[layer.node], layer.state, share)

    def _add_nodes(self, layer: Layer, keys: np.ndarray, fresh: np.ndarray) -> None:
        new = self.policy.rows(layer.memory, fresh)
        self.memory = new if self.memory is None else self.policy.joined(self.memory, new)
        self.keys.append(keys[fresh])
        names = {"parent": layer.parent, "parent_action": layer.action, "parent_observation": layer.observation}
        self.layers.append({name: values[fresh] for name, values in names.items()})

    def _add_pairs(self, node: np.ndarray, state: np.ndarray, share: np.ndarray) -> np.ndarray:
        codes = (node * self.pomdp.states + state).tolist()
        number, fresh = np.empty(len(codes), int), []
        for i, code in enumerate(codes):
            next_number = len(self.pair_number)
            number[i] = self.pair_number.setdefault(code, next_number)
            if number[i] == next_number:
                fresh.append(i)
        self.node = np.concatenate([self.node, node[fresh]])
        self.state = np.concatenate([self.state, state[fresh]])
        self.belief = np.concatenate([self.belief, share[fresh]])
        return number

    def expand(self) -> bool:
        """Expands the pairs that are not expanded yet; returns whether there were any."""
        if self.done == self.pairs:
            return False
        self._act()
        A, low = self.pomdp.actions, self.state[self.done :] * self.pomdp.actions
        first = np.asarray(self.pomdp.first, np.int64)
        self.outcomes += int((first[low + A] - first[low]).sum())
        if self.outcomes > EDGES:
            raise TooLargeError(
                f"{self.pomdp.name}: without a horizon there are more than {EDGES} transitions; "
                "give a horizon (--horizon)"
            )
        pair, k = outcomes_of(self.pomdp, low, low + A)
        pair += self.done
        self.done = self.pairs
        taken = self.pi[self.node[pair], self.action_of[k]] > 0
        pair, k = pair[taken], k[taken]
        target = np.full(len(k), -1)
        goes_on = np.flatnonzero(~self.pomdp.done[k])
        if goes_on.size:
            p, j = pair[goes_on], k[goes_on]
            weight = self.belief[p] * self.pomdp.probability[j]
            layer, place = successor_layer(self.pomdp, self.node[p], self.action_of[j], j, weight)
            layer.memory = self.policy.advance(self.memory, layer.parent, layer.action, layer.observation)
            target[goes_on] = self.add(layer)[place]
        self.edges.append(np.stack([pair, k, target]))
        return True

    def _act(self) -> None:
        fresh = self.policy.rows(self.memory, np.arange(self.acted, self.nodes))
        if self.acted < self.nodes:
            first = self.acted
            pi = probabilities(self.pomdp, self.policy, fresh, lambda i: describe(self.pomdp, self._history(first + i)))
            self.pi = np.concatenate([self.pi, pi])
            self.acted = self.nodes

    def _history(self, node: int) -> History:
        names = ("parent", "parent_action", "parent_observation")
        return trace_history(node, *(np.concatenate([layer[name] for layer in self.layers]) for name in names))

    def finished(self) -> HistoryGraph:
        source, outcome, target = np.concatenate(self.edges, axis=1).astype(np.int32)
        joined = {name: np.concatenate([layer[name] for layer in self.layers]) for name in self.layers[0]}
        _, parameter = np.unique(np.concatenate(self.keys), axis=0, return_inverse=True)
        zeros = np.zeros(self.pairs)
        return HistoryGraph(
            pomdp=self.pomdp,
            merged=self.merge,
            horizon=None,
            pi=self.pi,
            parameter=parameter.reshape(-1),
            time=np.zeros(self.nodes, int),
            open=np.zeros(self.nodes, bool),
            node=self.node,
            state=self.state,
            start=np.concatenate([self.start, np.zeros(self.pairs - len(self.start))]),
            low=zeros,
            high=zeros,
            source=source,
            outcome=outcome,
            target=target,
            first_node=np.array([0, self.nodes]),
            first_pair=np.array([0, self.pairs]),
            **joined,
        )
