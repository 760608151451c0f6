"""`analyse`: the exact analysis of a policy in a finite POMDP."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from asymrl.theory.exact.beliefs import belief_of
from asymrl.theory.exact.conditions import StateValue, state_value
from asymrl.theory.exact.following import follow
from asymrl.theory.exact.gradients import (
    Gradient,
    asymmetric_gradient,
    estimated_values,
    estimator_variance,
    gradient_bias,
    state_variance,
)
from asymrl.theory.exact.histories import NODES, History, describe
from asymrl.theory.exact.history_graph import BY_MEMORY, HistoryGraph
from asymrl.theory.exact.lookup import Lookup
from asymrl.theory.exact.policies import HistoryPolicy, PolicyLike, as_policy
from asymrl.theory.exact.readings import LearnedCritic, learn, read
from asymrl.theory.exact.state_values import Critics, StateValues
from asymrl.theory.exact.values import Values, value_bias
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.pomdp import Pomdp
from asymrl.worlds.registry import make

CriticLike = str | Float64[np.ndarray, "pairs"] | LearnedCritic
ROUNDING = 1e-12  # relative to the largest value


def as_pomdp(world: Any) -> Pomdp:
    """The finite POMDP of a finite world or its name; a `Pomdp` is returned as it is.

    Raises:
        ValueError: if there is no such world, or it is not finite.
    """
    if isinstance(world, str):
        world = make(world)
    if isinstance(world, Pomdp):
        return world
    if isinstance(world, FiniteWorld):
        return world.pomdp()
    name = getattr(world, "name", repr(world))
    raise ValueError(f"{name} has no finite tables; exact analysis needs a finite world such as heaven-hell-3 or tiger")


def analyse(
    world: Any,
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
    """Follows a policy through a finite world, exactly.

    Args:
        world: a finite world, its name, or a `Pomdp`.
        policy: a `HistoryPolicy`, "uniform", a function from a history to probabilities, a mapping from histories to
            probabilities, or an array with a row for each observation (a reactive policy).
        horizon: the largest number of actions; math.inf for no limit; by default the world's time limit.
        discount: by default the world's.
        truncation: what happens at the horizon: "end" (no rewards after it) or "bootstrap" (the value of what would
            follow counts).
        mass: below 1, only the likeliest histories are followed, until they have this probability; values then have
            an `error`, a rigorous bound.
        merge: "belief" (the default) merges histories with equal beliefs and memories, which changes no result;
            "history" merges none; "memory" gives the product chain of a controller, for worlds with many beliefs.
        lambda_: of the TD(lambda) critic.
        limit: the largest number of nodes.

    Raises:
        ValueError: if the policy or an option is invalid.
        TooLargeError: if there are more nodes than the limit. A subclass of ValueError.
    """
    world = make(world) if isinstance(world, str) else world
    pomdp = as_pomdp(world)
    if discount is not None:
        pomdp = replace(pomdp, discount=float(discount))
    if horizon is None:
        horizon = math.inf if pomdp.time_limit is None else pomdp.time_limit
    if not horizon >= 1 or (math.isfinite(horizon) and horizon != int(horizon)):
        raise ValueError(f"{pomdp.name}: horizon is {horizon!r}, expected a whole number of at least 1, or math.inf")
    if not 0 < mass <= 1:
        raise ValueError(f"{pomdp.name}: mass is {mass!r}, expected a probability above 0")
    options = {"truncation": truncation, "mass": mass, "merge": merge, "limit": limit}
    history_policy = as_policy(pomdp, policy)
    graph = follow(pomdp, history_policy, horizon, **options)
    finite_world = world if isinstance(world, FiniteWorld) else None
    return Analysis(pomdp, history_policy, float(horizon), graph, lambda_, options, finite_world)


@dataclass(frozen=True, eq=False)
class Analysis:
    """Beliefs, values, biases, gradients and variances of a policy. Most are computed when they are first used.

    A history is a tuple of (action, observation) pairs. If the world draws its first observation from the state,
    histories begin with a pair (None, o). If it shows a constant symbol first, histories leave it out: () is the start.
    """

    pomdp: Pomdp
    policy: HistoryPolicy
    horizon: float
    graph: HistoryGraph
    lambda_: float
    options: dict[str, Any] = field(repr=False)
    world: FiniteWorld | None = field(default=None, repr=False)
    """The world with its signals; None if only its tables are known."""

    @cached_property
    def values(self) -> Values:
        return Values(self.graph)

    @cached_property
    def states(self) -> StateValues:
        """Values of states: timed, and averaged over visits."""
        return StateValues(self.values)

    @cached_property
    def critics(self) -> Critics:
        """What each kind of ideal critic says at each pair."""
        return Critics(self.states, self.lambda_)

    def critic(self, sees: str, *, history: bool = False, targets: str = "td0") -> LearnedCritic:
        """The values that a critic with these inputs converges to while the policy stays as it is.

        Args:
            sees: "state", "belief", "sampled-state", "time", a signal of the world, a sum such as "state+time", or ""
                for nothing but the history.
            history: whether it also reads the history.
            targets: of its training: "td0" or "mc".

        Raises:
            ValueError: if there is no such input, or it needs a horizon, or fewer beliefs.
        """
        return learn(self.values, read(self.graph, sees, history, self.world), targets)

    @property
    def rounding(self) -> float:
        """Gradients and biases below this are zero up to rounding."""
        return ROUNDING * max(1.0, float(np.max(np.abs(self.values.V_h))))

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
        """How far the expected return can be from J; 0 if all histories were followed."""
        return self.values.J_error

    @property
    def left_over(self) -> float:
        """The probability that an episode leaves the histories that were followed."""
        return self.graph.left_over

    def belief(self, h: History) -> Float64[np.ndarray, "S"]:
        """b(h) = Pr(S | h), given that the episode goes on."""
        return belief_of(self.pomdp, h)

    def V(self, h: History, s: int | None = None) -> float:
        """The value of a history, or of a history and a state."""
        return self.lookup.mean(h, s, self.lookup.at(h).V)

    def V_signal(self, h: History, label: Int[np.ndarray, "S"], i: int) -> float:
        """V(h, i) = E[V(h, s) | h, f(s) = i], for a critic that reads a part of the state; `label[s]` is f(s)."""
        weight = np.where(label == i, self.belief(h), 0.0)
        if not weight.any():
            raise ValueError(f"{self.pomdp.name}: the signal {i} is impossible after {self.describe(h)}")
        return float(weight @ np.nan_to_num(self.lookup.at(h).V) / weight.sum())

    def Q(self, h: History, *s_and_a: int) -> float:
        """The value of an action after a history, or after a history and in a state: (h, a) or (h, s, a)."""
        *s, a = s_and_a
        self._check_action(a)
        Q = self.lookup.at(h).Q[:, a]
        if np.isnan(Q[self.belief(h) > 0]).any():
            Q = self.lookup.untaken(h, a)
        return self.lookup.mean(h, s[0] if s else None, Q)

    def pi(self, h: History) -> Float64[np.ndarray, "A"]:
        """The probabilities of the actions after a history."""
        return np.asarray(self.policy.act(self.lookup.memory(h))[0], float)

    def V_error(self, h: History) -> float:
        """How far V(h) can be from the truth."""
        return self.lookup.mean(h, None, self.lookup.at(h).error)

    def timed_values(self, t: int, kind: str = "mc") -> Float64[np.ndarray, "S"]:
        """V_t(s): the conditional expectation ("mc") or the appendix's recursion ("td"); NaN where s is impossible."""
        if kind not in ("mc", "td"):
            raise ValueError(f"kind={kind!r}: choose 'mc' or 'td'")
        table = self.states.timed_mc if kind == "mc" else self.states.timed_td
        if not 0 <= t < len(table):
            raise ValueError(f"time {t}: expected a number from 0 to {len(table) - 1}")
        return table[t]

    def state_value(self) -> StateValue:
        """V(s) if the paper's conditions make it well defined, otherwise the reason why they do not."""
        return state_value(self.graph)

    def visit_values(self, kind: str = "td0", lambda_: float | None = None) -> Float64[np.ndarray, "S"]:
        """What a critic V(s) converges to while the policy stays as it is: targets "mc", "td0" or "td-lambda"."""
        if kind == "mc":
            return self.states.visit_mc
        if kind not in ("td0", "td-lambda"):
            raise ValueError(f"kind={kind!r}: choose 'mc', 'td0' or 'td-lambda'")
        return self.states.visit_td_lambda(0.0 if kind == "td0" else self.lambda_ if lambda_ is None else lambda_)

    def gradient(
        self, critic: CriticLike | None = None, estimator: str | None = None, parameters: str = "softmax"
    ) -> Gradient:
        """The true policy gradient or, with a critic, the expected gradient estimate of an actor that uses it.

        Args:
            critic: one of `asymrl.theory.CRITICS`, one from `critic`, or a value for each pair; None for the true
                gradient.
            estimator: "td0" (the default), "td-lambda" or "mc".
            parameters: "softmax" or "direct".
        """
        if critic is None:
            return asymmetric_gradient(self.graph, self.values.Q_hsa, parameters)
        Q = estimated_values(self.values, self.critics(critic), estimator or "td0", self.lambda_)
        return asymmetric_gradient(self.graph, Q, parameters)

    def value_bias(self, critic: CriticLike = "td0") -> Float64[np.ndarray, "nodes"]:
        """E[critic | h] - V(h) at each node of the graph."""
        self._need_histories("the bias at each history")
        return value_bias(self.values, self.critics(critic))

    def gradient_bias(self, critic: CriticLike = "td0", estimator: str | None = None) -> Float64[np.ndarray, "nodes A"]:
        """The error of each action's advantage, as the actor receives it, at each node of the graph."""
        self._need_histories("the bias at each history")
        Q = estimated_values(self.values, self.critics(critic), estimator or "td0", self.lambda_)
        return gradient_bias(self.values, Q)

    def variance(self, critic: CriticLike = "hs", *, resampled: bool = False, shared: bool = False) -> float:
        """The total variance of the one-episode actor-critic gradient estimate with this critic.

        Args:
            critic: "h", "hs" or any other of `asymrl.theory.CRITICS`, one from `critic`, or a value for each pair.
            resampled: whether V(h, s) reads a state drawn again from the belief instead of the true one.
            shared: whether the policy's table has a row for each memory, rather than one for each history.
        """
        self._need_histories("the variance of the estimate")
        if not resampled:
            noise = critic.noise if isinstance(critic, LearnedCritic) else None
            return estimator_variance(self.values, self.critics(critic), shared=shared, noise=noise)
        if not isinstance(critic, str) or critic != "hs":
            raise ValueError(f"resampled states are for the critic 'hs', not {critic!r}")
        noise = state_variance(self.values)[self.graph.node]
        return estimator_variance(self.values, self.critics("h"), shared=shared, noise=noise)

    def find(self, h: History) -> int | None:
        """The node of the graph that contains a history; None if the policy never reaches it."""
        return self.graph.find(h)

    def describe(self, h: History) -> str:
        """A history in the world's own names."""
        return describe(self.pomdp, h)

    def _need_histories(self, what: str) -> None:
        if self.graph.merged == BY_MEMORY:
            raise ValueError(
                f"{self.pomdp.name}: {what} needs a graph of beliefs, and here are too many; "
                "choose a smaller horizon or a mass below 1"
            )

    def _check_action(self, a: int) -> None:
        if not 0 <= a < self.pomdp.actions:
            raise ValueError(f"action {a}: expected a number from 0 to {self.pomdp.actions - 1}")
