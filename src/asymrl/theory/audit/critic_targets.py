"""What a critic is taught: the values to which its targets converge while the policy stays as it is."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int

from asymrl.settings import Settings
from asymrl.theory.audit.pair_signals import PairSignals
from asymrl.theory.exact.analysis import Analysis
from asymrl.theory.exact.history_graph import HistoryGraph

CONVERGED = 1e-10  # relative change of the values at which the iteration stops


def critic_inputs(graph: HistoryGraph, reads: str, signals: PairSignals) -> Int[np.ndarray, "pairs"]:
    """Numbers that are equal where the critic reads the same: the history, its signals, or both.

    Critic and actor have the same kind of memory, so histories that one cannot tell apart are the same to the other.
    """
    columns = [np.zeros(graph.pairs, int), *signals.columns()]
    if "h" in reads:
        columns.append(graph.parameter[graph.node])
    return np.unique(np.stack(columns, 1), axis=0, return_inverse=True)[1].reshape(-1)


def taught_values(
    analysis: Analysis, inputs: Int[np.ndarray, "pairs"], settings: Settings, *, drawn: bool = False
) -> Float64[np.ndarray, "pairs"]:
    """What a table with one entry for each input converges to under the targets of these settings.

    An entry is the mean of the targets over all visits. TD targets depend on the table itself; their fixed point is
    reached by iteration, which contracts.

    With `drawn`, the state of a pair is one that was drawn from the belief. The future does not depend on it, so
    targets and bootstraps are means over the states of a history.
    """
    graph, values = analysis.graph, analysis.values
    visits = np.where(graph.acting, graph.mass, 0.0)
    total = np.bincount(inputs, visits)
    weight = np.divide(visits, total[inputs], out=np.zeros(graph.pairs), where=visits > 0)

    def over_draws(x: Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "pairs"]:
        return graph.per_node(graph.belief * x)[graph.node] if drawn else x

    truth = over_draws(values.V_hs)

    def critic(table: Float64[np.ndarray, "inputs"]) -> Float64[np.ndarray, "pairs"]:
        # Where the agent never acts nothing is learned; the true value stands in.
        return np.where(total[inputs] > 0, table[inputs], truth)

    table = np.bincount(inputs, weight * truth)
    if settings.targets[0] == "mc":
        return critic(table)
    change = np.inf
    while change > CONVERGED * max(1.0, np.abs(table).max()):
        targets = over_draws(_expected_targets(graph, over_draws(critic(table)), settings))
        previous, table = table, np.bincount(inputs, weight * targets)
        change = np.abs(table - previous).max()
    return critic(table)


def _expected_targets(
    graph: HistoryGraph, critic: Float64[np.ndarray, "pairs"], settings: Settings
) -> Float64[np.ndarray, "pairs"]:
    """The expected TD(0), TD(n) or TD(lambda) target at each pair."""
    discount, (estimator, parameter) = settings.discount, settings.targets
    if estimator == "td-lambda":
        lambda_ = parameter
        one_step = graph.reward + discount * (1 - lambda_) * (graph.P @ critic)
        # A return that runs into an open pair ends with the critic's value there.
        return graph.backward(np.where(graph.acting, one_step, critic), discount * lambda_)
    for _ in range(1 if estimator == "td0" else int(parameter)):
        critic = np.where(graph.acting, graph.reward + discount * (graph.P @ critic), critic)
    return critic
