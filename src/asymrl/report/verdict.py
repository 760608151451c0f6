"""Would a privileged critic help, and which? A summary of an analysis, with advice."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from asymrl.theory.exact.analysis import Analysis
from asymrl.theory.exact.gradients import state_variance
from asymrl.theory.exact.history_graph import BY_MEMORY
from asymrl.theory.exact.reading_worth import ReadingWorth, compare_readings
from asymrl.theory.solvers.references import Reference

NEGLIGIBLE = 1e-6  # relative error of a gradient that does no harm
KINDS = (("td0", "td0"), ("td-lambda", "td-lambda"), ("mc", "td0"), ("mc", "mc"))
"""The targets of the state critic, and the estimator of the actor that uses it."""


@dataclass(frozen=True)
class WorstHistory:
    """The history where an error matters most, in the world's own names."""

    history: str
    probability: float
    amount: float
    action: str | None = None


@dataclass(frozen=True)
class StateCritic:
    """The effect of a critic V(s) on an actor. Biases are None if there are too many beliefs to list."""

    targets: str
    estimator: str
    value_bias: float | None
    """The mean of |E[V(s) | h] - V(h)| over the histories of an episode."""
    worst_value: WorstHistory | None
    gradient_error: float
    """The norm of the error of the gradient, relative to the true one."""
    gradient_cosine: float
    worst_gradient: WorstHistory | None

    @property
    def safe(self) -> bool:
        return self.gradient_error <= NEGLIGIBLE


@dataclass(frozen=True)
class Variances:
    """The total variance of the one-episode gradient estimate, by critic, and the mean of Var(V(h, s) | h)."""

    h: float
    hs: float
    resampled: float
    state_variance: float


@dataclass(frozen=True)
class Verdict:
    """Everything that `asymrl theory` reports about a policy."""

    world: str
    policy: str
    horizon: int | None
    discount: float
    expected_return: float
    return_error: float
    followed: float
    nodes: int
    V_s_defined: bool
    V_s_explanation: str
    gradient_norm: float
    critics: tuple[StateCritic, ...]
    variance: Variances | None
    readings: tuple[ReadingWorth, ...]
    """The worth of critics with TD(0), by what they read."""
    returns: dict[str, Reference]
    advice: str

    def to_json(self) -> dict[str, Any]:
        """The fields, as documented in reference/theory."""
        data = asdict(self)
        for critic in data["critics"]:
            critic["gradient_cosine"] = None if math.isnan(critic["gradient_cosine"]) else critic["gradient_cosine"]
            critic["gradient_error"] = None if math.isinf(critic["gradient_error"]) else critic["gradient_error"]
        return data | {"readings": [reading.to_json() for reading in self.readings]}


def examine(analysis: Analysis, policy: str, returns: dict[str, Reference], depth: int | None = None) -> Verdict:
    """The verdict on a policy in a world.

    Args:
        analysis: of the policy.
        policy: its name.
        returns: reference returns.
        depth: histories with more actions are not listed.
    """
    defined = analysis.state_value()
    critics = tuple(_critic(analysis, targets, estimator, depth) for targets, estimator in KINDS)
    spread, readings = _spread(analysis), compare_readings(analysis)
    norm = analysis.gradient().norm
    return Verdict(
        world=analysis.pomdp.name,
        policy=policy,
        horizon=None if math.isinf(analysis.horizon) else int(analysis.horizon),
        discount=analysis.pomdp.discount,
        expected_return=analysis.J,
        return_error=analysis.error,
        followed=1 - analysis.left_over,
        nodes=analysis.graph.nodes,
        V_s_defined=defined.well_defined,
        V_s_explanation=defined.explanation,
        gradient_norm=norm,
        critics=critics,
        variance=spread,
        readings=readings,
        returns=returns,
        advice=_advice(analysis, critics, spread, readings, norm),
    )


def _critic(analysis: Analysis, targets: str, estimator: str, depth: int | None) -> StateCritic:
    true, estimate = analysis.gradient(), analysis.gradient(targets, estimator)
    relative = estimate.relative_error(true, analysis.rounding)
    mean, worst_value, worst_gradient = None, None, None
    if analysis.graph.merged != BY_MEMORY:
        bias = analysis.value_bias(targets)
        weight = np.where(np.isnan(bias), 0.0, analysis.graph.probability_of_node)
        mean = float(np.sum(weight * np.abs(np.nan_to_num(bias))) / weight.sum())
        worst_value = _largest(analysis, bias[:, None], depth, named=False)
        worst_gradient = _largest(analysis, analysis.gradient_bias(targets, estimator), depth, named=True)
    cosine = estimate.cosine(true, analysis.rounding)
    return StateCritic(targets, estimator, mean, worst_value, relative, cosine, worst_gradient)


def _largest(
    analysis: Analysis, x: Float64[np.ndarray, "nodes k"], depth: int | None, *, named: bool
) -> WorstHistory | None:
    """The history where something matters most: size times probability."""
    graph = analysis.graph
    size = np.abs(np.nan_to_num(x)) * graph.probability_of_node[:, None]
    if depth is not None:
        size = np.where(graph.time[:, None] <= depth, size, 0.0)
    node, column = np.unravel_index(int(size.argmax()), size.shape)
    if abs(x[node, column]) <= 1e3 * analysis.rounding or np.isnan(x[node, column]):
        return None
    words = analysis.describe(graph.history(int(node)))
    action = analysis.pomdp.action_names[int(column)] if named else None
    return WorstHistory(words, float(graph.probability_of_node[node]), float(x[node, column]), action)


def _spread(analysis: Analysis) -> Variances | None:
    if analysis.graph.merged == BY_MEMORY or analysis.graph.stationary:
        return None
    each = state_variance(analysis.values)
    weight = np.where(analysis.graph.open, 0.0, analysis.graph.probability_of_node)
    return Variances(
        h=analysis.variance("h"),
        hs=analysis.variance("hs"),
        resampled=analysis.variance("hs", resampled=True),
        state_variance=float(weight @ each / weight.sum()),
    )


def _advice(
    analysis: Analysis,
    critics: tuple[StateCritic, ...],
    spread: Variances | None,
    readings: tuple[ReadingWorth, ...],
    norm: float,
) -> str:
    by_kind = {(critic.targets, critic.estimator): critic for critic in critics}
    td0 = by_kind["td0", "td0"]
    hidden = np.bincount(analysis.graph.node).max() > 1
    if not hidden:
        return (
            "The agent always knows the state, so V(h), V(s) and V(h, s) are the same: a privileged critic can only be "
            "easier to learn."
        )
    still = norm <= analysis.rounding
    sentences = [_on_states(td0, by_kind["td-lambda", "td-lambda"], still)]
    if spread is None:
        sentences.append("V(h, s) (a2c-asym-hs) is unbiased here as everywhere.")
    else:
        sentences.append(_on_histories(spread))
    if not still:
        sentences += _on_readings(td0, readings)
    if all(critic.safe for critic in critics) and not still:
        sentences.append("This holds for this policy; the bias grows as a policy learns to use its memory.")
    return " ".join(sentences)


def _on_states(td0: StateCritic, td_lambda: StateCritic, still: bool) -> str:
    if still:
        return "The gradient of this policy is zero; with a state critic it is " + (
            "not." if td0.gradient_error > 0 else "zero too."
        )
    if td0.safe:
        return "A critic V(s) (a2c-asym-s) gives this policy its true gradient."
    grades = ((0.0, "points away from the true gradient"), (0.7, "is a poor guide"), (0.97, "is somewhat off"))
    how = next((words for below, words in grades if td0.gradient_cosine < below), "points nearly the right way")
    return (
        f"A critic V(s) with TD(0) (a2c-asym-s) {how}: cosine {td0.gradient_cosine:.3f}, error "
        f"{100 * td0.gradient_error:.0f} %; with TD(lambda) the cosine is {td_lambda.gradient_cosine:.3f}. "
        "With Monte-Carlo returns V(s) is only a baseline and harmless."
    )


def _on_readings(td0: StateCritic, readings: tuple[ReadingWorth, ...]) -> list[str]:
    """Names other inputs for the critic, if the state alone is not safe."""
    others = [reading for reading in readings if reading.sees in ("belief", "state+time") and not reading.history]
    if td0.safe or not others:
        return []
    words = [
        f"{each.critic} {each.gradient_cosine:.3f} (--critic-sees {each.sees}{', exact' if each.safe else ''})"
        for each in others
    ]
    return [f"Other critics without history, by the cosine of their gradient with the true one: {', '.join(words)}."]


def _on_histories(spread: Variances) -> str:
    change = spread.hs / spread.h - 1 if spread.h > 0 else 0.0
    effect = "as much noise as V(h): it helps if it is easier to learn"
    if change < -0.02:
        effect = f"{-100 * change:.0f} % less noise than V(h): it should help"
    elif change > 0.02:
        effect = f"{100 * change:.0f} % more noise than V(h): it helps only if it is easier to learn"
    return f"V(h, s) (a2c-asym-hs) is unbiased, and a perfect one gives the gradient {effect}."
