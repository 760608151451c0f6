"""Point-based bounds where there are too many beliefs: heuristic search value iteration (Smith & Simmons).

Vectors bound the optimal value from below and a sawtooth from above. They start from the quick bounds (blind policies,
FIB), and every update keeps them valid. A trial goes from the start to where the two differ most, by the best actions
of the upper bound, and improves both on the way back. Then the upper bounds of all visited beliefs are lowered at once.
From time to time, without a horizon, both bounds are improved in all visited beliefs, and the upper one in known
states: they are the corners between which the sawtooth interpolates.

With a horizon there is a layer of beliefs for each number of steps to go; without one, a single layer below itself.

Bounds for endless episodes also bound those that are cut off after h actions. A plan for endless episodes loses
g^h E[V(b_h)] when it is cut off. The best plan of h actions could be continued by any other, which would add at least
g^h E[V(b_h)]. In both cases the expectation is bounded by letting somebody who sees the state choose the actions: to
reach the best states for the lower bound, the worst ones for the upper one. Where there is time, both are computed step
by step: what the plans of the lower bound expect after h actions, and the sawtooth through the same points for each
number of steps to go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int
from threadpoolctl import threadpool_limits

from asymrl.theory.exact.policies import Controller
from asymrl.theory.solvers.bounds import blind, fib, transition
from asymrl.theory.solvers.deadline import Deadline
from asymrl.theory.solvers.dynamic_programming import Plan, first_nodes
from asymrl.theory.solvers.hsvi_layers import Backups, BeliefLayer
from asymrl.theory.solvers.hsvi_values import Sawtooth, Vectors
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
WORK = 100_000_000  # probabilities, after which actions are no longer followed: about a second
FOLLOWED = 5_000_000  # outcomes of plans at each step, beyond which the less likely plans are not followed
UNLIKELY = 1e-7  # probability of a plan that is not followed
MIXED = 300  # plans of a mixture


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


@dataclass(frozen=True)
class Truncated:
    """Bounds on the optimal return of a limited number of actions."""

    low: float
    high: float
    make_controller: Callable[[], Controller] | None = None
    """A policy that attains the lower bound; None: the one for endless episodes does."""


def truncated(endless: PointBased, horizon: int, deadline: Deadline | None = None) -> Truncated:
    """The bounds of the optimal return of `horizon` actions, from those of endless episodes."""
    pomdp, layer, deadline = endless.pomdp, endless.layers[0], deadline or Deadline()
    tail = endless.discount**horizon
    above = layer.sawtooth.corners.max(0)
    below = steady_mixture(layer.vectors.alpha[layer.vectors.useful])
    low = endless.low - tail * _expected(pomdp, above, horizon, np.maximum)
    high = endless.high - tail * _expected(pomdp, below, horizon, np.minimum)
    attained = endless.low - tail * _worth_after(endless, horizon, deadline)
    high = min(high, _stepwise_upper(endless, horizon, deadline))
    return Truncated(low, high) if low >= attained else Truncated(attained, high, lambda: _controller(endless))


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


def _worth_after(endless: PointBased, steps: int, deadline: Deadline) -> float:
    """At most what the plans for endless episodes expect after some steps; infinite if there is not enough time.

    Follows the probabilities of plans and states. Unlikely plans count as if they reached the best state.
    """
    backups, plans = endless.layers[0].backups, endless.layers[0].vectors
    first, S = backups.model.first(), endless.pomdp.states
    most = max(float(endless.layers[0].sawtooth.corners.max()), 0.0)
    joint = first.probability[:, None] * first.beliefs.toarray()
    numbers, place = np.unique(plans.best(joint)[0], return_inverse=True)
    mass, lost = np.zeros((numbers.size, S)), 0.0
    np.add.at(mass, place, joint)
    for _ in range(steps):
        if deadline.is_over:
            return np.inf
        following = np.unique(plans.then[numbers])
        after = np.zeros(following.size * S)
        for a in np.unique(plans.action[numbers]):
            state, observation, next_state, probability = backups.outcomes(a)
            some = plans.action[numbers] == a
            plan = np.searchsorted(following, plans.then[numbers[some]])[:, observation]
            weights = mass[some][:, state] * probability
            after += np.bincount((plan * S + next_state).ravel(), weights.ravel(), minlength=after.size)
        mass, total = after.reshape(-1, S), after.reshape(-1, S).sum(1)
        likely = np.argsort(-total)[: max(FOLLOWED // max(backups.most_outcomes, 1), 1)]
        likely = np.sort(likely[total[likely] > UNLIKELY])
        lost += float(total.sum() - total[likely].sum())
        numbers, mass = following[likely], mass[likely]
    return float((mass * plans.alpha[numbers]).sum()) + lost * most


def _controller(endless: PointBased) -> Controller:
    """The best plans at the start as a policy."""
    pomdp, plans, first = endless.pomdp, endless.layers[0].vectors, endless.layers[0].backups.model.first()
    roots = plans.best(first.beliefs.toarray())[0]
    reached, new = np.zeros(len(plans), bool), roots
    while new.size:
        reached[new] = True
        following = np.unique(plans.then[new])
        new = following[~reached[following]]
    numbers = np.flatnonzero(reached)
    action, then = plans.action[numbers], np.searchsorted(numbers, plans.then[numbers])
    columns = np.arange(numbers.size)[:, None], action[:, None], np.arange(pomdp.observations), then
    edges = np.stack(np.broadcast_arrays(*columns), -1).reshape(-1, 4)
    nodes = first_nodes(pomdp, first.observation, np.searchsorted(numbers, roots))
    return Plan(action, nodes, edges, pomdp.actions).controller()


def _stepwise_upper(endless: PointBased, horizon: int, deadline: Deadline) -> float:
    """The upper bound from all visited beliefs, step by step; infinite if there is not enough time."""
    pomdp, layer = endless.pomdp, endless.layers[0]
    if not len(layer) or horizon * pomdp.states * pomdp.actions > WORK:
        return np.inf
    quick = fib(pomdp, horizon, endless.discount).vectors
    values = layer.upper_with_steps(quick, deadline)
    if values is None:
        return np.inf
    first = layer.backups.model.first()
    bounds = [
        (first_belief @ quick[-1].T).max() if (node := layer.find(first_belief)) is None else values[node].max()
        for first_belief in first.beliefs.toarray()
    ]
    return float(first.probability @ bounds)
