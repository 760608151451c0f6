"""Quick bounds on the optimal value of a POMDP: QMDP and FIB from above, blind policies from below.

All three have one vector for each action and number of steps to go: the bound at a belief b is max_a b . alpha_a.
They need no search and cost about as much as solving the MDP of the states:

* QMDP assumes that the state is observed after the next action. It sees no value in gathering information.
* FIB, the fast informed bound, assumes that the previous state is known when the next action is chosen, but of the
  current state only the observation. It is never above QMDP (and equal to it where moves and observations are
  deterministic given the state), and costs |A| times as much.
* The blind policies repeat one action forever. The return of the best one can be reached by any agent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy import sparse

from asymrl.worlds.pomdp import Pomdp

PRECISION = 1e-10  # distance of bounds without a horizon from their fixed point


@dataclass(frozen=True)
class Bound:
    """Vectors `[k, A, S]`: with k steps to go, no value is above (`upper`) or below max_a b . vectors[k, a].

    Without a horizon there is a single k, for any number of steps to go.
    """

    name: str
    upper: bool
    vectors: Float64[np.ndarray, "K A S"]

    def at(self, beliefs: sparse.csr_array, steps: int = -1) -> Float64[np.ndarray, "N"]:
        """The bound at each belief with this number of steps to go (-1: all of them)."""
        return (beliefs @ self.vectors[min(steps, len(self.vectors) - 1)].T).max(1)

    def at_start(self, pomdp: Pomdp) -> float:
        """The bound on the return, averaged over the first observations."""
        if pomdp.first_observation is None:
            return float((self.vectors[-1] @ pomdp.start).max())
        joint = pomdp.start[:, None] * pomdp.first_observation
        return float((self.vectors[-1] @ joint).max(0).sum())


def qmdp(pomdp: Pomdp, horizon: int | None, discount: float) -> Bound:
    """Upper bound: Q(s, a) of the MDP in which the state is observed."""
    chain = transition(pomdp)

    def backup(alpha: Float64[np.ndarray, "A S"]) -> Float64[np.ndarray, "A S"]:
        return (chain @ alpha.max(0)).reshape(pomdp.states, pomdp.actions).T

    return Bound("QMDP", True, _iterate(pomdp, backup, horizon, discount, upper=True))


def fib(pomdp: Pomdp, horizon: int | None, discount: float) -> Bound:
    """Upper bound: R(s,a) + g sum_o max_a' sum_s' Pr(s',o|s,a) alpha_a'(s')."""
    goes_on = ~pomdp.done
    state, action = pomdp.rows()
    triple = ((state * pomdp.actions + action) * pomdp.observations + pomdp.observation)[goes_on]
    group, row = np.unique(triple, return_inverse=True)
    entries = (pomdp.probability[goes_on], (row, pomdp.next_state[goes_on]))
    joint = sparse.csr_array(entries, shape=(group.size, pomdp.states))
    pair = group // pomdp.observations

    def backup(alpha: Float64[np.ndarray, "A S"]) -> Float64[np.ndarray, "A S"]:
        best = (joint @ alpha.T).max(1) if group.size else np.zeros(0)
        return np.bincount(pair, best, minlength=pomdp.states * pomdp.actions).reshape(pomdp.states, -1).T

    return Bound("FIB", True, _iterate(pomdp, backup, horizon, discount, upper=True))


def blind(pomdp: Pomdp, horizon: int | None, discount: float) -> Bound:
    """Lower bound: the value of always taking the same action, one vector for each."""
    chain = transition(pomdp)
    row = np.arange(pomdp.states) * pomdp.actions
    one_action = [chain[row + a] for a in range(pomdp.actions)]

    def backup(alpha: Float64[np.ndarray, "A S"]) -> Float64[np.ndarray, "A S"]:
        return np.stack([one @ values for one, values in zip(one_action, alpha, strict=True)])

    return Bound("blind", False, _iterate(pomdp, backup, horizon, discount, upper=False))


def transition(pomdp: Pomdp) -> sparse.csr_array:
    """Pr(s', the episode goes on | s, a): row `s * A + a`, a column for each next state."""
    state, action = pomdp.rows()
    goes_on = ~pomdp.done
    entries = (pomdp.probability[goes_on], ((state * pomdp.actions + action)[goes_on], pomdp.next_state[goes_on]))
    return sparse.csr_array(entries, shape=(pomdp.states * pomdp.actions, pomdp.states))


def check_horizon(pomdp: Pomdp, horizon: int | None, discount: float) -> None:
    """Refuses a horizon and a discount for which returns are not defined."""
    if not 0 <= discount <= 1:
        raise ValueError(f"{pomdp.name}: discount is {discount!r}, expected a number between 0 and 1")
    if horizon is not None and horizon < 0:
        raise ValueError(f"{pomdp.name}: horizon is {horizon!r}, expected a number of steps, or None for no limit")
    if horizon is None and discount == 1:
        raise ValueError(f"{pomdp.name}: an endless undiscounted return may not exist; give a horizon or a discount")


def _iterate(
    pomdp: Pomdp,
    backup: Callable[[Float64[np.ndarray, "A S"]], Float64[np.ndarray, "A S"]],
    horizon: int | None,
    discount: float,
    *,
    upper: bool,
) -> Float64[np.ndarray, "K A S"]:
    """Applies R + g backup, `horizon` times or until it converges.

    Without a horizon it starts from the best (worst) reward forever, so that each iterate is a bound itself.
    """
    check_horizon(pomdp, horizon, discount)
    R = np.ascontiguousarray(pomdp.R().T)
    if horizon is not None:
        vectors = np.zeros((horizon + 1, pomdp.actions, pomdp.states))
        for k in range(horizon):
            vectors[k + 1] = R + discount * backup(vectors[k])
        return vectors
    # An episode that has ended pays nothing, so zero is among the rewards that can repeat forever.
    extreme = max(R.max(), 0.0) if upper else min(R.min(), 0.0)
    alpha, change = np.full_like(R, extreme / (1 - discount)), np.inf
    while change > PRECISION * (1 - discount):
        previous, alpha = alpha, R + discount * backup(alpha)
        change = np.abs(alpha - previous).max()
    return alpha[None]
