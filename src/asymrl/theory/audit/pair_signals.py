"""The exact inputs of a critic at each pair (h, s) of a graph: state, belief, time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse
from jaxtyping import Int

from asymrl.settings import Settings
from asymrl.theory.exact.history_graph import BY_MEMORY, HistoryGraph
from asymrl.theory.exact.readings import belief_classes
from asymrl.worlds.critic_inputs import BELIEF, SAMPLED_STATE, TIME
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.name_options import split_names

LARGEST_BATCH = 1 << 22  # probabilities of the beliefs that are read together


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
