"""Quick bounds on the optimal value of a POMDP: QMDP and FIB from above, blind policies from below.

All three have one vector for each action and number of steps to go: the bound at a belief b is max_a b . alpha_a.
They need no search and cost about as much as solving the MDP of the states:

* QMDP assumes that the state is observed after the next action. It sees no value in gathering information.
* FIB, the fast informed bound, assumes that the previous state is known when the next action is chosen, but only the
  observation of the current one. It is never above QMDP (and equal to it where moves and observations are
  deterministic given the state), and costs |A| times as much.
* The blind policies repeat one action forever. The return of the best one can be reached by any agent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int
from scipy import sparse
from scipy.sparse import linalg

from asymrl.theory.solvers.deadline import Deadline
from asymrl.worlds.pomdp import Pomdp

PRECISION = 1e-10  # distance of bounds without a horizon from their fixed point
ROUNDING = 1e-15  # of a backup, relative to the largest value
SOLVED = 5_000  # the largest number of values to find by solving linear equations


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


def qmdp(pomdp: Pomdp, horizon: int | None, discount: float, *, deadline: Deadline | None = None) -> Bound:
    """Upper bound: Q(s, a) of the MDP in which the state is observed."""
    chain = transition(pomdp)

    def backup(alpha: Float64[np.ndarray, "A S"]) -> Float64[np.ndarray, "A S"]:
        return (chain @ alpha.max(0)).reshape(pomdp.states, pomdp.actions).T

    def choices(alpha: Float64[np.ndarray, "A S"]) -> sparse.csr_array:
        parts = chain.tocoo()
        return _matrix(pomdp, parts.row, alpha.argmax(0)[parts.col], parts.col, parts.data)

    return Bound("QMDP", True, _iterate(pomdp, backup, choices, horizon, discount, upper=True, deadline=deadline))


def fib(pomdp: Pomdp, horizon: int | None, discount: float, *, deadline: Deadline | None = None) -> Bound:
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

    def choices(alpha: Float64[np.ndarray, "A S"]) -> sparse.csr_array:
        parts = joint.tocoo()
        best = (joint @ alpha.T).argmax(1) if group.size else np.zeros(0, int)
        return _matrix(pomdp, pair[parts.row], best[parts.row], parts.col, parts.data)

    return Bound("FIB", True, _iterate(pomdp, backup, choices, horizon, discount, upper=True, deadline=deadline))


def blind(pomdp: Pomdp, horizon: int | None, discount: float, *, deadline: Deadline | None = None) -> Bound:
    """Lower bound: the value of always taking the same action, one vector for each."""
    chain = transition(pomdp)
    row = np.arange(pomdp.states) * pomdp.actions
    one_action = [chain[row + a] for a in range(pomdp.actions)]

    def backup(alpha: Float64[np.ndarray, "A S"]) -> Float64[np.ndarray, "A S"]:
        return np.stack([one @ values for one, values in zip(one_action, alpha, strict=True)])

    def choices(alpha: Float64[np.ndarray, "A S"]) -> sparse.csr_array:
        parts = chain.tocoo()
        return _matrix(pomdp, parts.row, parts.row % pomdp.actions, parts.col, parts.data)

    return Bound("blind", False, _iterate(pomdp, backup, choices, horizon, discount, upper=False, deadline=deadline))


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


def _matrix(
    pomdp: Pomdp,
    pair: Int[np.ndarray, "n"],
    action: Int[np.ndarray, "n"],
    state: Int[np.ndarray, "n"],
    probability: Float64[np.ndarray, "n"],
) -> sparse.csr_array:
    """A backup with its choices fixed: from pairs `s * A + a` to vectors `[A, S]`, both flattened."""
    s, a = np.divmod(pair, pomdp.actions)
    size = pomdp.actions * pomdp.states
    entries = (probability, (a * pomdp.states + s, action * pomdp.states + state))
    return sparse.csr_array(entries, shape=(size, size))


def _iterate(
    pomdp: Pomdp,
    backup: Callable[[Float64[np.ndarray, "A S"]], Float64[np.ndarray, "A S"]],
    choices: Callable[[Float64[np.ndarray, "A S"]], sparse.csr_array],
    horizon: int | None,
    discount: float,
    *,
    upper: bool,
    deadline: Deadline | None,
) -> Float64[np.ndarray, "K A S"]:
    """Applies R + g backup, `horizon` times or until it converges or the time is over.

    Without a horizon, let C be the largest change of one step, or zero if all are negative. The fixed point is at most
    C g / (1 - g) above the last iterate, and likewise below: a valid bound, however early the iteration stops.
    """
    check_horizon(pomdp, horizon, discount)
    R, deadline = np.ascontiguousarray(pomdp.R().T), deadline or Deadline()
    if horizon is not None:
        vectors = np.zeros((horizon + 1, pomdp.actions, pomdp.states))
        for k in range(horizon):
            vectors[k + 1] = R + discount * backup(vectors[k])
        return vectors
    alpha = np.zeros_like(R)
    if R.size <= SOLVED:
        alpha = _fixed_point(R, choices, discount, deadline)
    while True:
        previous, alpha = alpha, R + discount * backup(alpha)
        change = alpha - previous
        least, most = min(change.min(), 0.0), max(change.max(), 0.0)
        rounding = ROUNDING * np.abs(alpha).max()
        if (most - least) * discount <= max(PRECISION * (1 - discount), rounding) or deadline.is_over:
            return (alpha + (most if upper else least) * discount / (1 - discount))[None]


def _fixed_point(
    R: Float64[np.ndarray, "A S"],
    choices: Callable[[Float64[np.ndarray, "A S"]], sparse.csr_array],
    discount: float,
    deadline: Deadline,
) -> Float64[np.ndarray, "A S"]:
    """Howard's policy iteration, which needs few steps even if the discount is nearly 1; up to rounding."""
    alpha, previous = R, None
    while not deadline.is_over:
        matrix = choices(alpha)
        if previous is not None and abs(matrix - previous).sum() == 0:
            break
        chain = sparse.identity(R.size, format="csc") - discount * matrix.tocsc()
        solution = np.asarray(linalg.spsolve(chain, R.ravel())).reshape(R.shape)
        if previous is not None and np.max(solution - alpha) <= 1e3 * ROUNDING * np.abs(solution).max():
            return solution
        alpha, previous = solution, matrix
    return alpha
