"""Values of states under a policy that does not see states, and the values of each kind of ideal critic.

There are several state values, and they differ. With the time there are two: the mean return from a state at a time,
which Monte-Carlo targets estimate, and the recursion of the paper's appendix "Timed Value Functions", which TD targets
estimate. Without the time there is none in general; while the policy stays as it is, a critic converges to averages
over visits, which depend on its targets: Monte-Carlo, TD(0) or TD(lambda).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Bool, Float64
from scipy.sparse.linalg import LinearOperator, gmres

from asymrl.theory.exact.history_graph import HistoryGraph
from asymrl.theory.exact.readings import LearnedCritic, learn, read
from asymrl.theory.exact.values import Values

DENSE = 30_000_000  # pairs times states up to which TD(lambda) is solved directly
BLOCK = 2_000_000  # of these at a time, to limit memory
NEGLIGIBLE = 1e-14  # discount or probability at which an endless recursion stops
CRITICS = ("h", "hs", "timed-mc", "timed-td", "mc", "td0", "td-lambda")
"""V(h); V(h, s); the two timed V_t(s); V(s) without time from Monte-Carlo, TD(0) and TD(lambda) targets."""


@dataclass(frozen=True, eq=False)
class StateValues:
    """Values of states; NaN at states that are never visited."""

    values: Values

    @property
    def graph(self) -> HistoryGraph:
        return self.values.graph

    def mass_at(self, t: int) -> Float64[np.ndarray, "pairs"]:
        """Pr(H_t = h, S_t = s)."""
        graph = self.graph
        if graph.stationary:
            return self._endless_masses[t]
        return np.where(graph.time[graph.node] == t, graph.mass, 0.0)

    @property
    def times(self) -> int:
        """The number of time steps, including the end of the graph if that is open."""
        return len(self._endless_masses) if self.graph.stationary else self.graph.layers

    @cached_property
    def _endless_masses(self) -> list[Float64[np.ndarray, "pairs"]]:
        graph, discount = self.graph, self.graph.pomdp.discount
        count = math.ceil(math.log(NEGLIGIBLE) / math.log(discount)) if 0 < discount < 1 else 2
        masses = [graph.start]
        for _ in range(count if discount < 1 else 10_000):
            masses.append(graph.P.T @ masses[-1])
            if masses[-1].sum() < NEGLIGIBLE:
                break
        return masses

    @cached_property
    def timed_mc(self) -> Float64[np.ndarray, "T S"]:
        """E[return | S_t = s]: the conditional expectation."""
        V = self.values.V_hs
        return np.stack([self._mean(self.mass_at(t), V) for t in range(self.times)])

    @cached_property
    def timed_td(self) -> Float64[np.ndarray, "T S"]:
        """V_t(s) = sum_a Pr(A_t=a | S_t=s) (R(s, a) + gamma E[V_{t+1}(s')]) (appendix, eq. vts and qtsa)."""
        V = self.timed_mc.copy()  # at an open end both kinds are the same
        last = len(V) - 1 if self.graph.stationary or self.graph.open.any() else len(V)
        following = np.nan_to_num(V[last]) if last < len(V) else np.zeros(self.graph.pomdp.states)
        for t in reversed(range(last)):
            gain = self._one_step(following)
            mean = self._mean(np.where(self.graph.acting, self.mass_at(t), 0.0), gain)
            V[t] = np.where(np.isnan(mean), V[t], mean)
            following = np.nan_to_num(V[t])
        return V

    @cached_property
    def visited(self) -> Bool[np.ndarray, "S"]:
        """The states where the agent acts at some time."""
        return self.graph.per_state(self._visits) > 0

    @cached_property
    def visit_mc(self) -> Float64[np.ndarray, "S"]:
        """What a critic V(s) with Monte-Carlo targets converges to: E[return] over all visits of a state."""
        return self._mean(self._visits, self.values.V_hs)

    @cached_property
    def visit_td(self) -> Float64[np.ndarray, "S"]:
        """What a critic V(s) with TD(0) targets converges to."""
        return self.visit_td_lambda(0.0)

    def visit_td_lambda(self, lambda_: float) -> Float64[np.ndarray, "S"]:
        """What a critic V(s) with TD(lambda) targets converges to: V(s) = E[G^lambda] over all visits.

        The targets are G = r + gamma ((1 - lambda) V(s') + lambda G'), linear in V.
        """
        if not 0 <= lambda_ <= 1:
            raise ValueError(f"lambda is {lambda_!r}, expected a number from 0 to 1")
        if lambda_ == 1:
            return self.visit_mc
        V = np.full(self.graph.pomdp.states, np.nan)
        if lambda_ == 0:
            V[np.unique(self.graph.state)] = learn(self.values, read(self.graph, "state", history=False)).table
            return np.where(self.visited, V, np.nan)
        # A state that is only reached at open ends is never learned; its true mean stands in.
        elsewhere = np.where(self.visited, 0.0, np.nan_to_num(self._mean(self.graph.mass, self.values.V_hs)))
        constant = self._target_means(elsewhere, lambda_, paid=True)
        V[self.visited] = self._solve(constant, lambda_)
        return V

    @cached_property
    def _visits(self) -> Float64[np.ndarray, "pairs"]:
        return np.where(self.graph.acting, self.graph.mass, 0.0)

    def _solve(self, constant: Float64[np.ndarray, "M"], lambda_: float) -> Float64[np.ndarray, "M"]:
        """Solves V = constant + K V on the visited states, where K V are the mean targets without rewards."""
        visited = np.flatnonzero(self.visited)
        if self.graph.pairs * len(visited) <= DENSE:
            unit = np.zeros((self.graph.pomdp.states, len(visited)))
            unit[visited, np.arange(len(visited))] = 1.0
            blocks = np.array_split(unit, max(1, self.graph.pairs * len(visited) // BLOCK), axis=1)
            K = np.concatenate([self._target_means(block, lambda_, paid=False) for block in blocks], axis=1)
            return np.linalg.solve(np.eye(len(visited)) - K, constant)

        def residual(v: np.ndarray) -> np.ndarray:
            full = np.zeros(self.graph.pomdp.states)
            full[visited] = v.reshape(-1)
            return v.reshape(-1) - self._target_means(full, lambda_, paid=False)

        operator: Any = LinearOperator((len(visited), len(visited)), matvec=residual, dtype=float)  # pyright: ignore
        solution, failure = gmres(operator, constant, rtol=1e-13, atol=0.0, restart=60, maxiter=60)
        if failure:
            raise ValueError(f"{self.graph.pomdp.name}: the fixed point of TD({lambda_:g}) did not converge")
        return solution

    def _target_means(self, V: np.ndarray, lambda_: float, *, paid: bool) -> np.ndarray:
        """The mean target over the visits of each visited state, for a critic V [S, ...], with rewards if `paid`."""
        graph, gamma = self.graph, self.graph.pomdp.discount
        critic = V[graph.state]
        gain = gamma * (1 - lambda_) * np.asarray(graph.P @ critic)
        if paid:
            gain = gain + graph.reward
        gain[~graph.acting] = critic[~graph.acting]
        targets = graph.backward(gain, gamma * lambda_)
        visited = np.flatnonzero(self.visited)
        return (self._average @ targets)[visited]

    @cached_property
    def _average(self) -> sparse.csr_array:
        """Means over the visits of each state."""
        graph, visits = self.graph, self._visits
        total = np.maximum(graph.per_state(visits), np.finfo(float).tiny)
        entries = (visits / total[graph.state], (graph.state, np.arange(graph.pairs)))
        return sparse.csr_array(entries, shape=(graph.pomdp.states, graph.pairs))

    def _one_step(self, following: Float64[np.ndarray, "S"]) -> Float64[np.ndarray, "pairs"]:
        """E[r + gamma V(s')] at each pair."""
        return self.graph.reward + self.graph.pomdp.discount * (self.graph.P @ following[self.graph.state])

    def _mean(self, mass: Float64[np.ndarray, "pairs"], x: Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "S"]:
        total = self.graph.per_state(mass)
        visited = total > 0
        return np.where(visited, self.graph.per_state(mass * x) / np.where(visited, total, 1.0), np.nan)


@dataclass(frozen=True, eq=False)
class Critics:
    """Ideal critics, as values at each pair of a graph."""

    states: StateValues
    lambda_: float = 0.7

    def __call__(self, name: str | Float64[np.ndarray, "pairs"] | LearnedCritic) -> Float64[np.ndarray, "pairs"]:
        """The critic with this name, one of CRITICS; an array with a value for each pair is returned as it is."""
        if not isinstance(name, str):
            return name.V if isinstance(name, LearnedCritic) else name
        graph, values = self.states.graph, self.states.values
        if name == "h":
            return values.V_h[graph.node]
        if name == "hs":
            return values.V_hs
        if name.startswith("timed-") and name in CRITICS:
            if graph.stationary:
                raise ValueError(f"critic {name!r} needs the time, which an analysis without a horizon does not have")
            timed = self.states.timed_mc if name == "timed-mc" else self.states.timed_td
            return timed[graph.time[graph.node], graph.state]
        if name in CRITICS:
            V = {"mc": lambda: self.states.visit_mc, "td0": lambda: self.states.visit_td}.get(
                name, lambda: self.states.visit_td_lambda(self.lambda_)
            )()
            # Where the agent never acts nothing is learned; the true value stands in.
            return np.where(self.states.visited, V, 0.0)[graph.state] + np.where(
                self.states.visited[graph.state], 0.0, values.V_hs
            )
        raise ValueError(f"unknown critic {name!r}; choose one of {', '.join(CRITICS)}")
