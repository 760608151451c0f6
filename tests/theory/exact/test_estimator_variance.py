"""The variance of the gradient estimate with TD(lambda) advantages, against a list of all trajectories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asymrl import theory
from asymrl.theory.exact.gradients import advantage_moments, estimator_variance
from asymrl.theory.exact.policies import reactive
from asymrl.worlds.pomdp import Pomdp
from tests.oracles.trajectories import Act, History, random_policy, random_pomdp, trajectories

Critic = Callable[[History, int], float]


def listed(pomdp: Pomdp, act: Act, horizon: int, V: Critic, lambda_: float, row: Callable[[History], Any]) -> float:
    """The total variance of sum_t gamma^t A_t grad log pi(a_t; h_t), with a softmax for each row."""
    mean: dict[Any, np.ndarray] = defaultdict(lambda: np.zeros(pomdp.actions))
    second, g = 0.0, pomdp.discount
    for path in trajectories(pomdp, act, horizon):
        values = [V(path.histories[t], path.states[t]) for t in range(len(path.actions))] + [0.0]
        estimate: dict[Any, np.ndarray] = defaultdict(lambda: np.zeros(pomdp.actions))
        advantage = 0.0
        for t in reversed(range(len(path.actions))):
            advantage = path.rewards[t] + g * values[t + 1] - values[t] + g * lambda_ * advantage
            h, a = path.histories[t], path.actions[t]
            estimate[row(h)] += g**t * advantage * (np.eye(pomdp.actions)[a] - act(h))
        for key, part in estimate.items():
            mean[key] += path.probability * part
            second += path.probability * float(part @ part)
    return second - sum(float(part @ part) for part in mean.values())


def critic_of(analysis: theory.Analysis, table: np.ndarray) -> Critic:
    """A critic of the node of a history and the state, with values that are no fixed point of anything."""

    def V(h: History, s: int) -> float:
        node = analysis.find(h)
        assert node is not None
        return float(table[node, s])

    return V


@pytest.mark.parametrize("lambda_", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_row_for_each_history(seed: int, lambda_: float) -> None:
    pomdp = random_pomdp(seed, S=2)
    act = random_policy(seed, pomdp.actions)
    analysis = theory.analyse(pomdp, act, horizon=3, merge="history")
    graph = analysis.graph
    table = np.random.default_rng(seed).normal(size=(graph.nodes, pomdp.states))
    exact = estimator_variance(analysis.values, table[graph.node, graph.state], lambda_=lambda_)
    want = listed(pomdp, act, 3, critic_of(analysis, table), lambda_, lambda h: h)
    assert exact == pytest.approx(want, rel=1e-10)


@pytest.mark.parametrize("lambda_", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("merge", ["belief", "memory"])
def test_a_row_for_each_memory(merge: str, lambda_: float) -> None:
    """Rows recur in an episode, so that products of different steps count; a graph of memories will do."""
    pomdp = random_pomdp(3, S=2)
    pi = np.random.default_rng(3).dirichlet(np.ones(pomdp.actions), pomdp.observations + 1)

    def row(h: History) -> int:
        return h[-1][1] if h else pomdp.observations

    analysis = theory.analyse(pomdp, reactive(pi), horizon=4, merge=merge)
    graph = analysis.graph
    table = np.random.default_rng(4).normal(size=(5, pomdp.states))
    critic = table[graph.time[graph.node], graph.state]
    exact = estimator_variance(analysis.values, critic, lambda_=lambda_, shared=True)
    want = listed(pomdp, lambda h: pi[row(h)], 4, lambda h, s: float(table[len(h), s]), lambda_, row)
    assert exact == pytest.approx(want, rel=1e-10)


def test_with_lambda_1_the_advantage_is_the_return_minus_the_baseline() -> None:
    """E[A] is then Q(h, s, a) - V on average, whatever the critic, and a constant added to it does not matter."""
    analysis = theory.analyse("tiger", horizon=3)
    graph, values = analysis.graph, analysis.values
    critic = np.random.default_rng(0).normal(size=graph.pairs)
    mean, _ = advantage_moments(values, critic, 1.0)
    place = graph.source.astype(int) * 3 + graph.action
    weight = np.bincount(place, graph.probability, minlength=graph.pairs * 3)
    total = np.bincount(place, graph.probability * (mean + critic[graph.source]), minlength=graph.pairs * 3)
    np.testing.assert_allclose((total / weight).reshape(-1, 3), values.Q_hsa, atol=1e-10)


def test_drawn_states_have_no_shared_variance_with_lambda() -> None:
    analysis = theory.analyse("tiger", horizon=3)
    noise = np.ones(analysis.graph.pairs)
    with pytest.raises(ValueError, match="row per history"):
        estimator_variance(analysis.values, noise, lambda_=0.5, shared=True, noise=noise)
