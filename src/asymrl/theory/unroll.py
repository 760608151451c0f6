"""Follows a policy through a problem, one time after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int

from asymrl.envs.pomdp import TOLERANCE, Pomdp
from asymrl.theory.beliefs import describe, fingerprint, outcomes_of
from asymrl.theory.graph import EXACT, MEMORY, WHOLE, Graph, spelled
from asymrl.theory.policies import Policy

NODES = 600_000  # with a few outcomes per state and action, all that is computed of them fits into 1 GB


class TooLargeError(ValueError):
    """A request that would not fit. What would is only worked out if someone reads it."""

    def __init__(self, explanation: str | Callable[[], str]):
        super().__init__(explanation)
        self.explanation = explanation

    def __str__(self) -> str:
        return self.explanation if isinstance(self.explanation, str) else self.explanation()


@dataclass(frozen=True, eq=False)
class Root:
    """Where to begin: pairs (first observation, state) of an episode, or one history with its belief."""

    memory: Any
    observation: Int[np.ndarray, "nodes"]
    """What was seen first; -1 where the history does not say it."""
    node: Int[np.ndarray, "pairs"]
    state: Int[np.ndarray, "pairs"]
    probability: Float64[np.ndarray, "pairs"]


@dataclass(eq=False)
class Layer:
    """The nodes and pairs of one time. Nodes beyond the first `remembered` ones are open: nobody acts there."""

    memory: Any
    """A row for each node that is remembered."""
    keys: Int[np.ndarray, "nodes k"] | None
    parent: Int[np.ndarray, "nodes"]
    action: Int[np.ndarray, "nodes"]
    observation: Int[np.ndarray, "nodes"]
    node: Int[np.ndarray, "pairs"]
    state: Int[np.ndarray, "pairs"]
    mass: Float64[np.ndarray, "pairs"]
    remembered: int

    @property
    def nodes(self) -> int:
        return len(self.parent)

    def weights(self) -> Float64[np.ndarray, "nodes"]:
        """The probability of each node."""
        return np.bincount(self.node, self.mass, minlength=self.nodes)

    def beliefs(self) -> Int[np.ndarray, "nodes 2"]:
        """Numbers that are equal where the beliefs are."""
        return fingerprint(self.node, self.state, self.mass / self.weights()[self.node], self.nodes)


def beginning(pomdp: Pomdp, policy: Policy) -> Root:
    """The start of an episode."""
    O = pomdp.observations
    if pomdp.first_observation is None:
        state = np.flatnonzero(pomdp.start)
        seen, probability = np.full(len(state), O), pomdp.start[state]
    else:
        state, seen = np.nonzero(pomdp.start[:, None] * pomdp.first_observation)
        probability = pomdp.start[state] * pomdp.first_observation[state, seen]
    first, node = np.unique(seen, return_inverse=True)
    shown = first if pomdp.first_observation is not None else np.full_like(first, -1)
    return Root(policy.begin(first), shown, node, state, probability)


def unroll(
    pomdp: Pomdp,
    policy: Policy,
    horizon: int,
    *,
    merge: str = EXACT,
    threshold: float = 0.0,
    beyond: bool = False,
    root: Root | None = None,
    limit: int = NODES,
) -> Graph:
    """Follows a policy for `horizon` actions.

    Args:
        pomdp: the problem.
        policy: what to follow.
        horizon: how many actions there are at most.
        merge: which histories become one node: "history" (none), "belief" (those with equal belief and memory,
            which have equal values too) or "memory" (the product chain of a controller).
        threshold: nodes less likely than this are left open.
        beyond: keep the pairs reached by the last action, as open nodes; otherwise the episode ends there.
        root: where to begin; by default at the start of an episode.
        limit: how many nodes fit.

    Raises:
        TooLargeError: if there are more nodes; it says how many histories there are and what would fit.
        ValueError: if the policy gives something else than probabilities; it says after which history.
    """
    if merge not in (WHOLE, EXACT, MEMORY):
        raise ValueError(f"merge={merge!r}: choose {WHOLE!r}, {EXACT!r} or {MEMORY!r}")
    if horizon < 1:
        raise ValueError(f"{pomdp.name}: horizon is {horizon}, expected at least 1 action")
    start = root or beginning(pomdp, policy)
    growing = _Growing(pomdp, policy, merge, horizon, beyond, threshold)
    none = np.full(len(start.observation), -1)
    shown, pairs = start.observation, (start.node, start.state, start.probability)
    layer: Layer | None = growing.merged(Layer(start.memory, None, none, none, shown, *pairs, len(shown)))
    for t in range(horizon):
        if layer is None:
            break
        growing.add(layer, t, last=t == horizon - 1)
        if growing.nodes > limit:
            raise _too_large(pomdp, horizon, t, growing.nodes, limit)
        layer = growing.next_layer
    if layer is None or not beyond:
        return growing.finished()
    growing.add_open(layer, horizon)
    return dataclasses.replace(growing.finished(), end_memory=layer.memory)


def _too_large(pomdp: Pomdp, horizon: int, t: int, nodes: int, limit: int) -> TooLargeError:
    from asymrl.theory.histories import needed

    return TooLargeError(
        lambda: (
            f"{pomdp.name}: following all histories for {horizon} actions does not fit: {nodes} nodes already at depth "
            f"{t}, {limit} fit. {needed(pomdp, horizon, limit)} Use a horizon of at most {max(t, 1)}, a policy with a "
            "small memory, or ask for a probability mass below 1"
        )
    )


def following(
    pomdp: Pomdp,
    policy: Policy,
    memory: Any,
    z: Int[np.ndarray, "edges"],
    a: Int[np.ndarray, "edges"],
    k: Int[np.ndarray, "edges"],
    weight: Float64[np.ndarray, "edges"],
) -> tuple[Layer, Int[np.ndarray, "edges"]]:
    """What follows nodes z by actions a and outcomes k: nodes (z, a, o), and the pair that each edge leads to."""
    layer, target = _reached(pomdp, z, a, k, weight)
    layer.memory = policy.advance(memory, layer.parent, layer.action, layer.observation)
    return layer, target


def _reached(
    pomdp: Pomdp, z: np.ndarray, a: np.ndarray, k: np.ndarray, weight: np.ndarray
) -> tuple[Layer, Int[np.ndarray, "edges"]]:
    """Like `following`, without the memories."""
    A, O, S = pomdp.actions, pomdp.observations, pomdp.states
    triples, child = np.unique((z * A + a) * O + pomdp.observation[k], return_inverse=True)
    rows, seen = np.divmod(triples, O)
    rows, acted = np.divmod(rows, A)
    codes, target = np.unique(child * S + pomdp.next_state[k], return_inverse=True)
    node, state = np.divmod(codes, S)
    mass = np.bincount(target, weight)
    return Layer(None, None, rows, acted, seen, node, state, mass, len(rows)), target


def _gathered(
    layer: Layer, states: int, place: Int[np.ndarray, "nodes"], speaker: Int[np.ndarray, "classes"]
) -> tuple[Layer, Int[np.ndarray, "pairs"]]:
    """The layer with node z moved to `place[z]`, one speaking for each place; and where its pairs went. No memories."""
    codes, moved = np.unique(place[layer.node] * states + layer.state, return_inverse=True)
    node, state = np.divmod(codes, states)
    keys = None if layer.keys is None else layer.keys[speaker]
    parent, action, observation = (x[speaker] for x in (layer.parent, layer.action, layer.observation))
    mass = np.bincount(moved, layer.mass)
    return Layer(None, keys, parent, action, observation, node, state, mass, len(speaker)), moved


def _classes(
    keys: Int[np.ndarray, "nodes k"], mass: Float64[np.ndarray, "nodes"]
) -> tuple[Int[np.ndarray, "nodes"], Int[np.ndarray, "classes"]]:
    """The class of each node, and the likeliest node of each class, which speaks for it."""
    likely = np.argsort(-mass, kind="stable")
    _, first, class_of = np.unique(keys[likely], axis=0, return_index=True, return_inverse=True)
    place = np.empty(len(keys), int)
    place[likely] = class_of.reshape(-1)
    return place, likely[first]


def probabilities(
    pomdp: Pomdp, policy: Policy, memory: Any, words: Callable[[int], str]
) -> Float64[np.ndarray, "nodes A"]:
    """pi(. ; h) of every node, checked.

    Raises:
        ValueError: if it is not made of probabilities; `words` says after which history.
    """
    given = np.asarray(policy.act(memory), float)
    if given.ndim != 2 or given.shape[1] != pomdp.actions:
        raise ValueError(
            f"{pomdp.name}: the policy gives {given.shape[-1]} probabilities after {words(0)}, "
            f"expected one for each of {pomdp.actions} actions"
        )
    total = given.sum(1)
    wrong = ~np.isfinite(total) | (given < 0).any(1) | (np.abs(total - 1) > TOLERANCE)
    if (bad := np.flatnonzero(wrong)).size:
        raise ValueError(
            f"{pomdp.name}: the policy gives {given[bad[0]].tolist()} after {words(int(bad[0]))}, "
            f"expected {pomdp.actions} probabilities that sum to 1"
        )
    return given / total[:, None]


class _Growing:
    """A graph that is being made, layer by layer."""

    def __init__(self, pomdp: Pomdp, policy: Policy, merge: str, horizon: int, beyond: bool, threshold: float):
        self.pomdp, self.policy, self.merge, self.horizon, self.beyond = pomdp, policy, merge, horizon, beyond
        self.threshold = threshold
        self.state_of, self.action_of = pomdp.rows()
        self.parts: list[dict[str, np.ndarray]] = []
        self.nodes = self.pairs = 0
        self.forgets = False
        self.next_layer: Layer | None = None

    def add(self, layer: Layer, t: int, last: bool) -> None:
        """Adds a layer with its edges, and finds the next one."""
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
        """Adds a layer in which nothing follows."""
        self._add_nodes(layer, t, np.zeros((layer.nodes, self.pomdp.actions)), np.ones(layer.nodes, bool))
        none = np.zeros(0, np.int32)
        self.parts[-1] |= {"source": none, "outcome": none, "target": none}

    def _following(
        self, layer: Layer, pi: np.ndarray, pair: np.ndarray, k: np.ndarray, last: bool
    ) -> tuple[Layer, Int[np.ndarray, "edges"]]:
        """The next layer, and the pair of it that each edge leads to."""
        z = layer.node[pair]
        weight = layer.mass[pair] * pi[z, self.action_of[k]] * self.pomdp.probability[k]
        reached, target = _reached(self.pomdp, z, self.action_of[k], k, weight)
        self._moved = np.arange(len(reached.node))
        if layer.keys is None and self.merge == EXACT and not last:
            reached = self._without_unlikely(reached)
        if reached.remembered:
            way = (reached.parent, reached.action, reached.observation)
            z, a, o = (x[: reached.remembered] for x in way)
            reached.memory = self.policy.advance(layer.memory, z, a, o)
        reached.parent += self.nodes - layer.nodes
        return self.merged(reached), self._moved[target]

    def _without_unlikely(self, layer: Layer) -> Layer:
        """The layer with its unlikely nodes last, those with equal beliefs made one: nobody asks what they remember.

        Bounds on what follows an open node depend on the time and the belief alone, so that none gets looser. For a
        policy that remembers everything; with another, histories may be likely once they are one node.
        """
        mass = layer.weights()
        kept, unlikely = np.flatnonzero(mass >= self.threshold), np.flatnonzero(mass < self.threshold)
        if not unlikely.size:
            return layer
        place, speaker = np.empty(layer.nodes, int), unlikely
        place[kept] = np.arange(kept.size)
        class_of, first = _classes(layer.beliefs()[unlikely], mass[unlikely])
        place[unlikely], speaker = kept.size + class_of, unlikely[first]
        layer, self._moved = _gathered(layer, self.pomdp.states, place, np.concatenate([kept, speaker]))
        layer.remembered = kept.size
        return layer

    def merged(self, layer: Layer) -> Layer:
        """The layer with nodes that are alike made one; the most likely of them speaks for all."""
        layer.keys = self.policy.keys(layer.memory) if layer.remembered else None
        if self.merge == WHOLE or layer.keys is None:
            return layer
        keys = np.concatenate([layer.keys, layer.beliefs()], axis=1) if self.merge == EXACT else layer.keys
        place, speaker = _classes(keys, layer.weights())
        memory = self.policy.rows(layer.memory, speaker)
        layer, self._moved = _gathered(layer, self.pomdp.states, place, speaker)
        layer.memory = memory
        return layer

    def _act(self, layer: Layer, opened: Bool[np.ndarray, "nodes"]) -> Float64[np.ndarray, "nodes A"]:
        """pi(. ; h) of every node; zeros where the node stays open."""
        pi = np.zeros((layer.nodes, self.pomdp.actions))
        if not opened.all():
            given = probabilities(self.pomdp, self.policy, layer.memory, lambda node: self._words(layer, node))
            pi[: layer.remembered] = np.where(opened[: layer.remembered, None], 0.0, given)
        return pi

    def _words(self, layer: Layer, node: int) -> str:
        last = ((int(layer.action[node]), int(layer.observation[node])),)
        if layer.parent[node] < 0:
            return describe(self.pomdp, ((None, last[0][1]),) if last[0][1] >= 0 else ())
        parent, action, observation = (
            np.concatenate([part[name] for part in self.parts])
            for name in ("parent", "parent_action", "parent_observation")
        )
        return describe(self.pomdp, spelled(int(layer.parent[node]), parent, action, observation) + last)

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

    def finished(self) -> Graph:
        sizes = [(len(part["pi"]), len(part["node"])) for part in self.parts]
        first = np.concatenate([[(0, 0)], np.cumsum(sizes, axis=0)])
        # Parts are given up one by one, so that nothing is held twice.
        joined = {name: np.concatenate([part.pop(name) for part in self.parts]) for name in list(self.parts[0])}
        keys, parameter = joined.pop("keys"), np.arange(self.nodes)
        if self.forgets:
            _, parameter = np.unique(keys, axis=0, return_inverse=True)
        nothing = np.zeros(self.pairs)
        return Graph(
            pomdp=self.pomdp,
            merged=self.merge,
            horizon=self.horizon,
            parameter=parameter.reshape(-1),
            low=nothing,
            high=nothing,
            first_node=first[:, 0],
            first_pair=first[:, 1],
            **joined,
        )
