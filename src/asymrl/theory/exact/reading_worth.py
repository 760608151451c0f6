"""What each reading of a critic is worth to the actor: bias of its values, error and variance of the gradient."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from asymrl.theory.exact.analysis import Analysis
from asymrl.theory.exact.gradients import advantage_moments, at_targets, state_variance
from asymrl.theory.exact.history_graph import BY_MEMORY
from asymrl.theory.exact.readings import LearnedCritic, Reading, learn
from asymrl.theory.exact.values import Values
from asymrl.worlds.critic_inputs import critic_symbol

READINGS = (
    ("", True),
    ("state", True),
    ("belief", True),
    ("sampled-state", True),
    ("state", False),
    ("state+time", False),
    ("belief", False),
    ("sampled-state", False),
)
"""What a critic sees and whether it reads the history too: V(h), V(h, s), ..., V(s~b)."""
GAE_LAMBDA = 0.95
NO_SPREAD = 1e-15  # variance of V(h, s) below which there is nothing to explain


@dataclass(frozen=True)
class ReadingWorth:
    """A critic with this reading, trained with TD(0) until convergence, and the actor that uses it in TD errors.

    Means are over the visits of an episode. A number is None where it needs a horizon, or fewer beliefs.
    """

    critic: str
    """As in equations, such as V(h, s)."""
    sees: str
    history: bool
    value_bias: float | None
    """The mean of |E[V(x) | h] - V(h)|."""
    gradient_error: float
    """The norm of the error of the expected gradient, relative to the true one."""
    gradient_cosine: float
    """Of the expected gradient and the true one; NaN if one of them is zero."""
    target_variance: float
    """The mean of Var(r + gamma V(x') | x): the noise that the critic has to average out."""
    advantage_variance: float | None
    """The mean of Var(delta | h, a), where delta = r + gamma V(x') - V(x)."""
    gae_variance: float | None
    """The same for the advantage of GAE, the sum of (gamma lambda)^k delta."""
    gae_variance_independent: float | None
    """The same, if V(x) and the bootstrap of the step before read different draws of the state."""
    gradient_variance: float | None
    """The total variance of the gradient estimate from one episode with TD errors."""
    explained: float | None
    """The share of E[Var(V(h, s) | h)] that x explains; None without history, or if V(h, s) does not vary."""

    @property
    def safe(self) -> bool:
        """Whether the expected gradient is the true one."""
        return self.gradient_error <= 1e-6

    def to_json(self) -> dict[str, Any]:
        """The fields, with None for numbers that JSON cannot represent."""
        return {name: None if value in (np.inf,) or value != value else value for name, value in asdict(self).items()}


def examine_reading(
    analysis: Analysis, sees: str, history: bool = False, *, lambda_: float = GAE_LAMBDA
) -> ReadingWorth:
    """What a critic that sees this is worth to the analysed policy.

    Args:
        analysis: of the policy.
        sees: "state", "belief", "sampled-state", "time", a signal of the world, a sum such as "state+time", or "".
        history: whether the critic also reads the history.
        lambda_: of GAE.

    Raises:
        ValueError: if there is no such input, or it needs a horizon, or fewer beliefs.
    """
    critic, graph, values = analysis.critic(sees, history=history), analysis.graph, analysis.values
    true, estimate = analysis.gradient(), analysis.gradient(critic)
    bias = advantages = several = independent = variance = None
    if graph.merged != BY_MEMORY:
        weight = np.where(graph.open, 0.0, graph.probability_of_node)
        bias = float(weight @ np.abs(np.nan_to_num(analysis.value_bias(critic))) / weight.sum())
        advantages = advantage_variance(values, critic)
        several = independent = advantage_variance(values, critic, lambda_)
        if critic.noise.any():
            independent = advantage_variance(values, critic, lambda_, independent=True)
        variance = None if graph.stationary else analysis.variance(critic)
    return ReadingWorth(
        critic=critic_symbol(sees, history),
        sees=sees,
        history=history,
        value_bias=bias,
        gradient_error=estimate.relative_error(true, analysis.rounding),
        gradient_cosine=estimate.cosine(true, analysis.rounding),
        target_variance=target_variance(values, critic),
        advantage_variance=advantages,
        gae_variance=several,
        gae_variance_independent=independent,
        gradient_variance=variance,
        explained=explained(values, critic.reading) if history else None,
    )


def compare_readings(
    analysis: Analysis, readings: Iterable[tuple[str, bool]] = READINGS, *, lambda_: float = GAE_LAMBDA
) -> tuple[ReadingWorth, ...]:
    """The worth of several readings, without those that need a horizon, or fewer beliefs than the analysis has."""
    worths = []
    for sees, history in readings:
        with contextlib.suppress(ValueError):
            worths.append(examine_reading(analysis, sees, history, lambda_=lambda_))
    return tuple(worths)


def target_variance(values: Values, critic: LearnedCritic) -> float:
    """The mean of Var(r + gamma V(x') | x) over the visits of each x."""
    graph, gamma, reading = values.graph, values.discount, critic.reading
    target = graph.pomdp.reward[graph.outcome] + gamma * at_targets(graph, critic.V)
    square = target**2 + gamma**2 * at_targets(graph, critic.noise)
    first, second = (np.bincount(graph.source, graph.probability * y, minlength=graph.pairs) for y in (target, square))
    variance = reading.mean(second) - reading.mean(first) ** 2
    return float(np.maximum(variance, 0.0) @ reading.visits / reading.visits.sum())


def advantage_variance(
    values: Values, critic: LearnedCritic, lambda_: float = 0.0, *, independent: bool = False
) -> float:
    """The mean of Var(A | h, a) over visits, for A_t = sum_k (gamma lambda)^k delta_{t+k}.

    Args:
        values: of the policy.
        critic: the critic in the TD errors.
        lambda_: 0 for the TD error itself.
        independent: whether V(x) and the bootstrap of the step before read different draws.
    """
    graph = values.graph
    mean, square = advantage_moments(values, critic.V, lambda_, noise=critic.noise, independent=independent)
    weight = graph.mass[graph.source] * graph.probability
    place = graph.node[graph.source].astype(np.int64) * graph.pomdp.actions + graph.action
    visits, first, second = (np.bincount(place, weight * y) for y in (np.ones(len(mean)), mean, square))
    taken = visits > 0
    spread = second[taken] - first[taken] ** 2 / visits[taken]
    return float(np.maximum(spread, 0.0).sum() / visits.sum())


def explained(values: Values, reading: Reading) -> float | None:
    """1 - E[Var(V(h, s) | h, x)] / E[Var(V(h, s) | h)]: the share of the variance given h that x explains.

    It is 0 if the history determines x, and 1 if x tells everything about V(h, s) that the history does not. Means are
    over the visits of an episode; None if V(h, s) does not vary given h.
    """
    graph = values.graph
    weight = np.where(graph.acting, graph.mass, 0.0)
    total = float(weight @ state_variance(values)[graph.node])
    fit = learn(values, reading, "mc")
    residual = weight @ (reading.share @ fit.table**2 - 2 * fit.V * values.V_hs + values.V_hs**2)
    return 1 - float(residual) / total if total > NO_SPREAD else None
