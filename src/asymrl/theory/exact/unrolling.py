"""Follows a policy for a finite number of actions, through all histories or the likeliest ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

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
    builder = _GraphBuilder(pomdp, policy, merge, horizon, beyond, threshold)
    layer: Layer | None = builder.merged(Layer.first(root or episode_start(pomdp, policy)))[0]
    for t in range(horizon):
        if layer is None:
            break
        builder.edges += edges_of(pomdp, layer)
        if builder.nodes + layer.nodes > limit or builder.edges > EDGES:
            raise _too_large(pomdp, horizon, t, builder.nodes + layer.nodes, builder.edges, limit)
        builder.add(layer, t, last=t == horizon - 1)
        layer = builder.next_layer
    if layer is None or not beyond:
        return builder.finished()
    builder.add_open(layer, horizon)
    return dataclasses.replace(builder.finished(), end_memory=layer.memory)


def edges_of(pomdp: Pomdp, layer: Layer) -> int:
    """The number of outcomes of the states of a layer, before anything is allocated for them."""
    first = np.asarray(pomdp.first, np.int64)
    return int((first[(layer.state + 1) * pomdp.actions] - first[layer.state * pomdp.actions]).sum())


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


class _GraphBuilder:
    """A graph under construction, layer by layer."""

    def __init__(self, pomdp: Pomdp, policy: HistoryPolicy, merge: str, horizon: int, beyond: bool, threshold: float):
        self.pomdp, self.policy, self.merge, self.horizon, self.beyond = pomdp, policy, merge, horizon, beyond
        self.threshold = threshold
        self.action_of = pomdp.rows()[1]
        self.parts: list[dict[str, np.ndarray]] = []
        self.nodes = self.pairs = self.edges = 0
        self.forgets = False
        self.next_layer: Layer | None = None

    def add(self, layer: Layer, t: int, last: bool) -> None:
        """Adds a layer with its edges, and computes the next one."""
        opened = layer.weights() < self.threshold
        opened[layer.remembered :] = True
        pi = self._act(layer, opened)
        pair, k = outcomes_of(self.pomdp, layer.state * self.pomdp.actions, (layer.state + 1) * self.pomdp.actions)
        taken = pi[layer.node[pair], self.action_of[k]] > 0
        pair, k = pair[taken], k[taken]
        offset = self.pairs
        self._add_nodes(layer, t, pi, opened)
        target = np.full(len(k), -1)
        self.next_layer = None
        goes_on = np.flatnonzero(~self.pomdp.done[k])
        if goes_on.size and (self.beyond or not last):
            self.next_layer, target[goes_on] = self._following(layer, pi, pair[goes_on], k[goes_on], last)
        target[target >= 0] += self.pairs
        self.parts[-1] |= {"source": (pair + offset).astype(np.int32), "outcome": k.astype(np.int32)}
        self.parts[-1]["target"] = target.astype(np.int32)

    def add_open(self, layer: Layer, t: int) -> None:
        """Adds the layer after the last action."""
        self._add_nodes(layer, t, np.zeros((layer.nodes, self.pomdp.actions)), np.ones(layer.nodes, bool))
        none = np.zeros(0, np.int32)
        self.parts[-1] |= {"source": none, "outcome": none, "target": none}

    def _following(
        self, layer: Layer, pi: np.ndarray, pair: np.ndarray, k: np.ndarray, last: bool
    ) -> tuple[Layer, Int[np.ndarray, "edges"]]:
        """The next layer, and the pair of it that each edge leads to."""
        z = layer.node[pair]
        weight = layer.mass[pair] * pi[z, self.action_of[k]] * self.pomdp.probability[k]
        after, target = successor_layer(self.pomdp, z, self.action_of[k], k, weight)
        if layer.keys is None and self.merge == BY_BELIEF and not last:
            after, moved = self._without_unlikely(after)
            target = moved[target]
        if after.remembered:
            z, a, o = (x[: after.remembered] for x in (after.parent, after.action, after.observation))
            after.memory = self.policy.advance(layer.memory, z, a, o)
        after.parent += self.nodes - layer.nodes
        after, moved = self.merged(after)
        return after, moved[target]

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

    def merged(self, layer: Layer) -> tuple[Layer, Int[np.ndarray, "pairs"]]:
        """The layer with equivalent nodes merged, and the new number of each pair."""
        layer.keys = self.policy.keys(layer.memory) if layer.remembered else None
        if self.merge == BY_HISTORY or layer.keys is None:
            return layer, np.arange(len(layer.node))
        keys = np.concatenate([layer.keys, layer.beliefs()], axis=1) if self.merge == BY_BELIEF else layer.keys
        place, representative = equivalence_classes(keys, layer.weights())
        memory = self.policy.rows(layer.memory, representative)
        layer, moved = merge_nodes(layer, self.pomdp.states, place, representative)
        layer.memory = memory
        return layer, moved

    def _act(self, layer: Layer, opened: Bool[np.ndarray, "nodes"]) -> Float64[np.ndarray, "nodes A"]:
        """pi(. ; h) of every node; zeros for nodes that stay open."""
        pi = np.zeros((layer.nodes, self.pomdp.actions))
        if not opened.all():
            rows = probabilities(self.pomdp, self.policy, layer.memory, lambda node: self._words(layer, node))
            pi[: layer.remembered] = np.where(opened[: layer.remembered, None], 0.0, rows)
        return pi

    def _words(self, layer: Layer, node: int) -> str:
        last = ((int(layer.action[node]), int(layer.observation[node])),)
        if layer.parent[node] < 0:
            return describe(self.pomdp, ((None, last[0][1]),) if last[0][1] >= 0 else ())
        parent, action, observation = (
            np.concatenate([part[name] for part in self.parts])
            for name in ("parent", "parent_action", "parent_observation")
        )
        return describe(self.pomdp, trace_history(int(layer.parent[node]), parent, action, observation) + last)

    def _add_nodes(self, layer: Layer, t: int, pi: np.ndarray, opened: np.ndarray) -> None:
        self.forgets |= layer.keys is not None
        keys = np.zeros((layer.nodes, 0), int) if layer.keys is None else layer.keys
        self.parts.append(
            {
                "pi": pi,
                "keys": keys,
                "time": np.full(layer.nodes, t, np.int32),
                "parent": layer.parent.astype(np.int32),
                "parent_action": layer.action.astype(np.int32),
                "parent_observation": layer.observation.astype(np.int32),
                "open": opened,
                "node": (layer.node + self.nodes).astype(np.int32),
                "state": layer.state.astype(np.int32),
                "start": layer.mass if t == 0 else np.zeros(len(layer.mass)),
            }
        )
        self.nodes += layer.nodes
        self.pairs += len(layer.node)

    def finished(self) -> HistoryGraph:
        sizes = [(len(part["pi"]), len(part["node"])) for part in self.parts]
        first = np.concatenate([[(0, 0)], np.cumsum(sizes, axis=0)])
        # Popping the parts one by one avoids holding everything twice.
        joined = {name: np.concatenate([part.pop(name) for part in self.parts]) for name in list(self.parts[0])}
        keys, parameter = joined.pop("keys"), np.arange(self.nodes)
        if self.forgets:
            _, parameter = np.unique(keys, axis=0, return_inverse=True)
        zeros = np.zeros(self.pairs)
        return HistoryGraph(
            pomdp=self.pomdp,
            merged=self.merge,
            horizon=self.horizon,
            parameter=parameter.reshape(-1),
            low=zeros,
            high=zeros,
            first_node=first[:, 0],
            first_pair=first[:, 1],
            **joined,
        )


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


def follow_likeliest(
    pomdp: Pomdp,
    policy: HistoryPolicy,
    horizon: int,
    *,
    mass: float,
    beyond: bool = False,
    limit: int = NODES,
    merge: str = BY_HISTORY,
) -> HistoryGraph:
    """Follows the likeliest histories until an episode leaves them with probability at most 1 - mass.

    No history is likelier than its prefix, so best-first search is the same as following all histories above a
    threshold. The threshold falls until the mass is reached. If that does not fit, the last graph that fits is
    returned, and the values at its open nodes are as uncertain as the world allows.
    """
    if not 0 < mass <= 1:
        raise ValueError(f"mass is {mass!r}, expected a probability above 0")
    largest, threshold, factor = None, (1 - mass) / 16, 4.0
    while True:
        try:
            graph = unroll(pomdp, policy, horizon, merge=merge, threshold=threshold, beyond=beyond, limit=limit)
        except TooLargeError:
            if largest is None:
                raise
            if factor < 1.5:
                return largest
            threshold, factor = threshold * factor**0.5, factor**0.5  # something in between may fit
            continue
        largest = graph
        if left_over(graph) <= 1 - mass or threshold == 0 or factor < 4:
            return graph
        threshold = threshold / factor if threshold > 1e-15 else 0.0


def left_over(graph: HistoryGraph) -> float:
    """The probability that an episode reaches an open node before the horizon."""
    early = graph.open & (graph.time < (graph.horizon or 0))
    return float(graph.probability_of_node[early].sum())
