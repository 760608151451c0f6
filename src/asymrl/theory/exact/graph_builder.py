"""Builds the graph of a policy, time step by time step or, without a horizon, until no new node appears."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int

from asymrl.theory.exact.beliefs import outcomes_of
from asymrl.theory.exact.histories import EDGES, NODES, History, TooLargeError, describe, needed
from asymrl.theory.exact.history_graph import BY_BELIEF, BY_HISTORY, BY_MEMORY, HistoryGraph, trace_history
from asymrl.theory.exact.policies import HistoryPolicy, as_policy
from asymrl.theory.exact.time_layers import (
    Layer,
    Root,
    episode_start,
    equivalence_classes,
    merge_nodes,
    probabilities,
    successor_layer,
)
from asymrl.worlds.pomdp import Pomdp

STATIONARY_NODES = 100_000


def unroll(
    pomdp: Pomdp,
    policy: HistoryPolicy,
    horizon: int,
    *,
    merge: str = BY_BELIEF,
    threshold: float = 0.0,
    beyond: bool = False,
    root: Root | None = None,
    limit: int = NODES,
) -> HistoryGraph:
    """Follows a policy for `horizon` actions.

    Args:
        pomdp: the world.
        policy: the policy to follow.
        horizon: the largest number of actions.
        merge: which histories become one node: "history" (none), "belief" (those with equal belief and memory,
            which have equal values too) or "memory" (the product chain of a controller).
        threshold: nodes less likely than this are left open.
        beyond: keep the pairs reached by the last action, as open nodes; otherwise the episode ends there.
        root: where to start; by default at the start of an episode.
        limit: the largest number of nodes.

    Raises:
        TooLargeError: if there are more nodes; it says how many histories there are and how many fit.
        ValueError: if the policy does not return probabilities; it says after which history.
    """
    if merge not in (BY_HISTORY, BY_BELIEF, BY_MEMORY):
        raise ValueError(f"merge={merge!r}: choose {BY_HISTORY!r}, {BY_BELIEF!r} or {BY_MEMORY!r}")
    if horizon < 1:
        raise ValueError(f"{pomdp.name}: horizon is {horizon}, expected at least 1 action")
    builder = _Unrolling(pomdp, policy, merge, threshold, beyond)
    layer: Layer | None = builder.placed(Layer.first(root or episode_start(pomdp, policy)))[0]
    for t in range(horizon):
        if layer is None:
            break
        nodes, edges = builder.nodes + layer.nodes, builder.edges + builder.outcomes(layer)
        if nodes > limit or edges > EDGES:
            raise _too_large(pomdp, horizon, t, nodes, edges, limit)
        layer = builder.add(layer, t, last=t == horizon - 1)
    if layer is None or not beyond:
        return builder.finished(horizon)
    builder.add_open(layer, horizon)
    return dataclasses.replace(builder.finished(horizon), end_memory=layer.memory)


def stationary_graph(
    pomdp: Pomdp,
    policy: HistoryPolicy,
    *,
    merge: str = BY_MEMORY,
    root: Root | None = None,
    limit: int = STATIONARY_NODES,
) -> tuple[HistoryGraph, Int[np.ndarray, "pairs"]]:
    """The graph of a policy without a horizon, and the pair of the graph for each pair of the root.

    A node stands for all times at which it is reached.

    Args:
        pomdp: the world.
        policy: one with finitely many memories.
        merge: "memory", the product chain (z, s), or "belief", which may have many more nodes, or infinitely many.
        root: where to start; by default at the start of an episode.
        limit: the largest number of nodes.

    Raises:
        TooLargeError: if there are more nodes, as for a policy that remembers everything.
    """
    root = root or episode_start(pomdp, policy)
    builder = _Closing(pomdp, policy, merge, limit)
    layer, pair = builder.placed(Layer.first(root))
    while layer is not None and layer.state.size:
        if builder.edges + builder.outcomes(layer) > EDGES:
            raise builder.too_large(f"without a horizon there are more than {EDGES} transitions")
        layer = builder.add(layer, 0)
    graph = builder.finished(None)
    start = np.bincount(pair, root.probability, minlength=graph.pairs)
    one_layer = {"first_node": np.array([0, graph.nodes]), "first_pair": np.array([0, graph.pairs])}
    return dataclasses.replace(graph, start=start, **one_layer), pair


def realisable(
    pomdp: Pomdp, depth: int, policy: HistoryPolicy | str = "uniform", limit: int = NODES
) -> Iterator[tuple[History, float]]:
    """The histories with up to `depth` actions that are possible under the policy, with Pr(H_t = h), shortest first.

    Raises:
        TooLargeError: if there are more than `limit`; it says how many, and which depth fits.
    """
    graph = unroll(pomdp, as_policy(pomdp, policy), max(depth, 1), merge=BY_HISTORY, beyond=True, limit=limit)
    listed = int(np.searchsorted(graph.time, depth, "right"))
    return ((graph.history(z), float(graph.probability_of_node[z])) for z in range(listed))


def _too_large(pomdp: Pomdp, horizon: int, t: int, nodes: int, edges: int, limit: int) -> TooLargeError:
    size, fit = (f"{nodes} nodes", limit) if nodes > limit else (f"{edges} transitions", EDGES)
    return TooLargeError(
        lambda: (
            f"{pomdp.name}: following all histories for {horizon} actions does not fit: {size} already at depth {t}, "
            f"{fit} fit. {needed(pomdp, horizon)} A horizon of {max(t, 1)} fits (--horizon), and a longer "
            "one may with a policy of small memory; for the policy of a trained run, a smaller --mass helps too"
        ),
        depth=t,
    )


class _Builder:
    """A graph under construction, layer by layer.

    `memory` and `pi` are tables of nodes, the first of which is number `first_row` of the graph. The pairs of a layer
    name their nodes by rows of these tables.
    """

    def __init__(self, pomdp: Pomdp, policy: HistoryPolicy, merge: str, threshold: float = 0.0, beyond: bool = True):
        self.pomdp, self.policy, self.merge = pomdp, policy, merge
        self.threshold, self.beyond = threshold, beyond
        self.action_of = pomdp.rows()[1]
        self.parts: list[dict[str, np.ndarray]] = []
        self.nodes = self.pairs = self.edges = self.first_row = 0
        self.memory: Any = None
        self.pi = np.zeros((0, pomdp.actions))
        self.forgets = False

    def placed(self, layer: Layer) -> tuple[Layer, Int[np.ndarray, "pairs"]]:
        """The nodes and pairs of a layer that are not in the graph yet, and the number in the graph of each pair."""
        raise NotImplementedError

    def keep(self, memory: Any, pi: Float64[np.ndarray, "nodes A"]) -> None:
        """Puts the memories and actions of a layer into the tables."""
        raise NotImplementedError

    def outcomes(self, layer: Layer) -> int:
        """The number of outcomes of the states of a layer, before anything is allocated for them."""
        first, A = np.asarray(self.pomdp.first, np.int64), self.pomdp.actions
        return int((first[(layer.state + 1) * A] - first[layer.state * A]).sum())

    def add(self, layer: Layer, t: int, last: bool = False) -> Layer | None:
        """Adds a layer with its edges; returns the next one, or None if there is none."""
        pomdp, A = self.pomdp, self.pomdp.actions
        self.edges += self.outcomes(layer)
        opened = layer.weights() < self.threshold if self.threshold > 0 else np.zeros(layer.nodes, bool)
        opened[layer.remembered :] = True
        pi = self._act(layer, opened)
        self.keep(layer.memory, pi)
        pair, k = outcomes_of(pomdp, layer.state * A, (layer.state + 1) * A)
        chance = self.pi[layer.node[pair], self.action_of[k]]
        taken = chance > 0
        pair, k, chance = pair[taken], k[taken], chance[taken]
        source = pair + self.pairs
        self._add_nodes(layer, t, pi, opened)
        target, after = np.full(len(k), -1), None
        on = np.flatnonzero(~pomdp.done[k])
        if on.size and (self.beyond or not last):
            pair, j = pair[on], k[on]
            weight = layer.mass[pair] * chance[on] * pomdp.probability[j]
            after, place = successor_layer(pomdp, layer.node[pair], self.action_of[j], j, weight)
            if layer.keys is None and self.merge == BY_BELIEF and not last:
                after, moved = self._without_unlikely(after)
                place = moved[place]
            if m := after.remembered:
                rows, a, o = after.parent[:m], after.action[:m], after.observation[:m]
                after.memory = self.policy.advance(self.memory, rows, a, o)
            after.parent += self.first_row
            after, number = self.placed(after)
            target[on] = number[place]
        edges = {"source": source, "outcome": k, "target": target}
        self.parts[-1] |= {name: values.astype(np.int32) for name, values in edges.items()}
        return after

    def add_open(self, layer: Layer, t: int) -> None:
        """Adds the layer after the last action."""
        pi = np.zeros((layer.nodes, self.pomdp.actions))
        self.keep(layer.memory, pi)
        self._add_nodes(layer, t, pi, np.ones(layer.nodes, bool))
        none = np.zeros(0, np.int32)
        self.parts[-1] |= {"source": none, "outcome": none, "target": none}

    def _without_unlikely(self, layer: Layer) -> tuple[Layer, Int[np.ndarray, "pairs"]]:
        """The layer with its unlikely nodes last, merged by belief, and the new number of each pair.

        Unlikely nodes stay open, and bounds on the value of an open node depend on the time and the belief alone, so
        that merging loosens none. Only for a policy that remembers everything; with another, merging by memory may
        still make an unlikely history likely enough.
        """
        mass = layer.weights()
        likely, unlikely = np.flatnonzero(mass >= self.threshold), np.flatnonzero(mass < self.threshold)
        if not unlikely.size:
            return layer, np.arange(len(layer.node))
        class_of, first = equivalence_classes(layer.beliefs()[unlikely], mass[unlikely])
        place = np.empty(layer.nodes, int)
        place[likely], place[unlikely] = np.arange(likely.size), likely.size + class_of
        layer, moved = merge_nodes(layer, self.pomdp.states, place, np.concatenate([likely, unlikely[first]]))
        layer.remembered = likely.size
        return layer, moved

    def _act(self, layer: Layer, opened: Bool[np.ndarray, "nodes"]) -> Float64[np.ndarray, "nodes A"]:
        """pi(. ; h) of every node; zeros for nodes that stay open."""
        pi = np.zeros((layer.nodes, self.pomdp.actions))
        if not opened.all():
            rows = probabilities(self.pomdp, self.policy, layer.memory, lambda node: self._words(layer, node))
            pi[: layer.remembered] = np.where(opened[: layer.remembered, None], 0.0, rows)
        return pi

    def _words(self, layer: Layer, node: int) -> str:
        own = {"parent": layer.parent, "parent_action": layer.action, "parent_observation": layer.observation}
        tables = [np.concatenate([*(part[name] for part in self.parts), last]) for name, last in own.items()]
        return describe(self.pomdp, trace_history(self.nodes + node, *tables))

    def _add_nodes(self, layer: Layer, t: int, pi: np.ndarray, opened: np.ndarray) -> None:
        self.forgets |= layer.keys is not None
        self.parts.append(
            {
                "pi": pi,
                "keys": np.zeros((layer.nodes, 0), int) if layer.keys is None else layer.keys,
                "time": np.full(layer.nodes, t, np.int32),
                "parent": layer.parent.astype(np.int32),
                "parent_action": layer.action.astype(np.int32),
                "parent_observation": layer.observation.astype(np.int32),
                "open": opened,
                "node": (layer.node + self.first_row).astype(np.int32),
                "state": layer.state.astype(np.int32),
                "start": layer.mass if t == 0 else np.zeros(len(layer.mass)),
            }
        )
        self.nodes += layer.nodes
        self.pairs += len(layer.node)

    def finished(self, horizon: int | None) -> HistoryGraph:
        """The graph."""
        sizes = [(len(part["pi"]), len(part["node"])) for part in self.parts]
        first = np.concatenate([[(0, 0)], np.cumsum(sizes, axis=0)])
        # Popping the parts one by one avoids holding everything twice.
        joined = {name: np.concatenate([part.pop(name) for part in self.parts]) for name in list(self.parts[0])}
        keys, parameter = joined.pop("keys"), np.arange(self.nodes)
        if self.forgets:
            parameter = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        return HistoryGraph(
            pomdp=self.pomdp,
            merged=self.merge,
            horizon=horizon,
            parameter=parameter,
            low=np.zeros(self.pairs),
            high=np.zeros(self.pairs),
            first_node=first[:, 0],
            first_pair=first[:, 1],
            **joined,
        )


class _Unrolling(_Builder):
    """Every time step has nodes of its own; equivalent ones are merged into the likeliest."""

    def placed(self, layer: Layer) -> tuple[Layer, Int[np.ndarray, "pairs"]]:
        layer.keys = self.policy.keys(layer.memory) if layer.remembered else None
        if self.merge == BY_HISTORY or layer.keys is None:
            return layer, np.arange(len(layer.node)) + self.pairs
        keys = np.concatenate([layer.keys, layer.beliefs()], axis=1) if self.merge == BY_BELIEF else layer.keys
        place, representative = equivalence_classes(keys, layer.weights())
        memory = self.policy.rows(layer.memory, representative)
        layer, moved = merge_nodes(layer, self.pomdp.states, place, representative)
        layer.memory = memory
        return layer, moved + self.pairs

    def keep(self, memory: Any, pi: Float64[np.ndarray, "nodes A"]) -> None:
        self.memory, self.pi, self.first_row = memory, pi, self.nodes


class _Closing(_Builder):
    """A node stands for all times: those of a later layer are merged with those that are in the graph already."""

    def __init__(self, pomdp: Pomdp, policy: HistoryPolicy, merge: str, limit: int):
        super().__init__(pomdp, policy, merge)
        self.limit = limit
        self.node_numbers: dict[Hashable, int] = {}
        self.pair_numbers: dict[Hashable, int] = {}

    def placed(self, layer: Layer) -> tuple[Layer, Int[np.ndarray, "pairs"]]:
        if (keys := self.policy.keys(layer.memory)) is None:
            raise self.too_large(
                "this policy remembers everything, so it has infinitely many histories without a horizon"
            )
        share = layer.mass / layer.weights()[layer.node]
        full = np.concatenate([keys, layer.beliefs()], axis=1) if self.merge == BY_BELIEF else keys
        place, fresh = _numbered(self.node_numbers, [row.tobytes() for row in np.ascontiguousarray(full)])
        if len(self.node_numbers) > self.limit:
            raise self.too_large(f"without a horizon there are more than {self.limit} nodes")
        node = place[layer.node]
        number, new = _numbered(self.pair_numbers, (node * self.pomdp.states + layer.state).tolist())
        memory = self.policy.rows(layer.memory, fresh)
        parent, action, observation = (x[fresh] for x in (layer.parent, layer.action, layer.observation))
        pairs = node[new], layer.state[new], share[new]
        return Layer(memory, keys[fresh], parent, action, observation, *pairs, len(fresh)), number

    def keep(self, memory: Any, pi: Float64[np.ndarray, "nodes A"]) -> None:
        self.memory = memory if self.memory is None else self.policy.joined(self.memory, memory)
        self.pi = np.concatenate([self.pi, pi])

    def too_large(self, why: str) -> TooLargeError:
        return TooLargeError(f"{self.pomdp.name}: {why}; give a horizon (--horizon)")


def _numbered(known: dict[Hashable, int], keys: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    """The number of each key, where new keys get the next ones, and the places of the new ones."""
    number, fresh = np.empty(len(keys), int), []
    for i, key in enumerate(keys):
        next_number = len(known)
        number[i] = known.setdefault(key, next_number)
        if number[i] == next_number:
            fresh.append(i)
    return number, np.array(fresh, int)
