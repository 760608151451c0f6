"""What bounds for endless episodes say about episodes that are cut off after h actions.

A plan for endless episodes loses g^h E[V(b_h)] when it is cut off. The best plan of h actions could be continued by any
other, which would add at least g^h E[V(b_h)]. In both cases the expectation is bounded by letting somebody who sees the
state choose the actions: to reach the best states for the lower bound, the worst ones for the upper one.

Where there is time, both are computed step by step: what the plans of the lower bound expect after h actions, and
the sawtooth through the same points for each number of steps to go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from asymrl.theory.exact.policies import Controller
from asymrl.theory.solvers.bounds import fib, transition
from asymrl.theory.solvers.deadline import Deadline
from asymrl.theory.solvers.dynamic_programming import Plan, first_nodes
from asymrl.theory.solvers.hsvi import PointBased
from asymrl.worlds.pomdp import Pomdp

WORK = 100_000_000  # probabilities, after which actions are no longer followed: about a second
FOLLOWED = 5_000_000  # outcomes of plans at each step, beyond which the less likely plans are not followed
UNLIKELY = 1e-7  # probability of a plan that is not followed
MIXED = 300  # plans of a mixture


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
