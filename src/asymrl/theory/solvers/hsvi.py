"""Point-based bounds where there are too many beliefs: heuristic search value iteration (Smith & Simmons).

Vectors bound the optimal value from below and a sawtooth from above. They start from the quick bounds (blind policies,
FIB), and every update keeps them valid. A trial goes from the start to where the two differ most, by the best actions
of the upper bound, and improves both on the way back. Then the upper bounds of all visited beliefs are lowered at once.
From time to time, without a horizon, both bounds are improved in all visited beliefs, and the upper one in known
states: they are the corners between which the sawtooth interpolates.

With a horizon there is a layer of beliefs for each number of steps to go; without one, a single layer below itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int
from threadpoolctl import threadpool_limits

from asymrl.theory.solvers.belief_layers import Backups, BeliefLayer
from asymrl.theory.solvers.bounds import blind, fib
from asymrl.theory.solvers.deadline import Deadline
from asymrl.theory.solvers.value_bounds import Sawtooth, Vectors
from asymrl.worlds.pomdp import Pomdp

PRECISION = 1e-3  # relative to the larger of the two bounds
SECONDS = 20.0
SMALLEST = 0.1  # returns below this count as this large, since a return of zero has no relative precision
DEEPEST = 500  # steps of a trial without a horizon
NUMBERS = 40_000_000  # probabilities of all successors together, beyond which solving stops
NOTABLE = 0.02  # the share of the distance of the bounds by which a point has to sink to be compared again
GROWTH, ROUNDS = 1.08, 3  # plans and corners are improved when beliefs have grown by this factor, in this many rounds
REFRESH = 1.2  # growth of the beliefs after which all of them are compared with new points
AIM = 0.9  # a trial ends where the bounds are closer than this share of the distance at the start (as discounted)


@dataclass
class PointBased:
    """Bounds on the optimal return, and the plans behind the lower one, by steps to go (one entry: for all times)."""

    pomdp: Pomdp
    discount: float
    layers: list[BeliefLayer]
    low: float = -np.inf
    high: float = np.inf
    trials: int = field(default=0)

    @property
    def visited(self) -> int:
        """The number of beliefs that were visited (of pairs of belief and time, with a horizon)."""
        return sum(len(layer) for layer in self.layers)

    def action(self, beliefs: Float64[np.ndarray, "N S"], time: Int[np.ndarray, "N"]) -> Float64[np.ndarray, "N A"]:
        """The actions of the plans in beliefs at times, as probabilities; their return is at least the lower bound."""
        actions = np.zeros(len(beliefs), int)
        for t in np.unique(time):
            here = np.flatnonzero(time == t)
            plans = self.layers[max(len(self.layers) - 1 - int(t), 0)].vectors
            actions[here] = plans.action[plans.best(beliefs[here])[0]]
        return np.eye(self.pomdp.actions)[actions]


@threadpool_limits.wrap(limits=1, user_api="blas")  # its many small products wait for each other's threads
def point_based(
    pomdp: Pomdp,
    horizon: int | None,
    discount: float,
    *,
    precision: float = PRECISION,
    seconds: float = SECONDS,
    deadline: Deadline | None = None,
) -> PointBased:
    """Tightens the bounds until they nearly meet or the time is over.

    Args:
        pomdp: the world.
        horizon: the largest number of actions, or None for no limit.
        discount: below 1 if there is no horizon.
        precision: the distance of the bounds at which to stop, relative to the larger bound.
        seconds: the time limit.
        deadline: replaces `seconds`.
    """
    deadline = deadline or Deadline(seconds)
    below, above = blind(pomdp, horizon, discount, deadline=deadline), fib(pomdp, horizon, discount, deadline=deadline)
    backups = Backups(pomdp, discount)
    layers = []
    for alpha, beta in zip(below.vectors, above.vectors, strict=True):
        vectors, sawtooth = Vectors(alpha, np.arange(pomdp.actions), pomdp.observations), Sawtooth(beta)
        layers.append(BeliefLayer(backups, vectors, sawtooth, layers[-1] if layers else None))
    if horizon is None:
        layers[0].below = layers[0]
    bounds = PointBased(pomdp, discount, layers)
    first = backups.model.first()
    roots, top = first.beliefs.toarray(), layers[-1]
    visited, refreshed = 0, 0
    while True:
        over, under = top.sawtooth.at(roots), top.vectors.at(roots)
        bounds.low = max(bounds.low, float(first.probability @ under))
        bounds.high = min(bounds.high, float(first.probability @ over))
        deadline.tell(
            lambda: (
                f"tightening: optimal return between {bounds.low:.5g} and {bounds.high:.5g}, {bounds.visited} beliefs"
            )
        )
        gap = bounds.high - bounds.low
        allowed = precision * max(SMALLEST, abs(bounds.low), abs(bounds.high))
        if gap <= allowed or deadline.is_over or sum(layer.numbers for layer in layers) > NUMBERS:
            return bounds
        for layer in layers:
            layer.notable = NOTABLE * gap
        worst = int((first.probability * (over - under)).argmax())
        _trial(roots[worst], top, max(allowed / 2, AIM * gap), deadline)
        for layer in layers[1:] if len(layers) > 1 else layers:
            layer.sweep()
        bounds.trials += 1
        if horizon is None and bounds.visited > GROWTH * visited:
            for _ in range(ROUNDS):
                top.lower_corners(deadline)
            if bounds.visited > REFRESH * refreshed:
                top.refresh_all(deadline)
                refreshed = bounds.visited
            for _ in range(ROUNDS):
                top.raise_plans(deadline)
            visited = bounds.visited


def _trial(belief: Float64[np.ndarray, "S"], layer: BeliefLayer, allowed: float, deadline: Deadline) -> None:
    """A path to where the bounds differ most, and the improvements on the way back."""
    path, discount = [], layer.backups.discount
    while layer.below is not None and len(path) < DEEPEST and not deadline.is_over:
        node = layer.visit(belief)
        path.append((layer, node))
        layer.refresh(np.array([node]))
        allowed = allowed / discount if discount else np.inf
        edges, over = layer.edges_of(node), layer.over_of(node)
        action = int(layer.q(node, over).argmax())
        excess = edges["probability"] * (over - edges["lower"] - allowed)
        excess = np.where(edges["action"] == action, excess, -np.inf)
        if not excess.size or excess.max() <= 0:
            break
        belief, layer = layer.successors_of(node)[int(excess.argmax())], layer.below
    for layer, node in reversed(path):
        if deadline.is_over:
            return
        layer.improve(node)
