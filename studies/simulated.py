"""The variance of gradient estimates by simulation, where there are too many beliefs to sum over.

Only the average over episodes is simulated. The critics are exact, V(h) too: along an episode the belief is known, and
V(h) = E[V(z, s) | h] for a policy with the memory z.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int

from asymrl.runs.statistics import mean_and_error
from asymrl.theory.exact.analysis import Analysis
from asymrl.theory.exact.beliefs import first_belief, next_beliefs
from asymrl.theory.exact.history_graph import HistoryGraph
from asymrl.theory.exact.values import Values


@dataclass(frozen=True, eq=False)
class SimulatedEpisodes:
    """Episodes of a policy, as paths through its graph. Arrays are `[time, episode]`; -1 or 0 after the end."""

    graph: HistoryGraph
    edges: Int[np.ndarray, "T N"]
    V_h: Float64[np.ndarray, "T N"]
    """V(h) before each action."""

    @property
    def valid(self) -> Bool[np.ndarray, "T N"]:
        return self.edges >= 0

    def critic(self, V: Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "T N"]:
        """The values of a critic that is given at each pair."""
        return np.where(self.valid, V[self.graph.source[self.edges]], 0.0)

    def squared_sizes(self, V: Float64[np.ndarray, "T N"], lambda_: float) -> Float64[np.ndarray, "N"]:
        """|sum_t gamma^t A_t grad log pi(a_t; z_t)|^2 of each episode, for a softmax with a row for each memory."""
        graph, gamma = self.graph, self.graph.pomdp.discount
        T, N = self.edges.shape
        reward = np.where(self.valid, graph.pomdp.reward[graph.outcome[self.edges]], 0.0)
        advantage, later = np.zeros((T + 1, N)), np.concatenate([V, np.zeros((1, N))])
        for t in reversed(range(T)):
            delta = reward[t] + gamma * later[t + 1] - V[t]
            advantage[t] = delta + gamma * lambda_ * advantage[t + 1]
        weight = (gamma ** np.arange(T)[:, None] * advantage[:T])[self.valid]
        node, action = graph.node[graph.source[self.edges]][self.valid], graph.action[self.edges][self.valid]
        rows = int(graph.parameter.max()) + 1
        place = np.nonzero(self.valid)[1] * rows + graph.parameter[node]
        total = np.zeros(N)
        for b in range(graph.pomdp.actions):
            score = (action == b) - graph.pi[node, b]
            total += np.sum(np.bincount(place, weight * score, minlength=N * rows).reshape(N, rows) ** 2, axis=1)
        return total


def simulate(analysis: Analysis, episodes: int, seed: int = 0) -> SimulatedEpisodes:
    """Draws episodes of an analysed policy whose graph has a horizon; the graph may be one of memories."""
    graph, values, rng = analysis.graph, analysis.values, np.random.default_rng(seed)
    pomdp = graph.pomdp
    order = np.argsort(graph.source, kind="stable")
    ends = np.cumsum(np.bincount(graph.source, minlength=graph.pairs))
    # The edges of a pair have probabilities that sum to 1, so that one sorted array serves all pairs.
    upto = np.cumsum(graph.probability[order])
    offsets = np.concatenate([[0.0], upto])[np.concatenate([[0], ends[:-1]])]
    pair = rng.choice(graph.pairs, episodes, p=graph.start)
    belief = np.tile(first_belief(pomdp), (episodes, 1))
    edges, V_h = np.full((graph.layers, episodes), -1), np.zeros((graph.layers, episodes))
    for t in range(graph.layers):
        here = np.flatnonzero(pair >= 0)
        if not here.size:
            break
        V_h[t, here] = _mean_values(values, graph, pair[here], belief[here])
        source = pair[here]
        place = np.searchsorted(upto, offsets[source] + rng.random(here.size) * (1 - 1e-12), side="right")
        edge = order[np.minimum(place, ends[source] - 1)]
        edges[t, here] = edge
        pair[here] = graph.target[edge]
        on = here[pair[here] >= 0]
        if on.size:
            taken = edges[t, on]
            observed = pomdp.observation[graph.outcome[taken]]
            belief[on] = next_beliefs(pomdp, belief[on], graph.action[taken], observed)[0]
    return SimulatedEpisodes(graph, edges, V_h)


def _mean_values(
    values: Values, graph: HistoryGraph, pair: Int[np.ndarray, "n"], belief: Float64[np.ndarray, "n S"]
) -> Float64[np.ndarray, "n"]:
    """E[V(z, s) | h] at the nodes of these pairs, which belong to one layer."""
    t = int(graph.time[graph.node[pair[0]]])
    rows, first = slice(graph.first_pair[t], graph.first_pair[t + 1]), int(graph.first_node[t])
    table = np.zeros((int(graph.first_node[t + 1]) - first, graph.pomdp.states))
    table[graph.node[rows] - first, graph.state[rows]] = values.V_hs[rows]
    return np.sum(belief * table[graph.node[pair] - first], axis=1)


def simulated_variances(
    analysis: Analysis,
    critics: Mapping[tuple[str, float], Float64[np.ndarray, "pairs"] | None],
    means: Mapping[tuple[str, float], float],
    episodes: int,
    seed: int = 0,
) -> dict[tuple[str, float], tuple[float, float]]:
    """The variance of the gradient estimate of each critic and lambda, and the standard error of that number.

    Args:
        analysis: of the policy.
        critics: the values of each critic at each pair; None for V(h).
        means: the norm of the expected estimate.
        episodes: how many to draw.
        seed: of the draws.
    """
    drawn, variances = simulate(analysis, episodes, seed), {}
    for (name, lambda_), V in critics.items():
        sizes = drawn.squared_sizes(drawn.V_h if V is None else drawn.critic(V), lambda_)
        mean, error = mean_and_error(sizes)
        variances[name, lambda_] = float(mean - means[name, lambda_] ** 2), float(error)
    return variances
