"""Policies without memory: uniformly random actions, and the best table pi(a; o) that gradient ascent finds.

The return of a table and its gradient are exact, on the chain of pairs (o, s): the last observation and the state.
Finding the best table is hard (there are local optima), so the result is the best of several starts: a policy that
exists, and a lower bound on the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy import optimize, sparse

from asymrl.theory.solvers.bounds import check_horizon
from asymrl.theory.solvers.deadline import Deadline
from asymrl.worlds.pomdp import Pomdp

ROUNDS = 200  # of natural gradient ascent from one start
STEP = 0.15  # by how much a typical advantage changes a logit in the first round


class TableReturn(NamedTuple):
    """The return of a table, its derivatives, and the discounted number of actions after each observation."""

    value: float
    gradient: Float64[np.ndarray, "O1 A"]
    visits: Float64[np.ndarray, "O1"]


class ReactiveChain:
    """The pairs (o, s) of a POMDP, on which memoryless policies are evaluated.

    The future depends on s and a only, so Q_t(s, a) needs no o, which only enters through pi(a; o).
    """

    def __init__(self, pomdp: Pomdp, horizon: int, discount: float):
        check_horizon(pomdp, horizon, discount)
        self.pomdp, self.horizon, self.discount = pomdp, horizon, discount
        S, goes_on = pomdp.states, ~pomdp.done
        constant = np.eye(1, pomdp.observations + 1, pomdp.observations).repeat(S, 0)
        first = constant if pomdp.first_observation is None else pomdp.first_observation
        first_s, first_o = np.nonzero(pomdp.start[:, None] * first)
        later = pomdp.observation[goes_on] * S + pomdp.next_state[goes_on]
        pairs, place = np.unique(np.concatenate([first_o * S + first_s, later]), return_inverse=True)
        self.o, self.s = np.divmod(pairs, S)
        begins = pomdp.start[first_s] * first[first_s, first_o]
        self.start = np.bincount(place[: first_s.size], begins, minlength=pairs.size)
        state, action = pomdp.rows()
        row = (state * pomdp.actions + action)[goes_on]
        entries = (pomdp.probability[goes_on], (row, place[first_s.size :]))
        self.ahead = sparse.csr_array(entries, shape=(S * pomdp.actions, pairs.size))
        self.onward = sparse.csr_array(self.ahead.T)
        self.R = pomdp.R()
        self.by_state = sparse.csr_array((np.ones(pairs.size), (self.s, np.arange(pairs.size))), shape=(S, pairs.size))
        self.by_observation = sparse.csr_array(
            (np.ones(pairs.size), (self.o, np.arange(pairs.size))), shape=(pomdp.observations + 1, pairs.size)
        )

    def value(self, pi: Float64[np.ndarray, "O1 A"]) -> float:
        """The return of pi(a; o)."""
        return self.evaluate(pi).value

    def evaluate(self, pi: Float64[np.ndarray, "O1 A"]) -> TableReturn:
        """J(pi), and dJ/dpi(a; o) = sum_t g^t sum_s Pr(O_t=o, S_t=s) Q_t(s,a)."""
        pi_of_pairs, S = pi[self.o], self.pomdp.states
        visits = np.empty((self.horizon, self.s.size))  # discounted
        mass = self.start
        for t in range(self.horizon):
            visits[t] = mass
            flow = np.asarray(self.by_state @ (mass[:, None] * pi_of_pairs))
            mass = self.discount * np.asarray(self.onward @ flow.ravel())
        V, weighted = np.zeros(self.s.size), np.zeros_like(pi_of_pairs)
        for t in reversed(range(self.horizon)):
            ahead = np.asarray(self.ahead @ V).reshape(S, -1)
            Q = (self.R + self.discount * ahead)[self.s]
            weighted += visits[t][:, None] * Q
            V = (pi_of_pairs * Q).sum(1)
        return TableReturn(float(self.start @ V), self.by_observation @ weighted, self.by_observation @ visits.sum(0))


@dataclass(frozen=True)
class Memoryless:
    """The best memoryless policy found, as a table pi(a; o) whose last row is for the constant first symbol."""

    value: float
    pi: Float64[np.ndarray, "O1 A"]


def uniform_return(pomdp: Pomdp, horizon: int, discount: float) -> float:
    """The exact return of uniformly random actions."""
    pi = np.full((pomdp.observations + 1, pomdp.actions), 1 / pomdp.actions)
    return ReactiveChain(pomdp, horizon, discount).value(pi)


def best_memoryless(
    pomdp: Pomdp,
    horizon: int,
    discount: float,
    *,
    starts: int = 8,
    seed: int = 0,
    rounds: int = ROUNDS,
    deadline: Deadline | None = None,
) -> Memoryless:
    """Gradient ascent with exact gradients from several random tables; returns the best result.

    Natural gradients come first, because plain ones stop early at tables that hardly explore; L-BFGS then converges to
    the local optimum. After the `deadline` there is no further start, but the first one is always finished.
    """
    if starts < 1:
        raise ValueError(f"starts is {starts!r}, expected at least 1")
    chain, rng = ReactiveChain(pomdp, horizon, discount), np.random.default_rng(seed)
    tables = []
    for i in range(starts):
        if i and deadline is not None and deadline.is_over:
            break
        logits = rng.normal(size=(pomdp.observations + 1, pomdp.actions))
        tables.append(_softmax(_climb(chain, _natural_ascent(chain, logits, rounds))))
    return max((Memoryless(chain.value(pi), pi) for pi in tables), key=lambda one: one.value)


def _natural_ascent(
    chain: ReactiveChain, logits: Float64[np.ndarray, "O1 A"], rounds: int
) -> Float64[np.ndarray, "O1 A"]:
    """Moves each logit by its advantage E[Q(s,a) - V(s) | o]: the natural gradient of a table of softmaxes."""
    for i in range(rounds):
        pi = _softmax(logits)
        now = chain.evaluate(pi)
        visits = np.maximum(now.visits, 1e-3)[:, None]  # rows of rare observations must not jump
        advantage = (now.gradient - (pi * now.gradient).sum(1, keepdims=True)) / visits
        typical = np.sqrt((visits * pi * advantage**2).sum() / visits.sum())
        if typical == 0:
            break
        logits = logits + STEP * (1 - i / rounds) * np.clip(advantage / typical, -5, 5)
    return logits


def _climb(chain: ReactiveChain, logits: Float64[np.ndarray, "O1 A"]) -> Float64[np.ndarray, "O1 A"]:
    def loss(flat: Float64[np.ndarray, "n"]) -> tuple[float, Float64[np.ndarray, "n"]]:
        pi = _softmax(flat.reshape(logits.shape))
        now = chain.evaluate(pi)
        slope = pi * (now.gradient - (pi * now.gradient).sum(1, keepdims=True))
        return -now.value, -slope.ravel()

    result = optimize.minimize(loss, logits.ravel(), jac=True, method="L-BFGS-B", options={"gtol": 1e-9})
    return result.x.reshape(logits.shape)


def _softmax(logits: Float64[np.ndarray, "O1 A"]) -> Float64[np.ndarray, "O1 A"]:
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)
