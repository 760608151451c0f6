"""Exact numbers of what critics read, for agents at three stages of learning: bias, gradient, variance, explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agents import STAGES, half_expert
from asymrl.theory.exact.analysis import Analysis, analyse
from asymrl.theory.exact.gradients import advantage_moments
from asymrl.theory.exact.history_graph import BY_BELIEF
from asymrl.theory.exact.reading_worth import explained
from asymrl.theory.exact.readings import Reading, learn, read
from asymrl.theory.exact.values import Values
from asymrl.worlds.name_options import split_names
from asymrl.worlds.registry import make

NUMBERS = ("value bias", "cosine", "error", "variance", "explained", "explained return", "readable")


def reading_numbers(
    world: str,
    readings: Mapping[str, tuple[str, bool]],
    names: Sequence[str] = NUMBERS,
    discount: float | None = None,
) -> list[dict[str, Any]]:
    """A row for each reading: its label in `arm`, then for each agent of `STAGES` these numbers of `worth_of`.

    Args:
        world: Heaven-Hell, Shopping (whose agents buy nothing before they are informed) or RockSample.
        readings: what each critic sees and whether it reads the history, by label.
        names: which of `NUMBERS`.
        discount: by default the world's.
    """
    rows: list[dict[str, Any]] = [{"arm": label} for label in readings]
    for stage, (before, after) in STAGES.items():
        analysis = analyse_agent(world, before, after, discount)
        plain = analysis.variance("h")
        for row, (sees, history) in zip(rows, readings.values(), strict=True):
            numbers = worth_of(analysis, sees, history, plain)
            row |= {f"{stage}: {name}": numbers[name] for name in names}
    return rows


def analyse_agent(world: str, before: float, after: float, discount: float | None = None) -> Analysis:
    """The analysis of an agent of a world, on a graph of beliefs."""
    policy = half_expert(world, before, after, patient=True)
    return analyse(make(world), policy, discount=discount, merge=BY_BELIEF)


def worth_of(analysis: Analysis, sees: str, history: bool, plain: float) -> dict[str, float | None]:
    """The numbers of a critic that has converged with TD(0), by the names in `NUMBERS`.

    Args:
        analysis: of the policy.
        sees: what the critic sees besides the history, as in `Analysis.critic`.
        history: whether it reads the history.
        plain: the variance of the gradient estimate with V(h). The critic's variance is relative to it; both are for
            one episode and a policy with a row for each history.
    """
    graph, values = analysis.graph, analysis.values
    reading = read(graph, sees, history, analysis.world)
    critic, true = learn(values, reading), analysis.gradient()
    expected = analysis.gradient(critic)
    bias, visits = (
        np.abs(np.nan_to_num(analysis.value_bias(critic))),
        np.where(graph.open, 0.0, graph.probability_of_node),
    )
    return {
        "value bias": float(visits @ bias / visits.sum()),
        "cosine": expected.cosine(true, analysis.rounding),
        "error": expected.relative_error(true, analysis.rounding),
        "variance": analysis.variance(critic) / plain,
        "explained": explained(values, reading) if history else None,
        "explained return": explained_return(values, reading) if history else None,
        "readable": readable_value(analysis, sees),
    }


def explained_return(values: Values, reading: Reading) -> float:
    """E[Var(V(h, i) | h)] / E[Var(G | h)]: the share of the return's variance given h that i explains.

    Here G = sum_k gamma^k r_k is the return from h on and V(h, i) = E[G | h, i], so that the total variance splits into
    Var(G | h) = Var(V(h, i) | h) + E[Var(G | h, i) | h]. Means are over the visits of an episode.
    """
    graph = values.graph
    weight = np.where(graph.acting, graph.mass, 0.0)
    critic = learn(values, reading, "mc")
    # Of a mean square the part that i explains: E[V(h, i)^2 | h] - V(h)^2.
    between = weight @ (reading.share @ critic.table**2) - weight @ values.V_h[graph.node] ** 2
    square = advantage_moments(values, values.V_h[graph.node], 1.0)[1]
    total = np.sum(graph.mass[graph.source] * graph.probability * square)
    return float(between / total)


def readable_value(analysis: Analysis, sees: str) -> float:
    """1 - E[(V(h) - E[V(h) | x])^2] / Var(V(h)), where x is the agent's position and what the critic sees.

    The share of the variance of V(h) over visits that x tells without any memory: how much the input is worth as a
    feature. It says nothing about the state that the history does not, for the target is V(h).
    """
    graph, values = analysis.graph, analysis.values
    inputs = split_names(sees)
    # The state tells the position already.
    signal = sees if {"state", "position"} & set(inputs) else "+".join(["position", *inputs])
    reading = read(graph, signal, False, analysis.world)
    V, weight = values.V_h[graph.node], np.where(graph.acting, graph.mass, 0.0)
    table = reading.mean(V)
    residual = weight @ (reading.share @ table**2 - 2 * (reading.share @ table) * V + V**2)
    spread = weight @ (V - weight @ V / weight.sum()) ** 2
    return float(1 - residual / spread)
