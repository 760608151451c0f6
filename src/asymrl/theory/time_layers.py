"""What the agent may know at one time, where it may then be, and what follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from asymrl.theory.beliefs import fingerprint
from asymrl.theory.policies import HistoryPolicy
from asymrl.worlds.pomdp import TOLERANCE, Pomdp


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

    @classmethod
    def first(cls, root: Root) -> Layer:
        """The layer of the root: nothing comes before its nodes."""
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
        """Numbers that are equal where the beliefs are."""
        return fingerprint(self.node, self.state, self.mass / self.weights()[self.node], self.nodes)


def beginning(pomdp: Pomdp, policy: HistoryPolicy) -> Root:
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


def following(
    pomdp: Pomdp,
    policy: HistoryPolicy,
    memory: Any,
    z: Int[np.ndarray, "edges"],
    a: Int[np.ndarray, "edges"],
    k: Int[np.ndarray, "edges"],
    weight: Float64[np.ndarray, "edges"],
) -> tuple[Layer, Int[np.ndarray, "edges"]]:
    """What follows nodes z by actions a and outcomes k: nodes (z, a, o), and the pair that each edge leads to."""
    layer, target = reached(pomdp, z, a, k, weight)
    layer.memory = policy.advance(memory, layer.parent, layer.action, layer.observation)
    return layer, target


def reached(
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


def gathered(
    layer: Layer, states: int, place: Int[np.ndarray, "nodes"], speaker: Int[np.ndarray, "classes"]
) -> tuple[Layer, Int[np.ndarray, "pairs"]]:
    """The layer with node z moved to `place[z]`, one speaking for each place; and where its pairs went. No memories."""
    codes, moved = np.unique(place[layer.node] * states + layer.state, return_inverse=True)
    node, state = np.divmod(codes, states)
    keys = None if layer.keys is None else layer.keys[speaker]
    parent, action, observation = (x[speaker] for x in (layer.parent, layer.action, layer.observation))
    mass = np.bincount(moved, layer.mass)
    return Layer(None, keys, parent, action, observation, node, state, mass, len(speaker)), moved


def classes(
    keys: Int[np.ndarray, "nodes k"], mass: Float64[np.ndarray, "nodes"]
) -> tuple[Int[np.ndarray, "nodes"], Int[np.ndarray, "classes"]]:
    """The class of each node, and the likeliest node of each class, which speaks for it."""
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
