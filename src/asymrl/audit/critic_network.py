"""What a trained critic says along the histories of a graph."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from asymrl.models.agent import NO_ACTION, Critic, History
from asymrl.theory.graph import Graph

BATCH = 1 << 15  # pairs whose values are read at once


def critic_values(critic: Critic, graph: Graph, signal: np.ndarray) -> Float64[np.ndarray, "pairs"]:
    """What the critic says at each pair, layer by layer, so that only one layer is remembered at a time."""
    said = np.zeros(graph.pairs)
    carry = None
    for t in range(graph.layers):
        features = None
        if critic.history is not None:
            carry, features = _features(critic.history, graph, t, carry)
        for begin in range(graph.first_pair[t], graph.first_pair[t + 1], BATCH):
            pairs = np.arange(begin, min(begin + BATCH, graph.first_pair[t + 1]))
            rows = graph.node[pairs] - graph.first_node[t]
            known = None if features is None else _padded(features[rows])
            said[pairs] = np.asarray(_read(critic, known, _padded(signal[pairs])))[: len(pairs)]
    return said


def _padded(x: np.ndarray) -> np.ndarray:
    """With the last row repeated up to a power of two, so that few programs are compiled."""
    missing = (1 << (len(x) - 1).bit_length()) - len(x)
    return np.pad(x, ((0, missing), *[(0, 0)] * (x.ndim - 1)), "edge")


def _features(history: History, graph: Graph, t: int, carry: Any) -> tuple[Any, Float[np.ndarray, "nodes size"]]:
    """The memory and phi(h) of each node of a layer: one step from those of its parent."""
    nodes = np.arange(graph.first_node[t], graph.first_node[t + 1])
    if t == 0:
        carry = jax.tree.map(lambda leaf: np.asarray(leaf)[None], history.memory.initial(1))
    rows = graph.parent[nodes] - graph.first_node[t - 1] if t else np.zeros(nodes.size, int)
    before = graph.parent_action[nodes] if t else np.full(nodes.size, NO_ACTION)
    seen = np.where(graph.parent_observation[nodes] < 0, graph.pomdp.observations, graph.parent_observation[nodes])
    return _stepped(history, carry, rows, before, seen)


def _stepped(
    history: History, carry: Any, rows: np.ndarray, before: np.ndarray, seen: np.ndarray
) -> tuple[Any, np.ndarray]:
    """One step of many memories; padded to a power of two, so that few programs are compiled."""
    n = len(rows)
    rows, before, seen = _padded(np.stack([rows, before, seen], 1)).T
    carry = jax.tree.map(lambda leaf: leaf[rows], carry)
    carry, features = _advance(history, carry, before.astype(np.int32), seen.astype(np.int32))
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:n], carry), np.asarray(features)[:n]


@eqx.filter_jit
def _advance(history: History, carry: Any, before: Array | np.ndarray, seen: Array | np.ndarray) -> tuple[Any, Array]:
    def one(carry: Any, before: Array, seen: Array) -> tuple[Any, Array]:
        carry, features = history.step(carry, before[None], seen[None])
        return carry, features[0]

    with jax.default_matmul_precision("highest"):
        return jax.vmap(one)(carry, jnp.asarray(before), jnp.asarray(seen))


@eqx.filter_jit
def _read(critic: Critic, features: np.ndarray | None, signal: np.ndarray) -> Float[Array, "pairs"]:
    with jax.default_matmul_precision("highest"):
        known = None if features is None else jnp.asarray(features)
        return critic.read(known, jnp.asarray(signal), (signal.shape[0],))
