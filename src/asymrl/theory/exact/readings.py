"""What a critic may read, and the values that it then learns: V(s), V(b), V(h, s~b), V(s, t), V(h, i), ...

A reading is the probability of each value x of the critic's inputs at each pair (h, s). For most inputs x is certain;
a state drawn from the belief is not. While the policy stays as it is, a table V(x) trained with TD(0) targets converges
to the fixed point

    V(x) = E[r + gamma V(x') | x],

where the mean is over all visits of x. With Monte-Carlo targets it converges to E[return | x].
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float64, Int

from asymrl.theory.exact.histories import TooLargeError
from asymrl.theory.exact.history_graph import BY_MEMORY, HistoryGraph, solve_chain
from asymrl.theory.exact.values import Values
from asymrl.worlds.critic_inputs import SYMBOLS, critic_symbol, input_names, signal_meanings
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.world import World

TARGETS = ("td0", "mc")
LARGEST = 20_000_000  # pairs times states that can be drawn there
SAME_BELIEF = 1e-9  # beliefs that differ by less count as equal


def signal_labels(world: FiniteWorld, name: str) -> Int[np.ndarray, "S"]:
    """A number for each state, equal for states with equal signals."""
    signals = np.asarray(jax.vmap(world.signals()[name].of)(jnp.arange(world.pomdp().states)))
    return np.unique(signals.reshape(len(signals), -1), axis=0, return_inverse=True)[1].reshape(-1)


@dataclass(frozen=True, eq=False)
class Reading:
    """What a critic reads at each pair of a graph."""

    graph: HistoryGraph
    share: sparse.csr_array
    """The probability of each value x of the inputs at each pair, `[pairs, X]`."""
    first: Int[np.ndarray, "layers1"] | None
    """Where the values x of each layer begin, if no x occurs at two times; otherwise None."""

    @property
    def visits(self) -> Float64[np.ndarray, "X"]:
        """How often each x is read where the agent acts."""
        return self.share.T @ np.where(self.graph.acting, self.graph.mass, 0.0)

    def mean(self, y: Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "X"]:
        """E[y | x] over the visits of each x; over all pairs where the agent never acts with x."""
        graph, visits = self.graph, self.visits
        acting = np.where(graph.acting, graph.mass, 0.0)
        some, anywhere = self.share.T @ (acting * y), self.share.T @ (graph.mass * y)
        total = np.maximum(self.share.T @ graph.mass, np.finfo(float).tiny)
        return np.where(visits > 0, some / np.where(visits > 0, visits, 1.0), anywhere / total)


def read(graph: HistoryGraph, sees: str, history: bool, world: FiniteWorld | None = None) -> Reading:
    """The reading of a critic.

    Args:
        graph: of the policy.
        sees: "state", "belief", "sampled-state", "time", a signal, a sum of them such as "state+time", or "" for none.
        history: whether the critic also reads the history.
        world: the world with its signals; None if only its tables are known.

    Raises:
        ValueError: if there is no such input, or the graph does not have it.
        TooLargeError: if too many states can be drawn. A subclass of ValueError.
    """
    parts = named_inputs(graph.pomdp.name, sees, world)
    _check(graph, sees, parts, history)
    if "sampled-state" in parts:
        pair, drawn = _draws(graph)
        probability = graph.belief[drawn]
    else:
        pair = drawn = np.arange(graph.pairs)
        probability = np.ones(graph.pairs)
    node, x = graph.node[pair], np.zeros(len(pair), int)
    timed = not graph.stationary and (history or "time" in parts)
    for column in (
        *([graph.time[node]] if timed else []),  # first, so that the values x of a layer are contiguous
        *([node] if history else []),
        *([belief_classes(graph)[node]] if "belief" in parts else []),
        *([graph.state[drawn]] if "sampled-state" in parts else []),
        *([graph.state[pair]] if "state" in parts else []),
        *(signal_labels(world, part)[graph.state[pair]] for part in parts if world is not None and part not in SYMBOLS),
    ):
        x = np.unique(x * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
    size = int(x.max(initial=0)) + 1
    share = sparse.csr_array((probability, (pair, x)), shape=(graph.pairs, size))
    first = None
    if timed:
        time = np.zeros(size, int)
        time[x] = graph.time[node]
        first = np.searchsorted(time, np.arange(graph.layers + 1))
    return Reading(graph, share, first)


def named_inputs(name: str, sees: str, world: World | None = None) -> tuple[str, ...]:
    """The names in a sum such as "state+time"; none for "".

    Args:
        name: of the world, for the message.
        sees: what the critic sees.
        world: the world with its signals; None if only its tables are known.

    Raises:
        ValueError: if there is no such input, or one is named twice.
    """
    symbols = SYMBOLS if world is None else signal_meanings(world)
    return input_names(sees, symbols, name) if sees else ()


def _check(graph: HistoryGraph, sees: str, parts: tuple[str, ...], history: bool) -> None:
    """Raises ValueError if the graph lacks an input of the critic."""
    name = graph.pomdp.name
    if graph.merged == BY_MEMORY and (history or {"belief", "sampled-state"} & set(parts)):
        raise ValueError(
            f"{name}: {critic_symbol(sees, history)} needs a graph of beliefs, and here are too many; "
            "choose a smaller horizon or a mass below 1"
        )
    if graph.stationary and "time" in parts:
        raise ValueError(f"{name}: a critic that reads the time needs a horizon")


def _draws(graph: HistoryGraph) -> tuple[Int[np.ndarray, "draws"], Int[np.ndarray, "draws"]]:
    """For each pair every state that can be drawn from the belief there: the pair, and the pair with that state."""
    order = np.argsort(graph.node, kind="stable")
    size = np.bincount(graph.node, minlength=graph.nodes)
    count = size[graph.node]
    if count.sum() > LARGEST:
        raise TooLargeError(f"{graph.pomdp.name}: {count.sum()} states can be drawn, more than {LARGEST}")
    pair = np.repeat(np.arange(graph.pairs), count)
    begin = (np.cumsum(size) - size)[graph.node]
    place = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
    return pair, order[begin[pair] + place]


def belief_classes(graph: HistoryGraph) -> Int[np.ndarray, "nodes"]:
    """A number for each node, equal for equal beliefs, whatever the time and the memory.

    Beliefs that were reached in different ways differ by rounding, so they are compared by gaps: two random projections
    of each belief are sorted, and a new class begins after each gap.
    """
    rng, classes = np.random.default_rng(0), np.zeros(graph.nodes, int)
    for _ in range(2):
        weight = rng.random(graph.pomdp.states)
        projection = graph.per_node(graph.belief * weight[graph.state])
        order = np.argsort(projection, kind="stable")
        number = np.zeros(graph.nodes, int)
        number[order] = np.concatenate([[0], np.cumsum(np.diff(projection[order]) > SAME_BELIEF)])
        classes = np.unique(classes * (int(number.max()) + 1) + number, return_inverse=True)[1]
    return classes


@dataclass(frozen=True, eq=False)
class LearnedCritic:
    """A table V(x) and what it says at each pair of the graph."""

    reading: Reading
    table: Float64[np.ndarray, "X"]

    @property
    def V(self) -> Float64[np.ndarray, "pairs"]:
        """E[V(x) | h, s]: the mean over draws, if a state is drawn."""
        return self.reading.share @ self.table

    @property
    def noise(self) -> Float64[np.ndarray, "pairs"]:
        """Var(V(x) | h, s): zero unless a state is drawn."""
        share, V = self.reading.share, self.V
        pair = np.repeat(np.arange(len(V)), np.diff(share.indptr))
        return np.bincount(pair, share.data * (self.table[share.indices] - V[pair]) ** 2, minlength=len(V))


def learn(values: Values, reading: Reading, targets: str = "td0") -> LearnedCritic:
    """The table that a critic converges to while the policy stays as it is.

    An x that is only met at open nodes is never learned; its true mean stands in.

    Args:
        values: of the policy.
        reading: what the critic reads.
        targets: "td0" or "mc".
    """
    if targets not in TARGETS:
        raise ValueError(f"targets={targets!r}: choose 'td0' or 'mc'")
    true_mean = reading.mean(values.V_hs)
    if targets == "mc":
        return LearnedCritic(reading, true_mean)
    solve = _solve_backward if reading.first is not None else _solve
    return LearnedCritic(reading, solve(values, reading, true_mean))


def _solve(values: Values, reading: Reading, table: Float64[np.ndarray, "X"]) -> Float64[np.ndarray, "X"]:
    """The fixed point as a linear system."""
    graph, gamma, visits = reading.graph, values.discount, reading.visits
    learned, held = np.flatnonzero(visits > 0), np.where(visits > 0, 0.0, table)
    share = sparse.csc_array(reading.share)[:, learned]
    weight = np.where(graph.acting, graph.mass, 0.0)
    average = sparse.csr_array(sparse.diags_array(1 / visits[learned]) @ share.T @ sparse.diags_array(weight))
    constant = average @ (graph.reward + gamma * (graph.P @ (reading.share @ held)))
    held[learned] = solve_chain(average @ graph.P @ share, constant, gamma)
    return held


def _solve_backward(values: Values, reading: Reading, table: Float64[np.ndarray, "X"]) -> Float64[np.ndarray, "X"]:
    """The fixed point from the last layer to the first, where no x occurs at two times."""
    graph, gamma, visits, first = reading.graph, values.discount, reading.visits, reading.first
    assert first is not None
    table, V = table.copy(), reading.share @ table
    weight = np.where(graph.acting, graph.mass, 0.0)
    for t in reversed(range(graph.layers)):
        rows, x = slice(graph.first_pair[t], graph.first_pair[t + 1]), slice(first[t], first[t + 1])
        targets = graph.reward[rows] + gamma * (graph.layer_P[t] @ V)
        here = reading.share[rows, x]
        total = here.T @ (weight[rows] * targets)
        table[x] = np.where(visits[x] > 0, total / np.where(visits[x] > 0, visits[x], 1.0), table[x])
        V[rows] = here @ table[x]
    return table
