"""What bounds for endless episodes say about episodes that are cut off after h actions.

A plan for endless episodes loses g^h E[V(b_h)] when it is cut off. The best plan of h actions could be continued by any
other, which would add at least g^h E[V(b_h)]. In both cases the expectation is bounded by letting somebody who sees the
state choose the actions: to reach the best states for the lower bound, the worst ones for the upper one.

Where there is time, both bounds are computed step by step instead: the value of the endless plans when they are cut
off, and the sawtooth through the same points for each number of steps to go.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int
from scipy import sparse

from asymrl.solvers.bounds import fib, transition
from asymrl.solvers.deadline import Deadline
from asymrl.solvers.dynamic_programming import Plan, first_nodes
from asymrl.solvers.point_based.belief_layers import Backups
from asymrl.solvers.point_based.hsvi import PointBased
from asymrl.solvers.point_based.value_bounds import Vectors
from asymrl.worlds.pomdp import Pomdp

WORK = 100_000_000  # probabilities, after which actions are no longer followed: about a second
ENTRIES = 20_000_000  # probabilities that are kept to cut off plans
MIXED = 300  # plans of a mixture


@dataclass(frozen=True)
class Truncated:
    """Bounds on the optimal return of a number of actions; `plan` attains the lower one (None: any endless one)."""

    low: float
    high: float
    plan: Plan | None = None


def truncated(endless: PointBased, horizon: int, deadline: Deadline | None = None) -> Truncated:
    """The bounds of the optimal return of `horizon` actions, from those of endless episodes."""
    pomdp, layer, deadline = endless.pomdp, endless.layers[0], deadline or Deadline()
    tail = endless.discount**horizon
    above = layer.sawtooth.corners.max(0)
    below = steady_mixture(layer.vectors.alpha[layer.vectors.useful])
    low = endless.low - tail * _expected(pomdp, above, horizon, np.maximum)
    high = endless.high - tail * _expected(pomdp, below, horizon, np.minimum)
    attained, plan = _cut_off(endless, horizon, deadline)
    high = min(high, _stepwise_upper(endless, horizon, deadline))
    return Truncated(attained, high, plan) if attained > low else Truncated(low, high)


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


def _cut_off(endless: PointBased, horizon: int, deadline: Deadline) -> tuple[float, Plan | None]:
    """The return of the best plans at the start when they are cut off; minus infinity if they are too many."""
    pomdp, backups, plans = endless.pomdp, endless.layers[0].backups, endless.layers[0].vectors
    first = backups.model.first()
    roots = plans.best(first.beliefs.toarray())[0]
    numbers = _followed(plans, roots)
    action, then = plans.action[numbers], np.searchsorted(numbers, plans.then[numbers])
    size = sum(backups.outcomes(a)[0].size * np.count_nonzero(action == a) for a in range(pomdp.actions))
    if size > ENTRIES or size * horizon > 20 * WORK:
        return -np.inf, None
    chain = _plan_chain(backups, action, then)
    rewards, values = backups.R.T[action].ravel(), np.zeros(numbers.size * pomdp.states)
    for _ in range(horizon):
        if deadline.is_over:
            return -np.inf, None
        values = rewards + endless.discount * (chain @ values)
    node = np.searchsorted(numbers, roots)
    attained = (first.beliefs.toarray() * values.reshape(-1, pomdp.states)[node]).sum(1)
    columns = np.arange(numbers.size)[:, None], action[:, None], np.arange(pomdp.observations), then
    edges = np.stack(np.broadcast_arrays(*columns), -1).reshape(-1, 4)
    plan = Plan(action, first_nodes(pomdp, first.observation, node), edges, pomdp.actions)
    return float(first.probability @ attained), plan


def _followed(plans: Vectors, numbers: Int[np.ndarray, "k"]) -> Int[np.ndarray, "n"]:
    """Some plans and all those that may follow them, sorted."""
    reached, new = np.zeros(len(plans), bool), numbers
    while new.size:
        reached[new] = True
        following = np.unique(plans.then[new])
        new = following[~reached[following]]
    return np.flatnonzero(reached)


def _plan_chain(backups: Backups, action: Int[np.ndarray, "n"], then: Int[np.ndarray, "n O"]) -> sparse.csr_array:
    """The probabilities of the next plan and state: rows and columns are `plan * S + state`."""
    S, rows, columns, probabilities = backups.pomdp.states, [], [], []
    for a in range(backups.pomdp.actions):
        state, observation, next_state, probability = backups.outcomes(a)
        plan = np.flatnonzero(action == a)[:, None]
        rows.append((plan * S + state).ravel())
        columns.append((then[plan, observation] * S + next_state).ravel())
        probabilities.append(np.tile(probability, len(plan)))
    entries = np.concatenate(probabilities), (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array(entries, shape=(action.size * S, action.size * S))


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
