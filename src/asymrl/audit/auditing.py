"""Critic audit: how far a trained critic is from the exact values of its own policy, and why.

A critic can be wrong for two reasons. What it is trained towards may not be the value: V(s) averages over all
histories in which a state is met. And it may not have learned what it is trained towards. The audit tells the two
apart exactly. For the policy as it is now it computes what the critic's targets would teach a table that reads the same
inputs (*target*), what the value really is (*truth*), and what the network says (*critic*):

    critic - truth  =  (target - truth)  +  (critic - target)
        error              bias                 fit
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64, Int

from asymrl.audit.actor import TrainedActor, trained_actor
from asymrl.audit.critic_network import critic_values
from asymrl.learning.settings import Settings
from asymrl.learning.state import RunState
from asymrl.theory.analysis import Analysis, analyse
from asymrl.theory.graph import Graph
from asymrl.worlds.finite import FiniteWorld

MASS = 0.99
STILL = 1e-10  # a change of the targets at which they count as found
NEGLIGIBLE = 1e-9  # uncertainty of true values that needs no mention
PARTS = {"error": "error", "bias": "  bias of what it is taught", "fit": "  fitting error"}
WRAP = textwrap.TextWrapper(100, initial_indent="    ", subsequent_indent="    ")


@dataclass(frozen=True, eq=False)
class Audit:
    """A critic against exact values, at every pair (h, s) of `analysis.graph` in which an action follows."""

    analysis: Analysis
    settings: Settings
    pair: Int[np.ndarray, "P"]
    """The pairs that were audited, as numbers in the graph."""
    critic: Float64[np.ndarray, "P"]
    target: Float64[np.ndarray, "P"]
    truth: Float64[np.ndarray, "P"]
    """V(h, s) for critics that read the state, V(h) for the others."""

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
        """How often each pair is visited, as a share."""
        visits = self.analysis.graph.mass[self.pair]
        return visits / visits.sum()

    @cached_property
    def history_bias(self) -> Float64[np.ndarray, "nodes"]:
        """E[target | h] - V(h): the bias that an actor meets. NaN for histories that were not audited."""
        graph = self.analysis.graph
        told = np.bincount(graph.node[self.pair], graph.belief[self.pair] * self.target, minlength=graph.nodes)
        audited = np.bincount(graph.node[self.pair], minlength=graph.nodes) > 0
        return np.where(audited, told - self.analysis.values.V_h, np.nan)

    def rms(self, x: Float64[np.ndarray, "P"]) -> float:
        """The root of the mean square over visits."""
        return float(np.sqrt(self.weight @ x**2))

    def worst(self, count: int = 5, depth: int | None = None) -> list[dict[str, Any]]:
        """The pairs (with at most `depth` actions) that add most to the mean square error, in the problem's words."""
        graph, pomdp = self.analysis.graph, self.analysis.pomdp
        named = np.arange(len(self.pair))
        if depth is not None:
            named = named[graph.time[graph.node[self.pair]] <= depth]
        order = named[np.argsort(-(self.weight * self.error**2)[named], kind="stable")[:count]]
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
        """All that a program may want to know; histories with more than `depth` actions are not named."""
        return {
            "method": self.settings.method,
            "estimator": self.settings.estimator,
            "pairs": len(self.pair),
            "left_over": self.analysis.left_over,
            "value_error": float(self.analysis.values.error[self.pair].max(initial=0.0)),
            "rms": {name: self.rms(getattr(self, name)) for name in ("error", "bias", "fit")},
            "max": {name: float(np.abs(getattr(self, name)).max()) for name in ("error", "bias", "fit")},
            "worst": self.worst(depth=depth),
        }

    def report(self, depth: int | None = None) -> Iterator[str]:
        """Lines for people; histories with more than `depth` actions are not named."""
        about = {"h": "V(h)", "s": "V(s)", "hs": "V(h, s)"}[self.settings.how.reads]
        numbers = self.numbers(depth)
        yield (
            f"Critic {about} of {self.settings.method}, {self.settings.estimator} targets, at {len(self.pair)} pairs "
            f"(history, state); {self.analysis.left_over:.2%} of the episodes leave them"
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
            yield from WRAP.wrap(f"in state {at['state']} after {at['history']}")

    def __str__(self) -> str:
        return "\n".join(self.report())


def audit(
    run: str | os.PathLike[str],
    seed: int | None = None,
    *,
    mass: float = MASS,
    depth: int | None = None,
    horizon: int | None = None,
) -> Audit:
    """Audits the critic of a run folder: the best run in it, or the one with this seed.

    Args:
        run: what `asymrl train` wrote.
        seed: which run.
        mass: follow the likeliest histories until they have this probability.
        depth: audit only pairs met after at most this many actions.
        horizon: how many actions there are at most; by default the time limit of training.

    Raises:
        ValueError: if there is no such run, or its world has no finite tables.
    """
    world, _, chosen = trained_actor(run, seed)
    return audit_run(world, chosen.settings, chosen.state, mass=mass, depth=depth, horizon=horizon)


def audit_run(
    world: FiniteWorld,
    settings: Settings,
    run: RunState,
    *,
    mass: float = MASS,
    depth: int | None = None,
    horizon: float | None = None,
) -> Audit:
    """Audits the critic of a run that is in memory."""
    analysis = analyse(
        world,
        TrainedActor(run.actor),
        horizon=horizon,
        discount=settings.discount,
        truncation="bootstrap" if settings.bootstrap_truncated else "end",
        mass=mass,
        lambda_=settings.td_lambda,
    )
    graph, reads = analysis.graph, settings.how.reads
    if graph.stationary:
        raise ValueError(f"{world.name}: a critic is audited along histories, which needs a horizon")
    signal = _signal(world, settings, graph)
    said = critic_values(run.critic, graph, signal)
    target = regressed(analysis, _inputs(graph, reads, signal), settings)
    truth = analysis.values.V_hs if "s" in reads else analysis.values.V_h[graph.node]
    early = graph.acting if depth is None else graph.acting & (graph.time[graph.node] <= depth)
    pair = np.flatnonzero(early)
    return Audit(analysis, settings, pair, said[pair], target[pair], truth[pair])


def _signal(world: FiniteWorld, settings: Settings, graph: Graph) -> Any:
    """What the critic is told in the state of each pair."""
    of = world.signals()[settings.critic_sees].of
    return np.asarray(jax.vmap(of)(jnp.arange(graph.pomdp.states)))[graph.state]


def _inputs(graph: Graph, reads: str, signal: np.ndarray) -> Int[np.ndarray, "pairs"]:
    """Numbers that are equal where the critic reads the same.

    Histories that the actor can't tell apart the critic can't either: both remember alike.
    """
    columns = [np.zeros(graph.pairs, int)]
    if "h" in reads:
        columns.append(graph.parameter[graph.node])
    if "s" in reads:
        columns += list(signal.reshape(graph.pairs, -1).T)
    return np.unique(np.stack(columns, 1), axis=0, return_inverse=True)[1].reshape(-1)


def regressed(analysis: Analysis, inputs: Int[np.ndarray, "pairs"], settings: Settings) -> Float64[np.ndarray, "pairs"]:
    """What a table with one entry for each input converges to under the run's targets while the policy stays.

    An entry is the mean of the targets over all visits. With TD targets these depend on the table itself; the fixed
    point is found by iteration, which contracts.
    """
    graph, values = analysis.graph, analysis.values
    visits = np.where(graph.acting, graph.mass, 0.0)
    learned = np.bincount(inputs, visits) > 0
    weight = np.divide(visits, np.bincount(inputs, visits)[inputs], out=np.zeros(graph.pairs), where=visits > 0)
    table = np.bincount(inputs, weight * values.V_hs)
    if settings.estimator == "mc":
        return np.where(learned[inputs], table[inputs], values.V_hs)
    change = np.inf
    while change > STILL * max(1.0, np.abs(table).max()):
        # What is never learned, because no action follows, keeps its true value.
        told = np.where(learned[inputs], table[inputs], values.V_hs)
        previous, table = table, np.bincount(inputs, weight * _targets(analysis, told, settings))
        change = np.abs(table - previous).max()
    return np.where(learned[inputs], table[inputs], values.V_hs)


def _targets(
    analysis: Analysis, told: Float64[np.ndarray, "pairs"], settings: Settings
) -> Float64[np.ndarray, "pairs"]:
    """The expected TD(0), TD(n) or TD(lambda) target in each pair, if the critic says `told`."""
    graph, discount = analysis.graph, settings.discount
    if settings.estimator == "td-lambda":
        lambda_ = settings.td_lambda
        one_step = graph.reward + discount * (1 - lambda_) * (graph.P @ told)
        # A return that runs into an open pair ends with what the critic says there.
        gain = np.where(graph.acting, one_step, told)
        return graph.backward(gain, discount * lambda_)
    for _ in range(1 if settings.estimator == "td0" else settings.td_n):
        told = np.where(graph.acting, graph.reward + discount * (graph.P @ told), told)
    return told
