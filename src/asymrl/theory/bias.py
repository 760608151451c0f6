"""How wrong a critic is about histories: in its value, and in what it tells the actor. These are different things."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from asymrl.theory.values import Values


def value_bias(values: Values, critic: Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "nodes"]:
    """E[critic | h] - V(h) at each node; NaN where no action follows."""
    graph = values.graph
    bias = graph.per_node(graph.belief * critic) - values.V_h
    return np.where(graph.open, np.nan, bias)


def gradient_bias(values: Values, Q_estimate: Float64[np.ndarray, "pairs A"]) -> Float64[np.ndarray, "nodes A"]:
    """E[estimate of Q(h, s, a) | h] - Q(h, a), less its mean over the policy.

    The mean drops out of the gradient: only what favours one action over another moves the actor. NaN for actions
    that are never taken.
    """
    graph = values.graph
    bias = graph.per_node(graph.belief[:, None] * np.nan_to_num(Q_estimate)) - np.nan_to_num(values.Q_ha)
    centred = bias - np.sum(graph.pi * bias, axis=1, keepdims=True)
    return np.where(graph.pi > 0, centred, np.nan)
