"""Trained networks along histories: an actor as a policy for exact arithmetic, a critic's inputs and its values.

The memory of a history is one step from that of its parent and is never computed from scratch. Batches are padded to
powers of two, so that few programs are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse
from jaxtyping import Array, Float, Float64, Int

from asymrl.nn.agent import Actor, Critic
from asymrl.nn.distributions import NO_ACTION, Greedy
from asymrl.nn.history import History
from asymrl.nn.memory import Carry, Window
from asymrl.settings import Settings
from asymrl.theory.exact.history_graph import BY_MEMORY, HistoryGraph
from asymrl.theory.exact.policies import HistoryPolicy
from asymrl.theory.exact.readings import belief_classes
from asymrl.worlds.critic_inputs import BELIEF, SAMPLED_STATE, TIME
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.name_options import split_names

SMALLEST, LARGEST = 64, 8192  # histories that advance together
PAIRS = 1 << 15  # pairs whose values are read together
EMPTY = -2  # fills a window before the episode has begun
LARGEST_BATCH = 1 << 22  # probabilities of the beliefs that are read together


class ActorMemory(NamedTuple):
    """The memory of each history and the policy's parameters; for a window policy, also its content."""

    carry: Carry
    logits: Float[np.ndarray, "n A"]  # or action values, of a greedy policy
    window: Int[np.ndarray, "n k 2"]


class TrainedActor(HistoryPolicy):
    """pi(a; h) of a network.

    An actor with a window cannot distinguish histories with the same last pairs; any other remembers everything.
    """

    def __init__(self, actor: Actor, *, greedy: bool = False):
        """`greedy`: always takes the likeliest action, as in greedy playback."""
        self.actor, self.greedy = actor, greedy or isinstance(actor.distribution, Greedy)
        memory = actor.history.memory
        self.length = memory.length if isinstance(memory, Window) else 0

    def begin(self, o: Int[np.ndarray, "n"]) -> ActorMemory:
        window = np.full((1, self.length, 2), EMPTY)
        nothing = ActorMemory(_initial(self.actor.history), np.zeros((1, 0), np.float32), window)
        return self.advance(nothing, np.zeros(len(o), int), np.full(len(o), NO_ACTION), o)

    def advance(
        self, memory: Any, rows: Int[np.ndarray, "m"], a: Int[np.ndarray, "m"], o: Int[np.ndarray, "m"]
    ) -> ActorMemory:
        carry, features = _advanced(self.actor.history, memory.carry, rows, a, o)
        logits = np.concatenate(
            [np.asarray(_logits(self.actor, _padded(part)))[: len(part)] for part in _batches(features, LARGEST)]
        )
        window = memory.window[rows]
        if self.length:
            window = np.concatenate([window[:, 1:], np.stack([a, o], -1)[:, None]], axis=1)
        return ActorMemory(carry, logits, window)

    def act(self, memory: Any) -> Float64[np.ndarray, "n A"]:
        if self.greedy:
            return np.eye(memory.logits.shape[1])[memory.logits.argmax(1)]
        logits = memory.logits.astype(float)
        weights = np.exp(logits - logits.max(1, keepdims=True))
        return weights / weights.sum(1, keepdims=True)

    def keys(self, memory: Any) -> Int[np.ndarray, "n k"] | None:
        return memory.window.reshape(len(memory.window), -1) if self.length else None

    def rows(self, memory: Any, rows: Int[np.ndarray, "m"]) -> ActorMemory:
        return jax.tree.map(lambda leaf: leaf[rows], memory)

    def joined(self, one: Any, other: Any) -> ActorMemory:
        return jax.tree.map(lambda x, y: np.concatenate([x, y]), one, other)


def critic_values(
    critic: Critic, graph: HistoryGraph, told: Callable[[Int[np.ndarray, "n"]], Any], *, batch: int | None = None
) -> Float64[np.ndarray, "pairs"]:
    """What the critic says at each pair of an unrolled graph.

    It goes layer by layer, so that only the memories of one layer are held at a time.

    Args:
        critic: the network.
        graph: of the policy that it judges.
        told: gives its inputs besides the history at some pairs, `[n, ...]`; see `PairSignals`.
        batch: the largest number of pairs to read at once.
    """
    size = min(PAIRS, 1 << (max(batch, SMALLEST).bit_length() - 1)) if batch else PAIRS
    values, carry = np.zeros(graph.pairs), None
    for t in range(graph.layers):
        features = None
        if critic.history is not None:
            carry, features = _layer_features(critic.history, graph, t, carry)
        for pairs in _batches(np.arange(graph.first_pair[t], graph.first_pair[t + 1]), size):
            read = None if features is None else _padded(features[graph.node[pairs] - graph.first_node[t]])
            signal = jax.tree.map(_padded, told(pairs))
            values[pairs] = np.asarray(_read(critic, read, signal))[: len(pairs)]
    return values


def _layer_features(history: History, graph: HistoryGraph, t: int, carry: Any) -> tuple[Any, np.ndarray]:
    """The memory and phi(h) of each node of a layer."""
    nodes = np.arange(graph.first_node[t], graph.first_node[t + 1])
    observed = graph.parent_observation[nodes]
    o = np.where(observed < 0, graph.pomdp.observations, observed)
    if t == 0:
        return _advanced(history, _initial(history), np.zeros(nodes.size, int), np.full(nodes.size, NO_ACTION), o)
    return _advanced(history, carry, graph.parent[nodes] - graph.first_node[t - 1], graph.parent_action[nodes], o)


def _initial(history: History) -> Carry:
    """The memory of one history before anything was observed, with a leading axis for histories."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], history.memory.initial(1))


def _advanced(
    history: History, carry: Carry, rows: np.ndarray, a: np.ndarray, o: np.ndarray
) -> tuple[Carry, Float[np.ndarray, "m size"]]:
    """The memories and phi(h) of m longer histories: number j extends `rows[j]` by (a[j], o[j])."""
    parts = []
    for batch in _batches(np.stack([rows, a, o], 1), LARGEST):
        row, action, observed = _padded(batch).T
        part = jax.tree.map(lambda leaf, row=row: leaf[row], carry)
        after, n = _step(history, part, action.astype(np.int32), observed.astype(np.int32)), len(batch)
        parts.append(jax.tree.map(lambda leaf, n=n: np.asarray(leaf)[:n], after))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _batches(x: np.ndarray, size: int) -> list[np.ndarray]:
    return [x[i : i + size] for i in range(0, len(x), size)]


def _padded(x: np.ndarray) -> np.ndarray:
    """The rows, with the last one repeated up to a power of two."""
    size = max(SMALLEST, 1 << (len(x) - 1).bit_length())
    return np.pad(x, ((0, size - len(x)), *[(0, 0)] * (x.ndim - 1)), "edge")


@eqx.filter_jit
def _step(history: History, carry: Carry, a: np.ndarray, o: np.ndarray) -> tuple[Carry, Float[Array, "n size"]]:
    def one(carry: Carry, a: Array, o: Array) -> tuple[Carry, Array]:
        carry, features = history.step(carry, a[None], o[None])
        return carry, features[0]

    with jax.default_matmul_precision("highest"):
        return jax.vmap(one)(carry, jnp.asarray(a), jnp.asarray(o))


@eqx.filter_jit
def _logits(actor: Actor, features: np.ndarray) -> Float[Array, "n A"]:
    with jax.default_matmul_precision("highest"):
        return actor.policy(jnp.asarray(features))


@eqx.filter_jit
def _read(critic: Critic, features: np.ndarray | None, signal: Any) -> Float[Array, "n"]:
    signal_arrays = jax.tree.map(jnp.asarray, signal)
    with jax.default_matmul_precision("highest"):
        batch = jax.tree.leaves((features, signal))[0].shape[:1]
        return critic.in_rewards(critic.read(None if features is None else jnp.asarray(features), signal_arrays, batch))


class PairSignals:
    """The inputs of a critic at the pairs of a graph, besides the history.

    If it reads sampled states, the state of a pair is the one that was drawn: each state of the belief is drawn with
    its probability, so these pairs are the pairs of the graph with their mass.
    """

    def __init__(self, world: FiniteWorld, graph: HistoryGraph, settings: Settings):
        """Raises ValueError if the graph lacks an input of the critic."""
        self.graph, self.time_limit = graph, settings.horizon
        self.names = split_names(settings.critic_sees) if "s" in settings.how.reads else ()
        self.drawn = SAMPLED_STATE in self.names
        if self.drawn and settings.reads_state:
            sees = f"{world.name}: the critic is told {settings.critic_sees}"
            raise ValueError(f"{sees}; one that reads a state and a sampled state cannot be audited")
        if graph.merged == BY_MEMORY and (self.drawn or BELIEF in self.names):
            raise ValueError(f"{world.name}: a belief critic is audited along histories; choose a smaller horizon")
        states = jnp.arange(graph.pomdp.states)
        signals = {name: signal for name, signal in world.signals().items() if name in self.names}
        self._tables = {name: np.asarray(jax.vmap(signal.of)(states)) for name, signal in signals.items()}

    @property
    def batch(self) -> int | None:
        """How many pairs should be read at once; None: any number."""
        return LARGEST_BATCH // self.graph.pomdp.states if BELIEF in self.names else None

    def __call__(self, pairs: Int[np.ndarray, "n"]) -> Any:
        """The critic's inputs at these pairs, `[n, ...]`, by name if there are several; None if there are none."""
        signals = {name: self._part(name, pairs) for name in self.names}
        return signals if len(signals) > 1 else next(iter(signals.values()), None)

    def _part(self, name: str, pairs: Int[np.ndarray, "n"]) -> np.ndarray:
        graph = self.graph
        if name == TIME:
            return np.minimum(graph.time[graph.node[pairs]], self.time_limit).astype(np.int32)
        if name == SAMPLED_STATE:
            return graph.state[pairs].astype(np.int32)
        if name == BELIEF:
            return self._beliefs()[graph.node[pairs]].toarray().astype(np.float32)
        return self._tables[name][graph.state[pairs]]

    def _beliefs(self) -> sparse.csr_array:
        graph = self.graph
        return sparse.csr_array((graph.belief, (graph.node, graph.state)), shape=(graph.nodes, graph.pomdp.states))

    def columns(self) -> list[Int[np.ndarray, "pairs"]]:
        """Numbers of each pair, all equal where the critic's inputs are."""
        graph, everywhere = self.graph, np.arange(self.graph.pairs)
        columns: list[np.ndarray] = []
        for name in self.names:
            if name == BELIEF:
                columns.append(belief_classes(graph)[graph.node])
            else:
                columns += list(self._part(name, everywhere).reshape(graph.pairs, -1).T)
        return columns
