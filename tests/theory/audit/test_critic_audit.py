"""The audit of a critic, against a list of all trajectories of its policy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float64

from asymrl import theory
from asymrl.learners.signals import critic_signal
from asymrl.learners.state import training_world
from asymrl.settings import DQNSettings, Settings
from asymrl.theory import History
from asymrl.theory.audit import Audit, audit_critic
from asymrl.theory.audit.critic_audit import critic_inputs, taught_values
from asymrl.theory.audit.trained_networks import PairSignals
from asymrl.worlds import FiniteWorld
from tests.oracles.trajectories import Trajectory, mean_returns, trajectories
from tests.runs.engine.stores import random_states
from tests.theory.audit.networks import acts, sequence, untrained
from tests.theory.exact.worlds import problem

TIGER = problem("tiger")


@cache
def tiger_belief(h: History) -> Float64[np.ndarray, "S"]:
    return theory.belief_of(TIGER, h)


def rounded_belief(h: History) -> Hashable:
    return tuple(np.round(tiger_belief(h), 9))


# What the critic of each method reads at (h, s), by what it is told.
READS: dict[tuple[str, str], Callable[[History, int], Hashable]] = {
    ("a2c", "state"): lambda h, s: h,
    ("a2c-asym-s", "state"): lambda h, s: s,
    ("a2c-asym-hs", "state"): lambda h, s: (h, s),
    ("a2c-react-1", "state"): lambda h, s: h[-1:],
    ("a2c-asym-s", "belief"): lambda h, s: rounded_belief(h),
    ("a2c-asym-s", "state+time"): lambda h, s: (s, len(h)),
    ("a2c-asym-hs", "belief+time"): lambda h, s: h,
}


@dataclass(frozen=True)
class Case:
    world: FiniteWorld
    method: str
    settings: Settings
    audit: Audit
    paths: list[Trajectory]
    places: list[tuple[History, int]]
    """History and state of each pair of the audit."""

    @property
    def reads(self) -> Callable[[History, int], Hashable]:
        return READS[self.method, self.settings.critic_sees]


@pytest.fixture(scope="module", params=READS, ids="-".join)
def case(request: pytest.FixtureRequest) -> Case:
    method, sees = request.param
    world, settings, run = untrained("tiger", method=method, critic_sees=sees, time_limit=3)
    audit = audit_critic(world, run.actor, run.critic, settings, mass=1.0)
    graph = audit.analysis.graph
    # A window policy's equal histories are one node; its likeliest history stands for all.
    places = [(graph.history(int(graph.node[p])), int(graph.state[p])) for p in audit.pair]
    paths = list(trajectories(world.pomdp(), acts(run.actor, graph.pomdp.observations), settings.time_limit))
    return Case(world, method, settings, audit, paths, places)


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
    reads_state = case.settings.reads_state
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
    inputs = critic_inputs(graph, settings.how.reads, PairSignals(case.world, graph, settings))
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
        assert audit.rms(audit.bias) > 0.1


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


@pytest.mark.parametrize("method", ["a2c-asym-s", "a2c-asym-hs"])
def test_a_sampled_state_teaches_the_mean_over_its_histories(method: str) -> None:
    """V(s~) is the mean of r + gamma E[V(s'~) | h'] over all visits, where s'~ is drawn anew; V(h, s~) is V(h)."""
    world, settings, run = untrained("tiger", method=method, critic_sees="sampled-state", time_limit=3)
    audit = audit_critic(world, run.actor, run.critic, settings, mass=1.0)
    graph, states = audit.analysis.graph, range(2)
    np.testing.assert_array_equal(audit.truth, audit.analysis.values.V_h[graph.node[audit.pair]])
    if method == "a2c-asym-hs":
        np.testing.assert_allclose(audit.bias, 0, atol=1e-8)
        return
    V = dict(zip(graph.state[audit.pair].tolist(), audit.target.tolist(), strict=True))
    assert len(set(audit.target.round(9))) == len(V) == 2

    total, visits = np.zeros(2), np.zeros(2)
    for path in trajectories(world.pomdp(), acts(run.actor, graph.pomdp.observations), settings.time_limit):
        for t, reward in enumerate(path.rewards):
            b = tiger_belief(path.histories[t])
            ahead = 0.0
            if t + 1 < len(path.rewards):
                ahead = sum(tiger_belief(path.histories[t + 1])[s] * V[s] for s in states)
            total += path.probability * b * (reward + settings.discount * ahead)
            visits += path.probability * b
    np.testing.assert_allclose([V[s] for s in states], total / visits, rtol=1e-5)


@pytest.mark.parametrize("sees", ["belief", "sampled-state+time", "state+belief"])
def test_the_audit_asks_the_critic_as_training_does(sees: str) -> None:
    world, settings, run = untrained("tiger", critic_sees=sees, time_limit=3)
    audit = audit_critic(world, run.actor, run.critic, settings, mass=1.0)
    graph = audit.analysis.graph
    for i in (0, len(audit.pair) // 2, len(audit.pair) - 1):
        pair = audit.pair[i]
        h, state = graph.history(int(graph.node[pair])), int(graph.state[pair])
        before, seen = sequence(h, graph.pomdp.observations)
        times = jnp.arange(len(h) + 1)[:, None]
        signal = critic_signal(world, settings)
        steps = times == 0, before, seen, jnp.full(seen.shape, state), times
        _, told = signal.follow(jax.random.key(0), signal.initial(1), *steps)
        if "sampled-state" in sees:
            told["sampled-state"] = jnp.full(seen.shape, state)  # the one that the pair stands for
        assert audit.critic[i] == pytest.approx(float(run.critic(before, seen, told)[-1, 0]), abs=1e-5)


def test_a_critic_of_a_state_and_a_sampled_state_is_not_audited() -> None:
    world, settings, run = untrained("tiger", critic_sees="state+sampled-state", time_limit=3)
    with pytest.raises(ValueError, match=r"told state\+sampled-state; one that reads a state and a sampled state"):
        audit_critic(world, run.actor, run.critic, settings)


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


def test_action_values_are_not_audited():
    settings = DQNSettings(world="heaven-hell-1", method="adqn", memory_size=4, hidden=(4,), replay_steps=100)
    world, run = training_world(settings), random_states(settings, [0])
    assert isinstance(world, FiniteWorld)
    with pytest.raises(ValueError, match=r"adqn learns action values.*asymrl theory heaven-hell-1 --learner adqn"):
        audit_critic(world, run.actor, run.critic, settings)
