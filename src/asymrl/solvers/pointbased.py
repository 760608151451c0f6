"""Point-based bounds where there are too many beliefs: heuristic search value iteration (Smith & Simmons).

The lower bound is a set of vectors, each the value of a plan in every state; its value at b is the largest b . alpha.
The upper bound interpolates between points (b, v) and the corners of the simplex ("sawtooth"). They start from the
quick bounds (blind policies, FIB), and every update keeps them valid. A trial goes from the start to where the two
differ most, by the best actions of the upper bound, and improves both on the way back.

With a horizon there are bounds for each number of steps to go; without one, the same bounds hold at every time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int
from scipy import sparse

from asymrl.solvers.belief_mdp import BeliefModel, Numbering, Successors
from asymrl.solvers.bounds import blind, fib
from asymrl.worlds.pomdp import Pomdp

PRECISION = 1e-3  # relative to the larger of the two bounds
SECONDS = 20.0
DEEPEST = 500  # steps of a trial without a horizon


class Vectors:
    """A lower bound: max over plans of b . alpha, and the first action of each plan."""

    def __init__(self, alpha: Float64[np.ndarray, "n S"], action: Int[np.ndarray, "n"]):
        self.alpha, self.action = alpha, action

    def at(self, beliefs: sparse.csr_array) -> Float64[np.ndarray, "N"]:
        return (beliefs @ self.alpha.T).max(1)

    def best(self, beliefs: sparse.csr_array) -> Int[np.ndarray, "N"]:
        """The number of the best plan in each belief."""
        return (beliefs @ self.alpha.T).argmax(1)

    def add(self, alpha: Float64[np.ndarray, "S"], action: int) -> None:
        """Adds a plan, and drops those that it dominates."""
        kept = np.flatnonzero((self.alpha > alpha).any(1))
        self.alpha = np.concatenate([self.alpha[kept], alpha[None]])
        self.action = np.append(self.action[kept], action)


class Sawtooth:
    """An upper bound: the lowest of the cones from points (b_i, v_i) to the values at the corners."""

    def __init__(self, corners: Float64[np.ndarray, "S"]):
        self.corners = corners
        self.points = np.zeros((0, corners.size))
        self.drops = np.zeros(0)
        """The distance of each point below the plane through the corners."""
        self.numbering = Numbering()

    def at(self, beliefs: sparse.csr_array) -> Float64[np.ndarray, "N"]:
        plain = beliefs @ self.corners
        if not self.drops.size:
            return plain
        return plain + np.array([self._drop(row) for row in beliefs.toarray()])

    def _drop(self, belief: Float64[np.ndarray, "S"]) -> float:
        """The lowest (v_i - b_i . corners) min_s b(s) / b_i(s), and never above zero."""
        inside = self.points > 0
        with np.errstate(over="ignore"):  # points with almost no weight on a state
            ratio = np.divide(belief, self.points, out=np.full_like(self.points, np.inf), where=inside).min(1)
        return float(min((self.drops * ratio).min(), 0.0))

    def add(self, belief: sparse.csr_array, value: float) -> None:
        """Adds a point, or lowers an existing one."""
        drop = value - float((belief @ self.corners)[0])
        (number,), fresh = self.numbering.add(belief)
        if fresh.size:
            self.points = np.concatenate([self.points, belief.toarray()])
            self.drops = np.append(self.drops, drop)
        else:
            self.drops[number] = min(self.drops[number], drop)


@dataclass
class PointBased:
    """Bounds on the optimal return, and the plans behind the lower one, by steps to go (one entry: for all times)."""

    pomdp: Pomdp
    discount: float
    lower: list[Vectors]
    upper: list[Sawtooth]
    low: float = -np.inf
    high: float = np.inf
    trials: int = field(default=0)

    def vectors(self, steps: int) -> Vectors:
        return self.lower[min(steps, len(self.lower) - 1)]

    def sawtooth(self, steps: int) -> Sawtooth:
        return self.upper[min(steps, len(self.upper) - 1)]

    def action(self, beliefs: Float64[np.ndarray, "N S"], time: Int[np.ndarray, "N"]) -> Float64[np.ndarray, "N A"]:
        """The actions of the plans in beliefs at times, as probabilities; their return is at least the lower bound."""
        chosen = np.zeros(len(beliefs), int)
        for t in np.unique(time):
            here = np.flatnonzero(time == t)
            plans = self.lower[max(len(self.lower) - 1 - int(t), 0)]
            chosen[here] = plans.action[plans.best(sparse.csr_array(beliefs[here]))]
        return np.eye(self.pomdp.actions)[chosen]


def point_based(
    pomdp: Pomdp,
    horizon: int | None,
    discount: float,
    *,
    precision: float = PRECISION,
    seconds: float = SECONDS,
) -> PointBased:
    """Tightens the bounds until they nearly meet or the time is over.

    Args:
        pomdp: the world.
        horizon: the largest number of actions, or None for no limit.
        discount: below 1 if there is no horizon.
        precision: the distance of the bounds at which to stop, relative to the larger bound.
        seconds: the time after which no new trial starts.
    """
    below, above = blind(pomdp, horizon, discount), fib(pomdp, horizon, discount)
    bounds = PointBased(
        pomdp,
        discount,
        [Vectors(alpha, np.arange(pomdp.actions)) for alpha in below.vectors],
        [Sawtooth(alpha.max(0)) for alpha in above.vectors],
    )
    trial, model = _Trial(bounds, BeliefModel(pomdp)), BeliefModel(pomdp)
    first, steps = model.first(), DEEPEST if horizon is None else horizon
    deadline = time.monotonic() + seconds
    while True:
        gap = bounds.sawtooth(steps).at(first.beliefs) - bounds.vectors(steps).at(first.beliefs)
        bounds.low = float(first.probability @ bounds.vectors(steps).at(first.beliefs))
        bounds.high = float(first.probability @ bounds.sawtooth(steps).at(first.beliefs))
        allowed = precision * max(1.0, abs(bounds.low), abs(bounds.high))
        if bounds.high - bounds.low <= allowed or time.monotonic() > deadline:
            return bounds
        worst = int((first.probability * gap).argmax())
        trial.run(first.beliefs[[worst]], steps, allowed / 2)
        bounds.trials += 1


class _Trial:
    """A path to where the bounds differ most, and the improvements on the way back."""

    def __init__(self, bounds: PointBased, model: BeliefModel):
        self.bounds, self.model = bounds, model
        pomdp = bounds.pomdp
        self.goes_on = ~pomdp.done
        state, action = pomdp.rows()
        self.row = (state * pomdp.actions + action)[self.goes_on]
        self.pair = (action * pomdp.observations + pomdp.observation)[self.goes_on]
        self.next_state = pomdp.next_state[self.goes_on]
        self.probability = pomdp.probability[self.goes_on]
        self.R = pomdp.R()

    def run(self, belief: sparse.csr_array, steps: int, allowed: float) -> None:
        bounds, path = self.bounds, []
        while steps > 0:
            after = self.model.successors(belief)
            path.append((belief, steps, after))
            over, under = bounds.sawtooth(steps - 1).at(after.beliefs), bounds.vectors(steps - 1).at(after.beliefs)
            action = int(self._q(belief, after, over).argmax())
            allowed = allowed / bounds.discount if bounds.discount else np.inf
            excess = np.where(after.action == action, after.probability * (over - under - allowed), -np.inf)
            if not excess.size or excess.max() <= 0:
                break
            belief, steps = after.beliefs[[int(excess.argmax())]], steps - 1
        for belief, steps, after in reversed(path):
            self._improve(belief, steps, after)

    def _q(
        self, belief: sparse.csr_array, after: Successors, values: Float64[np.ndarray, "E"]
    ) -> Float64[np.ndarray, "A"]:
        ahead = np.bincount(after.action, after.probability * values, minlength=self.bounds.pomdp.actions)
        return self.model.rewards(belief)[0] + self.bounds.discount * ahead

    def _improve(self, belief: sparse.csr_array, steps: int, after: Successors) -> None:
        """Adds a point to the upper bound and, if it is an improvement, a plan to the lower one."""
        bounds = self.bounds
        over = bounds.sawtooth(steps - 1).at(after.beliefs)
        bounds.sawtooth(steps).add(belief, float(self._q(belief, after, over).max()))
        plans = bounds.vectors(steps - 1)
        action = int(self._q(belief, after, plans.at(after.beliefs)).argmax())
        # After observations that are impossible here any plan is valid; this takes the first.
        then = np.zeros(bounds.pomdp.actions * bounds.pomdp.observations, int)
        then[after.action * bounds.pomdp.observations + after.observation] = plans.best(after.beliefs)
        ahead = np.bincount(
            self.row, self.probability * plans.alpha[then[self.pair], self.next_state], minlength=self.R.size
        )
        alpha = (self.R + bounds.discount * ahead.reshape(self.R.shape))[:, action]
        if float((belief @ alpha)[0]) > float(bounds.vectors(steps).at(belief)[0]):
            bounds.vectors(steps).add(alpha, action)
