"""The nodes and pairs of one time step, and how the next ones follow from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from asymrl.theory.exact.beliefs import fingerprint
from asymrl.theory.exact.policies import HistoryPolicy
from asymrl.worlds.pomdp import Pomdp
from asymrl.worlds.probability_tables import TOLERANCE


@dataclass(frozen=True, eq=False)
class Root:
    """Where to start: the pairs (first observation, state) of an episode, or one history with its belief."""

    memory: Any
    observation: Int[np.ndarray, "nodes"]
    """The first observation; -1 if histories leave it out."""
    node: Int[np.ndarray, "pairs"]
    state: Int[np.ndarray, "pairs"]
    probability: Float64[np.ndarray, "pairs"]


@dataclass(eq=False)
class Layer:
    """The nodes and pairs of one time step. Only the first `remembered` nodes have a memory; the others stay open."""

    memory: Any
    """A row for each remembered node."""
    keys: Int[np.ndarray, "nodes k"] | None
    parent: Int[np.ndarray, "nodes"]
    action: Int[np.ndarray, "nodes"]
    observation: Int[np.ndarray, "nodes"]
    node: Int[np.ndarray, "pairs"]
    state: Int[np.ndarray, "pairs"]
    mass: Float64[np.ndarray, "pairs"]
    remembered: int

    @classmethod
    def first(cls, root: Root) -> Layer:
        """The layer of a root, whose nodes have no parents."""
        nodes = len(root.observation)
        none, pairs = np.full(nodes, -1), (root.node, root.state, root.probability)
        return cls(root.memory, None, none, none, root.observation, *pairs, nodes)

    @property
    def nodes(self) -> int:
        return len(self.parent)

    def weights(self) -> Float64[np.ndarray, "nodes"]:
        """The probability of each node."""
        return np.bincount(self.node, self.mass, minlength=self.nodes)

    def beliefs(self) -> Int[np.ndarray, "nodes 2"]:
        """Numbers that are equal for equal beliefs."""
        return fingerprint(self.node, self.state, self.mass / self.weights()[self.node], self.nodes)


def episode_start(pomdp: Pomdp, policy: HistoryPolicy) -> Root:
    """The root at the start of an episode."""
    O = pomdp.observations
    if pomdp.first_observation is None:
        state = np.flatnonzero(pomdp.start)
        observation, probability = np.full(len(state), O), pomdp.start[state]
    else:
        state, observation = np.nonzero(pomdp.start[:, None] * pomdp.first_observation)
        probability = pomdp.start[state] * pomdp.first_observation[state, observation]
    first, node = np.unique(observation, return_inverse=True)
    in_history = first if pomdp.first_observation is not None else np.full_like(first, -1)
    return Root(policy.begin(first), in_history, node, state, probability)


def successor_layer(
    pomdp: Pomdp,
    z: Int[np.ndarray, "edges"],
    a: Int[np.ndarray, "edges"],
    k: Int[np.ndarray, "edges"],
    weight: Float64[np.ndarray, "edges"],
) -> tuple[Layer, Int[np.ndarray, "edges"]]:
    """The layer of nodes (z, a, o) after outcomes k of actions a in nodes z, and the target pair of each edge.

    The memories of the policy are left out.
    """
    A, O, S = pomdp.actions, pomdp.observations, pomdp.states
    triples, child = np.unique((z * A + a) * O + pomdp.observation[k], return_inverse=True)
    rows, observation = np.divmod(triples, O)
    rows, action = np.divmod(rows, A)
    codes, target = np.unique(child * S + pomdp.next_state[k], return_inverse=True)
    node, state = np.divmod(codes, S)
    mass = np.bincount(target, weight)
    return Layer(None, None, rows, action, observation, node, state, mass, len(rows)), target


def merge_nodes(
    layer: Layer, states: int, place: Int[np.ndarray, "nodes"], representative: Int[np.ndarray, "classes"]
) -> tuple[Layer, Int[np.ndarray, "pairs"]]:
    """The layer with node z merged into node `place[z]`, and the new number of each pair. Memories are left out.

    A merged node takes its parent, action and observation from its representative.
    """
    codes, moved = np.unique(place[layer.node] * states + layer.state, return_inverse=True)
    node, state = np.divmod(codes, states)
    keys = None if layer.keys is None else layer.keys[representative]
    parent, action, observation = (x[representative] for x in (layer.parent, layer.action, layer.observation))
    mass = np.bincount(moved, layer.mass)
    return Layer(None, keys, parent, action, observation, node, state, mass, len(representative)), moved


def equivalence_classes(
    keys: Int[np.ndarray, "nodes k"], mass: Float64[np.ndarray, "nodes"]
) -> tuple[Int[np.ndarray, "nodes"], Int[np.ndarray, "classes"]]:
    """The class of each node, and the likeliest node of each class, its representative."""
    likely = np.argsort(-mass, kind="stable")
    _, first, class_of = np.unique(keys[likely], axis=0, return_index=True, return_inverse=True)
    place = np.empty(len(keys), int)
    place[likely] = class_of.reshape(-1)
    return place, likely[first]


def probabilities(
    pomdp: Pomdp, policy: HistoryPolicy, memory: Any, words: Callable[[int], str]
) -> Float64[np.ndarray, "nodes A"]:
    """pi(. ; h) of every node, checked.

    Raises:
        ValueError: if these are not probabilities; `words` describes the history of a node for the message.
    """
    pi = np.asarray(policy.act(memory), float)
    if pi.ndim != 2 or pi.shape[1] != pomdp.actions:
        raise ValueError(
            f"{pomdp.name}: the policy gives {pi.shape[-1]} probabilities after {words(0)}, "
            f"expected one for each of {pomdp.actions} actions"
        )
    total = pi.sum(1)
    wrong = ~np.isfinite(total) | (pi < 0).any(1) | (np.abs(total - 1) > TOLERANCE)
    if (bad := np.flatnonzero(wrong)).size:
        raise ValueError(
            f"{pomdp.name}: the policy gives {pi[bad[0]].tolist()} after {words(int(bad[0]))}, "
            f"expected {pomdp.actions} probabilities that sum to 1"
        )
    return pi / total[:, None]
