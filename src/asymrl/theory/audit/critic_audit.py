"""Critic audit: how far a trained critic is from the exact values of its own policy, and why.

A critic can be wrong for two reasons. Its targets may not be the value: V(s) averages over all histories that visit a
state. And the network may not have learned its targets. The audit separates the two exactly. For the current policy it
computes what the targets would teach a table that reads the same inputs (*target*), the true value (*truth*) and what
the network says (*critic*):

    critic - truth  =  (target - truth)  +  (critic - target)
        error              bias                 fit
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from asymrl.nn.agent import Actor, Critic
from asymrl.runs.playback import critic_name
from asymrl.settings import Settings
from asymrl.theory.audit.trained_networks import PairSignals, TrainedActor, critic_values
from asymrl.theory.exact.analysis import Analysis, analyse
from asymrl.theory.exact.history_graph import HistoryGraph
from asymrl.worlds.critic_inputs import SAMPLED_STATE
from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.name_options import split_names

MASS = 0.99
NEGLIGIBLE = 1e-9  # uncertainty of true values that needs no mention
PARTS = {"error": "error", "bias": "  bias of its targets", "fit": "  fitting error"}
WRAP = textwrap.TextWrapper(100, initial_indent="    ", subsequent_indent="    ")
CONVERGED = 1e-10  # relative change of the values at which the iteration stops


@dataclass(frozen=True, eq=False)
class Audit:
    """A critic's values and the exact ones, at every pair (h, s) of `analysis.graph` where the agent acts."""

    analysis: Analysis
    settings: Settings
    pair: Int[np.ndarray, "P"]
    """The pairs that were audited, as numbers in the graph."""
    critic: Float64[np.ndarray, "P"]
    target: Float64[np.ndarray, "P"]
    truth: Float64[np.ndarray, "P"]
    """V(h, s) for critics that read the state or a part of it, V(h) for the others."""

    @property
    def error(self) -> Float64[np.ndarray, "P"]:
        return self.critic - self.truth

    @property
    def bias(self) -> Float64[np.ndarray, "P"]:
        return self.target - self.truth

    @property
    def fit(self) -> Float64[np.ndarray, "P"]:
        return self.critic - self.target

    @cached_property
    def weight(self) -> Float64[np.ndarray, "P"]:
        """The share of all visits that each pair has."""
        visits = self.analysis.graph.mass[self.pair]
        return visits / visits.sum()

    @cached_property
    def history_bias(self) -> Float64[np.ndarray, "nodes"]:
        """E[target | h] - V(h), the bias that the actor is exposed to; NaN for histories that were not audited."""
        graph = self.analysis.graph
        expected = np.bincount(graph.node[self.pair], graph.belief[self.pair] * self.target, minlength=graph.nodes)
        audited = np.bincount(graph.node[self.pair], minlength=graph.nodes) > 0
        return np.where(audited, expected - self.analysis.values.V_h, np.nan)

    def rms(self, x: Float64[np.ndarray, "P"]) -> float:
        """The root of the mean square of x, weighted by visits."""
        return float(np.sqrt(self.weight @ x**2))

    def worst(self, count: int = 5, depth: int | None = None) -> list[dict[str, Any]]:
        """The pairs (with at most `depth` actions) that add most to the mean square error, in the world's names."""
        graph, pomdp = self.analysis.graph, self.analysis.pomdp
        listed = np.arange(len(self.pair))
        if depth is not None:
            listed = listed[graph.time[graph.node[self.pair]] <= depth]
        order = listed[np.argsort(-(self.weight * self.error**2)[listed], kind="stable")[:count]]
        return [
            {
                "history": self.analysis.describe(graph.history(int(graph.node[self.pair[i]]))),
                "state": pomdp.state_names[int(graph.state[self.pair[i]])],
                "visits": float(self.weight[i]),
                "critic": float(self.critic[i]),
                "target": float(self.target[i]),
                "truth": float(self.truth[i]),
            }
            for i in order.tolist()
        ]

    def numbers(self, depth: int | None = None) -> dict[str, Any]:
        """The audit as JSON-ready data; histories with more than `depth` actions are not listed."""
        return {
            "method": self.settings.method,
            "estimator": self.settings.targets[0],
            "pairs": len(self.pair),
            "left_over": self.analysis.left_over,
            "value_error": float(self.analysis.values.error[self.pair].max(initial=0.0)),
            "rms": {name: self.rms(getattr(self, name)) for name in ("error", "bias", "fit")},
            "max": {name: float(np.abs(getattr(self, name)).max()) for name in ("error", "bias", "fit")},
            "worst": self.worst(depth=depth),
        }

    def report(self, depth: int | None = None) -> Iterator[str]:
        """The audit as lines of text; histories with more than `depth` actions are not listed."""
        numbers = self.numbers(depth)
        yield (
            f"Critic {critic_name(self.settings)} of {self.settings.method}, {self.settings.targets[0]} targets, "
            f"at {len(self.pair)} pairs (history, state); {self.analysis.left_over:.2%} of the episodes leave them"
        )
        yield f"  {'':28}{'rms':>10}{'max':>10}"
        for name, words in PARTS.items():
            yield f"  {words:28}{numbers['rms'][name]:10.4f}{numbers['max'][name]:10.4f}"
        if numbers["value_error"] > NEGLIGIBLE:
            yield f"  True values are known to within {numbers['value_error']:.2g}: not all histories were followed."
        yield "Where the critic is most wrong, weighted by visits:"
        for at in numbers["worst"]:
            yield (
                f"  says {at['critic']:.4f}, its targets teach {at['target']:.4f}, true is {at['truth']:.4f} "
                f"({at['visits']:.2%} of the visits)"
            )
            where = "told" if SAMPLED_STATE in split_names(self.settings.critic_sees) else "in"
            yield from WRAP.wrap(f"{where} state {at['state']} after {at['history']}")

    def __str__(self) -> str:
        return "\n".join(self.report())


def audit_critic(
    world: FiniteWorld,
    actor: Actor,
    critic: Critic,
    settings: Settings,
    *,
    mass: float = MASS,
    depth: int | None = None,
    horizon: float | None = None,
) -> Audit:
    """Compares a trained critic with the exact values of the actor that it was trained with.

    Args:
        world: where they were trained.
        actor: the policy that the critic judges.
        critic: the critic to audit.
        settings: of the training: discount, targets, what the critic reads and sees.
        mass: follow the likeliest histories until they have this probability.
        depth: audit only pairs reached after at most this many actions.
        horizon: the largest number of actions; by default the world's time limit.

    Raises:
        ValueError: if there is no horizon, the histories do not fit, or the learner has no critic of values.
    """
    if settings.how.learner == "dqn":
        what = f"{settings.method} learns action values, and the audit is for critics of a policy's value"
        raise ValueError(f"{what}; asymrl theory {world.name} --learner {settings.method} says what it should end with")
    critic = critic.with_history(actor)
    analysis = analyse(
        world,
        TrainedActor(actor),
        horizon=horizon,
        discount=settings.discount,
        truncation="bootstrap" if settings.bootstrap_truncated else "end",
        mass=mass,
        lambda_=getattr(settings, "td_lambda", settings.targets[1]),
    )
    graph, reads = analysis.graph, settings.how.reads
    if graph.stationary:
        raise ValueError(f"{world.name}: a critic is audited along histories, which needs a horizon")
    signals = PairSignals(world, graph, settings)
    target = taught_values(analysis, critic_inputs(graph, reads, signals), settings, drawn=signals.drawn)
    truth = analysis.values.V_hs if settings.reads_state else analysis.values.V_h[graph.node]
    audited = graph.acting if depth is None else graph.acting & (graph.time[graph.node] <= depth)
    pair = np.flatnonzero(audited)
    values = critic_values(critic, graph, signals, batch=signals.batch)
    return Audit(analysis, settings, pair, values[pair], target[pair], truth[pair])


def critic_inputs(graph: HistoryGraph, reads: str, signals: PairSignals) -> Int[np.ndarray, "pairs"]:
    """Numbers that are equal where the critic reads the same: the history, its signals, or both.

    Critic and actor have the same kind of memory, so histories that one cannot tell apart are the same to the other.
    """
    columns = [np.zeros(graph.pairs, int), *signals.columns()]
    if "h" in reads:
        columns.append(graph.parameter[graph.node])
    return np.unique(np.stack(columns, 1), axis=0, return_inverse=True)[1].reshape(-1)


def taught_values(
    analysis: Analysis, inputs: Int[np.ndarray, "pairs"], settings: Settings, *, drawn: bool = False
) -> Float64[np.ndarray, "pairs"]:
    """What a table with one entry for each input converges to under the targets of these settings.

    An entry is the mean of the targets over all visits. TD targets depend on the table itself; their fixed point is
    reached by iteration, which contracts.

    With `drawn`, the state of a pair is one that was drawn from the belief. The future does not depend on it, so
    targets and bootstraps are means over the states of a history.
    """
    graph, values = analysis.graph, analysis.values
    visits = np.where(graph.acting, graph.mass, 0.0)
    total = np.bincount(inputs, visits)
    weight = np.divide(visits, total[inputs], out=np.zeros(graph.pairs), where=visits > 0)

    def over_draws(x: Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "pairs"]:
        return graph.per_node(graph.belief * x)[graph.node] if drawn else x

    truth = over_draws(values.V_hs)

    def critic(table: Float64[np.ndarray, "inputs"]) -> Float64[np.ndarray, "pairs"]:
        # Where the agent never acts nothing is learned; the true value stands in.
        return np.where(total[inputs] > 0, table[inputs], truth)

    table = np.bincount(inputs, weight * truth)
    if settings.targets[0] == "mc":
        return critic(table)
    change = np.inf
    while change > CONVERGED * max(1.0, np.abs(table).max()):
        targets = over_draws(_expected_targets(graph, over_draws(critic(table)), settings))
        previous, table = table, np.bincount(inputs, weight * targets)
        change = np.abs(table - previous).max()
    return critic(table)


def _expected_targets(
    graph: HistoryGraph, critic: Float64[np.ndarray, "pairs"], settings: Settings
) -> Float64[np.ndarray, "pairs"]:
    """The expected TD(0), TD(n) or TD(lambda) target at each pair."""
    discount, (estimator, parameter) = settings.discount, settings.targets
    if estimator == "td-lambda":
        lambda_ = parameter
        one_step = graph.reward + discount * (1 - lambda_) * (graph.P @ critic)
        # A return that runs into an open pair ends with the critic's value there.
        return graph.backward(np.where(graph.acting, one_step, critic), discount * lambda_)
    for _ in range(1 if estimator == "td0" else int(parameter)):
        critic = np.where(graph.acting, graph.reward + discount * (graph.P @ critic), critic)
    return critic
