"""The audit of trained critics."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from asymrl.runs.listeners import Silent

import asymrl
from asymrl.audit.auditing import Audit, audit_run, regressed
from asymrl.learning.settings import Settings
from asymrl.learning.state import RunState, new_run, training_world
from asymrl.models.agent import NO_ACTION
from asymrl.theory.values import action_values
from asymrl.worlds import FiniteWorld

SMALL = {"memory_size": 8, "hidden": (8,), "time_limit": 4}


@pytest.fixture(scope="module", params=["a2c-asym-hs", "a2c-asym-s", "a2c", "a2c-react-1"])
def audited(request) -> tuple[RunState, Audit]:
    """A run at its beginning: random networks, so that no two histories are alike to them."""
    settings = Settings(world="heaven-hell-1", method=request.param, **SMALL)
    world = training_world(settings)
    assert isinstance(world, FiniteWorld)
    run = new_run(world, settings, 0)
    return run, audit_run(world, settings, run, mass=1.0)


def test_error_is_bias_and_fit(audited):
    _, found = audited
    np.testing.assert_allclose(found.error, found.bias + found.fit, atol=1e-12)
    assert found.weight.sum() == pytest.approx(1)
    assert found.analysis.left_over == pytest.approx(0, abs=1e-12)
    assert found.rms(found.fit) > 1e-3, "random networks are never right"


def test_what_the_critic_says_is_what_it_says_in_training(audited):
    run, found = audited
    graph = found.analysis.graph
    for i in (0, len(found.pair) // 2, len(found.pair) - 1):
        node, s = int(graph.node[found.pair[i]]), int(graph.state[found.pair[i]])
        h = graph.history(node)
        before = jnp.array([[NO_ACTION], *([a] for a, _ in h)], jnp.int32)
        seen = jnp.array([[graph.pomdp.observations], *([o] for _, o in h)], jnp.int32)
        values = run.critic(before, seen, jnp.full(before.shape, s, jnp.int32))
        assert found.critic[i] == pytest.approx(float(values[-1, 0]), abs=1e-5)


def test_history_critics_have_unbiased_targets_and_state_critics_the_visits_averages(audited):
    _, found = audited
    if found.settings.method in ("a2c", "a2c-asym-hs"):
        np.testing.assert_allclose(found.bias, 0, atol=1e-8)
        np.testing.assert_allclose(found.history_bias[~np.isnan(found.history_bias)], 0, atol=1e-8)
    if found.settings.method == "a2c-asym-s":
        graph = found.analysis.graph
        np.testing.assert_allclose(found.target, found.analysis.visit_values("td0")[graph.state[found.pair]], atol=1e-8)
        assert found.rms(found.bias) > 1e-6
        inputs = graph.state
        for estimator in ("mc", "td-lambda"):
            told = regressed(found.analysis, inputs, replace(found.settings, estimator=estimator))
            expected = found.analysis.visit_values(estimator)[inputs]
            np.testing.assert_allclose(told[found.pair], expected[found.pair], atol=1e-8)


def test_targets_of_a_short_memory_are_a_fixed_point(audited):
    _, found = audited
    if found.settings.method != "a2c-react-1":
        return
    graph = found.analysis.graph
    row = graph.parameter[graph.node]
    table = np.zeros(graph.pairs)
    table[found.pair] = found.target
    one_step = np.nansum(graph.pi[graph.node] * action_values(graph, table), axis=1)
    means = np.bincount(row, graph.mass * one_step) / np.bincount(row, graph.mass)
    np.testing.assert_allclose(found.target, means[row][found.pair], atol=1e-8)


def test_a_report_for_people_and_one_for_programs(audited):
    _, found = audited
    assert {"error", "bias", "fit"} == set(found.numbers()["rms"])
    text = str(found)
    assert found.settings.method in text
    assert f"{found.rms(found.fit):.4f}" in text
    first, *_ = found.worst(1)
    share = first["visits"] * (first["critic"] - first["truth"]) ** 2
    assert share == pytest.approx(float((found.weight * found.error**2).max()))


@pytest.mark.slow
def test_a_trained_run_in_its_folder(tmp_path):
    result = asymrl.train(
        "heaven-hell-1",
        "a2c-asym-s",
        out=tmp_path / "run",
        seeds=1,
        listener=Silent(),
        steps=300,
        log_points=2,
        **SMALL,
    )
    full, early = asymrl.theory.audit(result.folder, mass=1.0), asymrl.theory.audit(result.folder, mass=0.9, depth=1)
    graph = early.analysis.graph
    assert graph.time[graph.node[early.pair]].max() <= 1
    assert len(early.pair) < len(full.pair)
    assert abs(early.analysis.J - full.analysis.J) <= early.analysis.error + 1e-9
    assert full.settings.method == "a2c-asym-s"
    assert full.rms(full.error) <= full.rms(full.bias) + full.rms(full.fit)
