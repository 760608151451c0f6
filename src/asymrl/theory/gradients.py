"""Policy gradients, exactly: the true one in both its forms, and what an actor follows that listens to a critic.

The actor's estimator is one of those of training: "td0" (one step, then the critic), "td-lambda", or "mc" (returns
only). Whatever baseline b(h, s) it subtracts drops out: given the history, the action does not depend on the state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from asymrl.theory.graph import Graph
from asymrl.theory.values import Values, action_values

ESTIMATORS = ("td0", "td-lambda", "mc")
PARAMETERS = ("softmax", "direct")


@dataclass(frozen=True, eq=False)
class Gradient:
    """A gradient of the expected return with respect to the policy's table."""

    table: Float64[np.ndarray, "rows A"]
    """One row for each thing the policy can remember, as `Graph.parameter` numbers them."""

    @property
    def norm(self) -> float:
        return float(np.linalg.norm(self.table))

    def cosine(self, other: Gradient) -> float:
        """Of the angle to another gradient; NaN if one of them is zero."""
        size = self.norm * other.norm
        return float(np.sum(self.table * other.table) / size) if size > 0 else float("nan")

    def error(self, true: Gradient) -> float:
        """The norm of the difference."""
        return float(np.linalg.norm(self.table - true.table))


def estimated_values(
    values: Values, critic: Float64[np.ndarray, "pairs"], estimator: str = "td0", lambda_: float = 0.7
) -> Float64[np.ndarray, "pairs A"]:
    """E[estimate of Q | h, s, a]: what the actor is told on average; NaN for actions that are never taken."""
    graph, gamma = values.graph, values.discount
    if estimator == "td0":
        return action_values(graph, critic)
    if estimator == "mc":
        return values.Q_hsa
    if estimator != "td-lambda":
        raise ValueError(f"unknown estimator {estimator!r}; choose one of {', '.join(ESTIMATORS)}")
    gain = graph.reward + gamma * (1 - lambda_) * (graph.P @ critic)
    gain[~graph.acting] = critic[~graph.acting]
    later = graph.backward(gain, gamma * lambda_)
    return action_values(graph, (1 - lambda_) * critic + lambda_ * later)


def asymmetric_gradient(graph: Graph, Q_hsa: Float64[np.ndarray, "pairs A"], parameters: str = "softmax") -> Gradient:
    """E[sum_t gamma^t Q(h_t, s_t, a_t) grad log pi(a_t; h_t)] (paper, theorem "Asymmetric Policy Gradient").

    Also for any estimate of Q(h, s, a) in its place.
    """
    weight = graph.discounted_mass(graph.pomdp.discount)
    return _gathered(graph, graph.per_node(weight[:, None] * np.nan_to_num(Q_hsa)), parameters)


def symmetric_gradient(graph: Graph, Q_ha: Float64[np.ndarray, "nodes A"], parameters: str = "softmax") -> Gradient:
    """E[sum_t gamma^t Q(h_t, a_t) grad log pi(a_t; h_t)] (paper, eq. policy-gradient)."""
    weight = graph.per_node(graph.discounted_mass(graph.pomdp.discount))
    return _gathered(graph, weight[:, None] * np.nan_to_num(Q_ha), parameters)


def _gathered(graph: Graph, told: Float64[np.ndarray, "nodes A"], parameters: str) -> Gradient:
    """From sum_t gamma^t Pr(h) Q(h, a) at each node to the parameters of the policy.

    "softmax": pi is the softmax of a table, d log pi(a) / d theta(b) = [a = b] - pi(b). "direct": the table holds the
    probabilities themselves; the entry of an action that is never taken is 0, since its Q is not known.
    """
    if parameters not in PARAMETERS:
        raise ValueError(f"unknown parameters {parameters!r}; choose one of {', '.join(PARAMETERS)}")
    if parameters == "softmax":
        told = graph.pi * (told - np.sum(graph.pi * told, axis=1, keepdims=True))
    table = np.zeros((int(graph.parameter.max()) + 1, graph.pomdp.actions))
    np.add.at(table, graph.parameter, told)
    return Gradient(table)
