"""Critics that read a part of the state, i = f(s): V(h, i) and V(i). What does a critic need to know?"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float64, Int
from scipy.sparse.linalg import spsolve

from asymrl.theory.analysis import Analysis
from asymrl.theory.gradients import state_variance
from asymrl.theory.history_graph import BY_MEMORY
from asymrl.theory.values import Values
from asymrl.worlds.finite import FiniteWorld


@dataclass(frozen=True)
class SignalWorth:
    """What a critic gains from a signal, compared with no signal, V(h), and with the whole state, V(h, s)."""

    signal: str
    meaning: str
    explained: float | None
    """The share of E[Var(V(h, s) | h)] that the signal explains; None if V(h, s) does not vary."""
    variance_h: float
    variance_hi: float
    variance_hs: float
    """The variance of the one-episode gradient estimate with the exact critics V(h), V(h, i) and V(h, s)."""
    bias_i: float
    bias_s: float
    """The mean of |E[critic | h] - V(h)| over the histories of an episode, for V(i) and V(s) with TD(0) targets."""
    cosine_i: float | None
    cosine_s: float | None
    """The cosine of the gradient with V(i) or V(s) and the true one; None if one of them is zero."""


def signal_labels(world: FiniteWorld, name: str) -> Int[np.ndarray, "S"]:
    """A number for each state, equal for states with equal signals.

    Raises:
        ValueError: if the world has no such signal; it lists those that it has.
    """
    known = world.signals()
    if name not in known:
        raise ValueError(f"{world.name} has no signal {name!r}; choose one of {', '.join(known)}")
    signals = np.asarray(jax.vmap(known[name].of)(jnp.arange(world.pomdp().states)))
    return np.unique(signals.reshape(len(signals), -1), axis=0, return_inverse=True)[1].reshape(-1)


def V_history_signal(values: Values, label: Int[np.ndarray, "S"]) -> Float64[np.ndarray, "pairs"]:
    """V(h, i) = E[V(h, s) | h, f(s) = i] at each pair. Its mean given h is V(h), so it is unbiased for every f."""
    graph = values.graph
    _, group = np.unique(graph.node.astype(np.int64) * len(label) + label[graph.state], return_inverse=True)
    return (np.bincount(group, graph.belief * values.V_hs) / np.bincount(group, graph.belief))[group]


def V_signal(values: Values, label: Int[np.ndarray, "S"]) -> Float64[np.ndarray, "pairs"]:
    """V(i), to which a critic with TD(0) targets that reads the signal only converges while the policy stays.

    At open nodes nothing is learned, and the true value stands in.
    """
    graph, gamma = values.graph, values.discount
    visits = np.where(graph.acting, graph.mass, 0.0)
    visited, i = np.unique(label[graph.state[graph.acting]], return_inverse=True)
    pairs, size = np.flatnonzero(graph.acting), (len(visited), graph.pairs)
    share = visits[pairs] / np.bincount(i, visits[pairs])[i]
    mean = sparse.csr_array((share, (i, pairs)), shape=size)
    per_pair = sparse.csr_array((np.ones(len(pairs)), (pairs, i)), shape=size[::-1])
    beyond = np.where(graph.acting, 0.0, values.V_hs)
    paid = mean @ (graph.reward + gamma * (graph.P @ beyond))
    chain = sparse.eye_array(len(visited)) - gamma * (mean @ graph.P @ per_pair)
    return beyond + per_pair @ np.asarray(spsolve(sparse.csc_array(chain), paid)).reshape(-1)


def examine_signal(analysis: Analysis, world: FiniteWorld, name: str) -> SignalWorth:
    """What a critic of the analysed policy would gain from a signal.

    Raises:
        ValueError: if there is no such signal, no horizon, or too many beliefs.
    """
    label, graph, values = signal_labels(world, name), analysis.graph, analysis.values
    if graph.merged == BY_MEMORY or graph.stationary:
        raise ValueError(f"{world.name}: the worth of a signal needs a horizon, and few enough beliefs to list them")
    weight = np.where(graph.open, 0.0, graph.probability_of_node)
    V_hi = V_history_signal(values, label)
    spread = float(weight @ state_variance(values))
    left = float(weight @ graph.per_node(graph.belief * (values.V_hs - V_hi) ** 2))
    true = analysis.gradient()

    def of_states(critic: Float64[np.ndarray, "pairs"]) -> tuple[float, float | None]:
        bias = np.nan_to_num(analysis.value_bias(critic))
        cosine = analysis.gradient(critic).cosine(true)
        return float(weight @ np.abs(bias) / weight.sum()), None if np.isnan(cosine) else cosine

    (bias_i, cosine_i), (bias_s, cosine_s) = of_states(V_signal(values, label)), of_states(analysis.critics("td0"))
    return SignalWorth(
        signal=name,
        meaning=world.signals()[name].about,
        explained=1 - left / spread if spread > 1e-15 else None,
        variance_h=analysis.variance("h"),
        variance_hi=analysis.variance(V_hi),
        variance_hs=analysis.variance("hs"),
        bias_i=bias_i,
        bias_s=bias_s,
        cosine_i=cosine_i,
        cosine_s=cosine_s,
    )
