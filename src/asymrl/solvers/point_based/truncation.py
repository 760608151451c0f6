"""What bounds for endless episodes say about episodes that are cut off after h actions.

A plan for endless episodes loses g^h E[V(b_h)] when it is cut off. The best plan of h actions could be continued by any
other, which would add at least g^h E[V(b_h)]. In both cases the expectation is bounded by letting somebody who sees the
state choose the actions: to reach the best states for the lower bound, the worst ones for the upper one.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from asymrl.solvers.bounds import transition
from asymrl.solvers.point_based.hsvi import PointBased
from asymrl.worlds.pomdp import Pomdp

WORK = 100_000_000  # probabilities, after which actions are no longer followed: about a second
MIXED = 300  # plans of a mixture


def truncated(endless: PointBased, horizon: int) -> tuple[float, float]:
    """The lower and upper bound of the optimal return of `horizon` actions, from those of endless episodes."""
    pomdp, layer = endless.pomdp, endless.layers[0]
    tail = endless.discount**horizon
    above = layer.sawtooth.corners.max(0)
    below = steady_mixture(layer.vectors.alpha[layer.vectors.useful])
    low = endless.low - tail * _expected(pomdp, above, horizon, np.maximum)
    return low, endless.high - tail * _expected(pomdp, below, horizon, np.minimum)


def steady_mixture(alpha: Float64[np.ndarray, "n S"], rounds: int = MIXED) -> Float64[np.ndarray, "S"]:
    """The values of a mixture of plans that is nearly as good as possible in its worst state, by fictitious play."""
    weight, total = np.zeros(alpha.shape[1]), np.zeros(alpha.shape[1])
    for _ in range(rounds):
        weight[total.argmin()] += 1
        total += alpha[(alpha @ weight).argmax()]
    return total / rounds


def _expected(pomdp: Pomdp, values: Float64[np.ndarray, "S"], steps: int, extreme: np.ufunc) -> float:
    """The largest or smallest expected value of the state after some actions; an ended episode counts as zero."""
    chain = transition(pomdp)
    followed = min(steps, WORK // max(chain.nnz, 1))
    for _ in range(followed):
        values = extreme.reduce((chain @ values).reshape(pomdp.states, pomdp.actions), axis=1)
    return float(pomdp.start @ values if followed == steps else extreme(extreme.reduce(values), 0.0))
