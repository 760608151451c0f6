"""What a critic is told at each pair (h, s) of a graph, exactly: its state, its belief, its time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse
from jaxtyping import Int

from asymrl.settings import Settings
from asymrl.theory.graphs.history_graph import BY_MEMORY, HistoryGraph
from asymrl.theory.readings import belief_classes
from asymrl.worlds.critic_inputs import BELIEF, SAMPLED_STATE, TIME
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.name_options import split_names

LARGEST_BATCH = 1 << 22  # numbers of the beliefs that are read together


class PairSignals:
    """What a critic of some settings is told at the pairs of a graph.

    If it is told sampled states, the state of a pair is the one that was drawn: as every state of the belief can be
    drawn, and with its probability, these pairs are the pairs of the graph with their mass.
    """

    def __init__(self, world: FiniteWorld, graph: HistoryGraph, settings: Settings):
        """Raises ValueError if the graph does not have what the critic is told."""
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
        """How many pairs should be asked about at once; None: any number."""
        return LARGEST_BATCH // self.graph.pomdp.states if BELIEF in self.names else None

    def __call__(self, pairs: Int[np.ndarray, "n"]) -> Any:
        """What the critic is told at these pairs, `[n, ...]`, or by name if that is several; None if nothing."""
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
        """Numbers of each pair, all equal where the critic is told the same."""
        graph, everywhere = self.graph, np.arange(self.graph.pairs)
        columns: list[np.ndarray] = []
        for name in self.names:
            if name == BELIEF:
                columns.append(belief_classes(graph)[graph.node])
            else:
                columns += list(self._part(name, everywhere).reshape(graph.pairs, -1).T)
        return columns
