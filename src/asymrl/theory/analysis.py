"""Exact analysis of a policy in a finite POMDP: the object that users hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from asymrl.theory import bias, gradients, variance
from asymrl.theory.beliefs import belief_of, describe
from asymrl.theory.conditions import StateValue, state_value
from asymrl.theory.counting import NODES
from asymrl.theory.critics import Critics
from asymrl.theory.following import follow
from asymrl.theory.graph import MEMORY, Graph
from asymrl.theory.histories import left_over
from asymrl.theory.lookup import Lookup
from asymrl.theory.policies import History, Policy, PolicyLike, as_policy
from asymrl.theory.state_values import StateValues
from asymrl.theory.values import Values
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.pomdp import Pomdp
from asymrl.worlds.registry import make

CriticLike = str | Float64[np.ndarray, "pairs"]


def as_pomdp(problem: Any) -> Pomdp:
    """The finite POMDP that is meant: one, a finite world, or the name of one.

    Raises:
        ValueError: if it is none, or infinite.
    """
    if isinstance(problem, str):
        problem = make(problem)
    if isinstance(problem, Pomdp):
        return problem
    if isinstance(problem, FiniteWorld):
        return problem.pomdp()
    name = getattr(problem, "name", repr(problem))
    raise ValueError(f"{name} has no finite tables; exact analysis needs a finite world such as heaven-hell-3 or tiger")


def analyse(
    problem: Any,
    policy: PolicyLike = "uniform",
    *,
    horizon: float | None = None,
    discount: float | None = None,
    truncation: str = "end",
    mass: float = 1.0,
    merge: str | None = None,
    lambda_: float = 0.7,
    limit: int = NODES,
) -> Analysis:
    """Follows a policy through a problem, exactly.

    Args:
        problem: a `Pomdp`, a finite world, or the name of one.
        policy: a `Policy`, "uniform", a function from a history to probabilities, a mapping from histories to them, or
            for a reactive policy an array with a row for each observation.
        horizon: how many actions there are at most; math.inf for no limit; by default the problem's time limit.
        discount: by default the problem's.
        truncation: what the horizon does: "end" (nothing counts after it) or "bootstrap" (what would follow counts).
        mass: below 1, only the likeliest histories are followed, until they have this probability; values then have
            an `error`, a rigorous bound.
        merge: "belief" (the default) makes histories with equal beliefs and memories one, which changes no result;
            "history" keeps all apart; "memory" is the product chain of a controller, for problems with many beliefs.
        lambda_: of the TD(lambda) critic.
        limit: how many nodes fit.

    Raises:
        ValueError: if the policy is none; `TooLargeError`, a kind of it, if the request would not fit.
    """
    pomdp = as_pomdp(problem)
    if discount is not None:
        pomdp = replace(pomdp, discount=float(discount))
    if horizon is None:
        horizon = math.inf if pomdp.time_limit is None else pomdp.time_limit
    if not horizon >= 1 or (math.isfinite(horizon) and horizon != int(horizon)):
        raise ValueError(f"{pomdp.name}: horizon is {horizon!r}, expected a whole number of at least 1, or math.inf")
    if not 0 < mass <= 1:
        raise ValueError(f"{pomdp.name}: mass is {mass!r}, expected a probability above 0")
    options = {"truncation": truncation, "mass": mass, "merge": merge, "limit": limit}
    made = as_policy(pomdp, policy)
    graph = follow(pomdp, made, horizon, **options)
    return Analysis(pomdp, made, float(horizon), graph, lambda_, options)


@dataclass(frozen=True, eq=False)
class Analysis:
    """What the paper proves, as numbers. A history is a tuple of (action, observation) pairs.

    Where the first observation is drawn from the state, histories begin with the pair (None, o). Where it is a constant
    symbol it says nothing and does not stand in the history: the empty history is the start.
    """

    pomdp: Pomdp
    policy: Policy
    horizon: float
    graph: Graph
    lambda_: float
    options: dict[str, Any] = field(repr=False)

    @cached_property
    def values(self) -> Values:
        return Values(self.graph)

    @cached_property
    def states(self) -> StateValues:
        """Values of states: timed, and averaged over visits."""
        return StateValues(self.values)

    @cached_property
    def critics(self) -> Critics:
        """What each kind of critic says at each pair."""
        return Critics(self.states, self.lambda_)

    @cached_property
    def lookup(self) -> Lookup:
        """Values at single histories."""
        return Lookup(self.graph, self.values, self.policy, self.horizon, self.options)

    @property
    def J(self) -> float:
        """The expected return."""
        return self.values.J

    @property
    def error(self) -> float:
        """How far the expected return can be from J; not 0 only if some histories were not followed."""
        return self.values.J_error

    @property
    def left_over(self) -> float:
        """The probability that an episode has a history that was not followed."""
        return 0.0 if self.graph.stationary else left_over(self.graph)

    def belief(self, h: History) -> Float64[np.ndarray, "S"]:
        """b(h) = Pr(S | h), given that the episode goes on."""
        return belief_of(self.pomdp, h)

    def V(self, h: History, s: int | None = None) -> float:
        """The value of a history, or of a history and a state."""
        return self.lookup.mean(h, s, self.lookup.at(h).V)

    def V_told(self, h: History, label: Int[np.ndarray, "S"], i: int) -> float:
        """V(h, i) = E[V(h, s) | h, f(s) = i], for a critic that is told a part of the state; `label[s]` is f(s)."""
        weight = np.where(label == i, self.belief(h), 0.0)
        if not weight.any():
            raise ValueError(f"{self.pomdp.name}: the signal {i} is impossible after {self.describe(h)}")
        return float(weight @ np.nan_to_num(self.lookup.at(h).V) / weight.sum())

    def Q(self, h: History, *s_and_a: int) -> float:
        """The value of an action after a history, or after a history and in a state: (h, a) or (h, s, a)."""
        *s, a = s_and_a
        self._check_action(a)
        told = self.lookup.at(h).Q[:, a]
        if np.isnan(told[self.belief(h) > 0]).any():
            told = self.lookup.untaken(h, a)
        return self.lookup.mean(h, s[0] if s else None, told)

    def pi(self, h: History) -> Float64[np.ndarray, "A"]:
        """The probabilities of the actions after a history."""
        return np.asarray(self.policy.act(self.lookup.memory(h))[0], float)

    def V_error(self, h: History) -> float:
        """How far V(h) can be from the truth."""
        return self.lookup.mean(h, None, self.lookup.at(h).error)

    def timed_values(self, t: int, kind: str = "mc") -> Float64[np.ndarray, "S"]:
        """V_t(s): the conditional expectation ("mc") or the appendix's recursion ("td"); NaN where s can't be."""
        if kind not in ("mc", "td"):
            raise ValueError(f"kind={kind!r}: choose 'mc' or 'td'")
        table = self.states.timed_mc if kind == "mc" else self.states.timed_td
        if not 0 <= t < len(table):
            raise ValueError(f"time {t}: expected a number from 0 to {len(table) - 1}")
        return table[t]

    def state_value(self) -> StateValue:
        """V(s) where the paper's conditions make it well defined, or why they do not."""
        return state_value(self.graph)

    def visit_values(self, kind: str = "td0", lambda_: float | None = None) -> Float64[np.ndarray, "S"]:
        """What a critic without time regresses to while the policy stays: "mc", "td0" or "td-lambda"."""
        if kind == "mc":
            return self.states.visit_mc
        if kind not in ("td0", "td-lambda"):
            raise ValueError(f"kind={kind!r}: choose 'mc', 'td0' or 'td-lambda'")
        return self.states.visit_td_lambda(0.0 if kind == "td0" else self.lambda_ if lambda_ is None else lambda_)

    def gradient(
        self, critic: CriticLike | None = None, estimator: str | None = None, parameters: str = "softmax"
    ) -> gradients.Gradient:
        """The policy gradient; with a critic, what an actor follows that listens to it.

        Args:
            critic: one of `asymrl.theory.critics.CRITICS`, or a value for each pair; None for the true gradient.
            estimator: "td0" (the default), "td-lambda" or "mc".
            parameters: "softmax" or "direct".
        """
        if critic is None:
            return gradients.asymmetric_gradient(self.graph, self.values.Q_hsa, parameters)
        told = gradients.estimated_values(self.values, self.critics(critic), estimator or "td0", self.lambda_)
        return gradients.asymmetric_gradient(self.graph, told, parameters)

    def value_bias(self, critic: CriticLike = "td0") -> Float64[np.ndarray, "nodes"]:
        """E[critic | h] - V(h) at each node of the graph."""
        self._need_histories("the bias at each history")
        return bias.value_bias(self.values, self.critics(critic))

    def gradient_bias(self, critic: CriticLike = "td0", estimator: str | None = None) -> Float64[np.ndarray, "nodes A"]:
        """How much more than it should the actor is told to favour each action, at each node of the graph."""
        self._need_histories("the bias at each history")
        told = gradients.estimated_values(self.values, self.critics(critic), estimator or "td0", self.lambda_)
        return bias.gradient_bias(self.values, told)

    def variance(self, critic: CriticLike = "hs", *, resampled: bool = False, shared: bool = False) -> float:
        """The total variance of the one-episode actor-critic gradient estimate with this critic.

        Args:
            critic: "h", "hs" or any other of `asymrl.theory.critics.CRITICS`, or a value for each pair.
            resampled: give V(h, s) a state drawn anew from the belief instead of the true one.
            shared: whether the policy's table has a row for each memory, rather than one for each history.
        """
        self._need_histories("the variance of the estimate")
        if not resampled:
            return variance.estimator_variance(self.values, self.critics(critic), shared=shared)
        if not isinstance(critic, str) or critic != "hs":
            raise ValueError(f"resampled states are for the critic 'hs', not {critic!r}")
        spread = variance.state_variance(self.values)
        return variance.estimator_variance(self.values, self.critics("h"), resampled=spread)

    def find(self, h: History) -> int | None:
        """The node of the graph that a history belongs to; None if the policy never has it."""
        return self.lookup.find(h)

    def describe(self, h: History) -> str:
        """A history in the problem's own words."""
        return describe(self.pomdp, h)

    def _need_histories(self, what: str) -> None:
        if self.graph.merged == MEMORY:
            raise ValueError(
                f"{self.pomdp.name}: {what} needs a graph of beliefs, of which there are too many here; "
                "ask for a smaller horizon or a mass below 1"
            )

    def _check_action(self, a: int) -> None:
        if not 0 <= a < self.pomdp.actions:
            raise ValueError(f"action {a}: expected a number from 0 to {self.pomdp.actions - 1}")
