"""The paper's theorems on random problems and random policies, against a list of all trajectories."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from asymrl import theory
from asymrl.theory.exact import gradients
from tests.oracles.trajectories import gradient_moments, mean_returns, random_policy, random_pomdp, trajectories

HORIZON = 3
problems = st.tuples(st.integers(0, 10**6), st.booleans())


def made(problem: tuple[int, bool], merge: str = "history"):
    seed, shows_first = problem
    pomdp = random_pomdp(seed, shows_first=shows_first)
    act = random_policy(seed, pomdp.actions)
    return pomdp, act, theory.analyse(pomdp, act, horizon=HORIZON, merge=merge)


@given(problems)
@settings(max_examples=6)
def test_values_are_mean_returns(problem: tuple[int, bool]) -> None:
    pomdp, act, analysis = made(problem)
    paths = list(trajectories(pomdp, act, HORIZON))
    g = pomdp.discount
    assert sum(path.probability for path in paths) == pytest.approx(1, abs=1e-12)
    for h, expected in mean_returns(paths, g, lambda path, t: path.histories[t]).items():
        assert analysis.V(h) == pytest.approx(expected, abs=1e-10)
    for (h, s), expected in mean_returns(paths, g, lambda path, t: (path.histories[t], path.states[t])).items():
        assert analysis.V(h, s) == pytest.approx(expected, abs=1e-10)
    by_action = mean_returns(paths, g, lambda path, t: (path.histories[t], path.actions[t]))
    for (h, a), expected in by_action.items():
        assert analysis.Q(h, a) == pytest.approx(expected, abs=1e-10)
    by_state = mean_returns(paths, g, lambda path, t: (path.histories[t], path.states[t], path.actions[t]))
    for (h, s, a), expected in by_state.items():
        assert analysis.Q(h, s, a) == pytest.approx(expected, abs=1e-10)
    assert pytest.approx(sum(path.probability * path.returns(0, g) for path in paths), abs=1e-10) == analysis.J


@given(problems)
@settings(max_examples=40)
def test_v_of_h_is_the_mean_of_v_of_h_and_s(problem: tuple[int, bool]) -> None:
    """Theorem "V(h) = E[V(h, s) | h]", and the same for Q. The two sides come from two different recursions."""
    _, _, analysis = made(problem)
    graph, values = analysis.graph, analysis.values
    np.testing.assert_allclose(graph.per_node(graph.belief * values.V_hs), values.V_h, atol=1e-10)
    np.testing.assert_allclose(graph.per_node(graph.belief[:, None] * values.Q_hsa), values.Q_ha, atol=1e-10)


@given(problems)
@settings(max_examples=25)
def test_asymmetric_and_symmetric_gradient_are_the_derivative(problem: tuple[int, bool]) -> None:
    pomdp, act, analysis = made(problem)
    graph, values = analysis.graph, analysis.values
    asymmetric = gradients.asymmetric_gradient(graph, values.Q_hsa).table
    symmetric = gradients.symmetric_gradient(graph, values.Q_ha).table
    np.testing.assert_allclose(asymmetric, symmetric, atol=1e-10)
    for node in range(0, graph.nodes, max(1, graph.nodes // 3)):
        h, a = graph.history(node), node % pomdp.actions

        def shifted(step: float, h=h, a=a) -> float:
            def nudged(other):
                logits = np.log(act(other))
                logits[a] += step if other == h else 0.0
                return np.exp(logits) / np.exp(logits).sum()

            return theory.analyse(pomdp, nudged, horizon=HORIZON).J

        slope = (shifted(1e-5) - shifted(-1e-5)) / 2e-5
        assert asymmetric[graph.parameter[node], a] == pytest.approx(slope, abs=1e-8)


@given(problems)
@settings(max_examples=6)
def test_timed_and_visit_weighted_state_values(problem: tuple[int, bool]) -> None:
    pomdp, act, analysis = made(problem)
    paths = list(trajectories(pomdp, act, HORIZON))
    g, S = pomdp.discount, pomdp.states
    for (t, s), expected in mean_returns(paths, g, lambda path, t: (t, path.states[t])).items():
        assert analysis.timed_values(t)[s] == pytest.approx(expected, abs=1e-10)
    for s, expected in mean_returns(paths, g, lambda path, t: path.states[t]).items():
        assert analysis.visit_values("mc")[s] == pytest.approx(expected, abs=1e-10)
    # TD(lambda) converges where the mean target of every state is its value.
    for lambda_ in (0.0, 0.6):
        V = analysis.visit_values("td-lambda", lambda_)
        total, visits = np.zeros(S), np.zeros(S)
        for path in paths:
            target = 0.0
            for t in reversed(range(len(path.actions))):
                more = t + 1 < len(path.actions)
                later = (1 - lambda_) * V[path.states[t + 1]] + lambda_ * target if more else 0.0
                target = path.rewards[t] + g * later
                total[path.states[t]] += path.probability * target
                visits[path.states[t]] += path.probability
        met = visits > 0
        np.testing.assert_allclose(total[met] / visits[met], V[met], atol=1e-10)


@given(problems)
@settings(max_examples=3)
def test_variance_of_the_estimate(problem: tuple[int, bool]) -> None:
    pomdp, act, analysis = made(problem)
    paths = list(trajectories(pomdp, act, HORIZON))
    for critic, value in (("h", functools.cache(lambda h, s: analysis.V(h))), ("hs", functools.cache(analysis.V))):
        rows, expected = gradient_moments(paths, act, value, pomdp.discount)
        assert analysis.variance(critic) == pytest.approx(expected, rel=1e-9, abs=1e-10)
        table, graph = analysis.gradient(critic).table, analysis.graph
        expected_table = np.zeros_like(table)
        for node in range(graph.nodes):
            expected_table[graph.parameter[node]] = rows[graph.history(node)]
        np.testing.assert_allclose(table, expected_table, atol=1e-10)


@given(problems)
@settings(max_examples=3)
def test_resampled_states_add_their_variance(problem: tuple[int, bool]) -> None:
    """V(h, s) of a state drawn again from the belief: E[delta^2] grows by Var(V | h) + gamma^2 Var(V | h').

    Compared with the moments over all trajectories and, at each step, over all pairs of states that can be drawn.
    """
    pomdp, act, analysis = made(problem)
    g, second = pomdp.discount, 0.0
    rows: dict[theory.History, np.ndarray] = {}

    @functools.cache
    def drawn(h: theory.History) -> list[tuple[float, float]]:
        return [(p, analysis.V(h, s)) for s, p in enumerate(analysis.belief(h)) if p > 0]

    for path in trajectories(pomdp, act, HORIZON):
        for t, a in enumerate(path.actions):
            h = path.histories[t]
            after = drawn(path.histories[t + 1]) if t + 1 < len(path.actions) else [(1.0, 0.0)]
            draws = [(p * q, path.rewards[t] + g * v - u) for p, u in drawn(h) for q, v in after]
            score = g**t * (np.eye(pomdp.actions)[a] - act(h))
            second += path.probability * sum(p * delta**2 for p, delta in draws) * float(score @ score)
            mean = path.probability * sum(p * delta for p, delta in draws) * score
            rows[h] = rows.get(h, np.zeros(pomdp.actions)) + mean
    expected = second - sum(float(row @ row) for row in rows.values())
    assert analysis.variance("hs", resampled=True) == pytest.approx(expected, rel=1e-9, abs=1e-10)
    assert expected > analysis.variance("h")


@given(problems, st.sampled_from(["mc", "td0", "timed-mc"]))
@settings(max_examples=25)
def test_any_baseline_leaves_monte_carlo_unbiased(problem: tuple[int, bool], critic: str) -> None:
    _, _, analysis = made(problem)
    true = analysis.gradient()
    assert analysis.gradient(critic, "mc").error(true) == pytest.approx(0, abs=1e-12)
    assert np.nanmax(np.abs(analysis.gradient_bias(critic, "mc"))) < 1e-10


@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_merging_equal_beliefs_changes_nothing(seed: int) -> None:
    pomdp = random_pomdp(seed, S=2, shows_first=True)
    table = np.random.default_rng(seed).dirichlet(np.ones(2), 2)
    every = theory.analyse(pomdp, table, horizon=4, merge="history")
    merged = theory.analyse(pomdp, table, horizon=4, merge="belief")
    chain = theory.analyse(pomdp, table, horizon=4, merge="memory")
    assert chain.graph.nodes <= merged.graph.nodes <= every.graph.nodes
    for other in (merged, chain):
        assert pytest.approx(every.J, abs=1e-12) == other.J
        np.testing.assert_allclose(other.gradient().table, every.gradient().table, atol=1e-12)
        np.testing.assert_allclose(other.gradient("td0").table, every.gradient("td0").table, atol=1e-10)
        np.testing.assert_allclose(other.states.timed_td, every.states.timed_td, atol=1e-12)
    assert merged.variance("hs") == pytest.approx(every.variance("hs"), rel=1e-10)
    assert merged.variance("h", shared=True) == pytest.approx(every.variance("h", shared=True), rel=1e-10)


@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_shared_rows_count_what_comes_back(seed: int) -> None:
    """With one row for all histories, the estimate of an episode is one vector; its variance by listing."""
    pomdp = random_pomdp(seed, S=2)
    p = np.random.default_rng(seed).dirichlet(np.ones(2))
    analysis = theory.analyse(pomdp, np.tile(p, (3, 1)), horizon=HORIZON, merge="history")
    one_row = theory.analyse(
        pomdp, theory.Controller(p[None], np.zeros(3, int), np.zeros((1, 2, 2), int)), horizon=HORIZON, merge="history"
    )
    V, mean, second = functools.cache(analysis.V), np.zeros(2), 0.0
    for path in trajectories(pomdp, lambda h: p, HORIZON):
        estimate = np.zeros(2)
        for t, a in enumerate(path.actions):
            more = t + 1 < len(path.actions)
            later = V(path.histories[t + 1]) if more else 0.0
            delta = path.rewards[t] + pomdp.discount * later - V(path.histories[t])
            estimate += pomdp.discount**t * delta * (np.eye(2)[a] - p)
        mean += path.probability * estimate
        second += path.probability * (estimate @ estimate)
    assert one_row.variance("h", shared=True) == pytest.approx(second - mean @ mean, rel=1e-9)
    np.testing.assert_allclose(one_row.gradient().table[0], mean, atol=1e-10)
