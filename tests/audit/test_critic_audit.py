"""The audit of a critic, against a list of all trajectories of its policy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from asymrl.audit import Audit, audit_critic
from asymrl.audit.critic_targets import critic_inputs, taught_values
from asymrl.learning.settings import Settings
from asymrl.theory import History
from tests.audit.networks import acts, untrained
from tests.oracles.trajectories import Trajectory, mean_returns, trajectories

# What the critic of each method reads at (h, s).
READS: dict[str, Callable[[History, int], Hashable]] = {
    "a2c": lambda h, s: h,
    "a2c-asym-s": lambda h, s: s,
    "a2c-asym-hs": lambda h, s: (h, s),
    "a2c-react-1": lambda h, s: h[-1:],
}


@dataclass(frozen=True)
class Case:
    method: str
    settings: Settings
    audit: Audit
    paths: list[Trajectory]
    places: list[tuple[History, int]]
    """History and state of each pair of the audit."""

    @property
    def reads(self) -> Callable[[History, int], Hashable]:
        return READS[self.method]


@pytest.fixture(scope="module", params=READS)
def case(request: pytest.FixtureRequest) -> Case:
    world, settings, run = untrained("tiger", method=request.param, time_limit=3)
    audit = audit_critic(world, run.actor, run.critic, settings, mass=1.0)
    graph = audit.analysis.graph
    # A window policy's equal histories are one node; its likeliest history stands for all.
    places = [(graph.history(int(graph.node[p])), int(graph.state[p])) for p in audit.pair]
    paths = list(trajectories(world.pomdp(), acts(run.actor, graph.pomdp.observations), settings.time_limit))
    return Case(request.param, settings, audit, paths, places)


def means(
    paths: list[Trajectory], amount: Callable[[Trajectory, int], float], key: Callable[[Trajectory, int], Hashable]
) -> dict[Hashable, float]:
    """The mean of an amount over all visits, by key."""
    total, mass = defaultdict(float), defaultdict(float)
    for path in paths:
        for t in range(len(path.actions)):
            total[key(path, t)] += path.probability * amount(path, t)
            mass[key(path, t)] += path.probability
    return {each: total[each] / mass[each] for each in total}


def test_truth_is_the_mean_return(case: Case) -> None:
    reads_state = "asym" in case.method
    expected = mean_returns(
        case.paths,
        case.settings.discount,
        lambda path, t: (path.histories[t], path.states[t] if reads_state else None),
    )
    for truth, (h, s) in zip(case.audit.truth, case.places, strict=True):
        assert truth == pytest.approx(expected[h, s if reads_state else None], rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("estimator", ["td0", "td-n", "td-lambda", "mc"])
def test_target_is_the_fixed_point_of_the_expected_targets(case: Case, estimator: str) -> None:
    """Along all trajectories: the mean target over the visits of what the critic reads is what it is taught there."""
    settings = replace(case.settings, estimator=estimator)
    graph, g, n, lambda_ = case.audit.analysis.graph, settings.discount, settings.td_n, settings.td_lambda
    inputs = critic_inputs(graph, settings.how.reads, graph.state)
    taught = taught_values(case.audit.analysis, inputs, settings)[case.audit.pair]
    V = {case.reads(h, s): v for v, (h, s) in zip(taught, case.places, strict=True)}

    def value(path: Trajectory, t: int) -> float:
        return V[case.reads(path.histories[t], path.states[t])] if t < len(path.actions) else 0.0

    def target(path: Trajectory, t: int) -> float:
        if estimator == "mc":
            return path.returns(t, g)
        if estimator == "td-lambda":
            if t + 1 == len(path.actions):
                return path.rewards[t]
            return path.rewards[t] + g * ((1 - lambda_) * value(path, t + 1) + lambda_ * target(path, t + 1))
        steps = min(1 if estimator == "td0" else n, len(path.actions) - t)
        rewards = sum(g**k * path.rewards[t + k] for k in range(steps))
        return rewards + g**steps * value(path, t + steps)

    expected = means(case.paths, target, lambda path, t: case.reads(path.histories[t], path.states[t]))
    for v, (h, s) in zip(taught, case.places, strict=True):
        assert v == pytest.approx(expected[case.reads(h, s)], rel=1e-5, abs=1e-4)
    if estimator == case.settings.estimator:
        np.testing.assert_array_equal(case.audit.target, taught)


def test_only_critics_that_read_the_whole_history_have_unbiased_targets(case: Case) -> None:
    audit = case.audit
    if case.method in ("a2c", "a2c-asym-hs"):
        np.testing.assert_allclose(audit.bias, 0, atol=1e-8)
    else:
        assert audit.rms(audit.bias) > 1


def test_history_bias_is_the_mean_over_the_belief(case: Case) -> None:
    graph, analysis = case.audit.analysis.graph, case.audit.analysis
    by_place = dict(zip(case.places, case.audit.target, strict=True))
    for node in range(0, graph.nodes, 7):
        h = graph.history(node)
        expected = sum(b * by_place[h, s] for s, b in enumerate(analysis.belief(h)) if b > 0) - analysis.V(h)
        assert case.audit.history_bias[node] == pytest.approx(expected, abs=1e-12)


def test_errors_are_weighted_by_visits(case: Case) -> None:
    """The mean square error over all steps of all trajectories."""
    audit, graph, node = case.audit, case.audit.analysis.graph, cache(case.audit.analysis.find)
    places = zip(graph.node[audit.pair].tolist(), graph.state[audit.pair].tolist(), strict=True)
    squares: dict[tuple[int | None, int], float] = dict(zip(places, (audit.error**2).tolist(), strict=True))
    visits = [(path, t) for path in case.paths for t in range(len(path.actions))]
    total = sum(path.probability * squares[node(path.histories[t]), path.states[t]] for path, t in visits)
    steps = sum(path.probability for path, _ in visits)
    assert audit.rms(audit.error) ** 2 == pytest.approx(total / steps, rel=1e-5)


def test_numbers_and_text_agree(case: Case) -> None:
    audit = case.audit
    numbers, text = audit.numbers(), str(audit)
    assert f"of {case.method}, td0 targets, at {len(case.places)} pairs" in text
    for part in ("error", "bias", "fit"):
        assert f"{numbers['rms'][part]:10.4f}{numbers['max'][part]:10.4f}" in text
    first, *_ = audit.worst(1)
    amount = first["visits"] * (first["critic"] - first["truth"]) ** 2
    assert amount == pytest.approx(float((audit.weight * audit.error**2).max()))


def test_part_of_the_histories() -> None:
    world, settings, run = untrained("heaven-hell-1", method="a2c-asym-s")
    full = audit_critic(world, run.actor, run.critic, settings, mass=1.0)
    early = audit_critic(world, run.actor, run.critic, settings, mass=0.9, depth=1)
    graph = early.analysis.graph
    assert set(graph.time[graph.node[early.pair]].tolist()) == {0, 1}
    assert early.analysis.left_over <= 0.1
    assert abs(early.analysis.J - full.analysis.J) <= early.analysis.error
    assert all(len(at["history"].split()) == 1 for at in early.worst(depth=1) if at["history"] != "the start")


def test_an_audit_needs_a_horizon() -> None:
    world, settings, run = untrained("heaven-hell-1", method="a2c-react-1")
    with pytest.raises(ValueError, match="heaven-hell-1: a critic is audited along histories"):
        audit_critic(world, run.actor, run.critic, settings, horizon=float("inf"))
