"""What exact computation adds to the paper, each with its number where it has one."""

import dataclasses
import math

import numpy as np
import pytest

from asymrl import theory
from asymrl.theory.exact import gradients
from asymrl.theory.exact.histories import count_histories
from asymrl.worlds.pomdp import Pomdp
from tests.oracles.trajectories import random_policy
from tests.theory.exact.worlds import heard_the_priest, load_unload, problem

ALL = {"heaven-hell-1": 7, "shopping-2": 4, "tiger": 3, "tiger:episodic=true": 3, "good-bad": 4, "load-unload": 6}


def named(name: str) -> Pomdp:
    return load_unload() if name == "load-unload" else problem(name)


def random_reactive(pomdp: Pomdp, seed: int = 0) -> np.ndarray:
    shown = pomdp.observations + (pomdp.first_observation is None)
    return np.random.default_rng(seed).dirichlet(np.ones(pomdp.actions), shown)


def worst(x: np.ndarray) -> float:
    return float(np.nanmax(np.abs(x)))


@pytest.mark.parametrize(("name", "depth"), ALL.items())
def test_values_and_gradients_agree_for_a_policy_of_the_history(name: str, depth: int) -> None:
    """Fact 1, on known problems rather than random ones."""
    pomdp = named(name)
    analysis = theory.analyse(pomdp, random_policy(0, pomdp.actions), horizon=depth)
    graph, values = analysis.graph, analysis.values
    scale = max(1.0, worst(values.V_h))
    assert worst(graph.per_node(graph.belief * values.V_hs) - values.V_h) < 1e-13 * scale
    assert worst(graph.per_node(graph.belief[:, None] * values.Q_hsa) - values.Q_ha) < 1e-13 * scale
    true = gradients.symmetric_gradient(graph, values.Q_ha)
    assert analysis.gradient().error(true) < 1e-14 * max(1.0, true.norm) * scale


@pytest.mark.parametrize("name", ["tiger", "heaven-hell-1", "load-unload", "shopping-2"])
def test_reactive_policy_has_q_of_state_and_action(name: str) -> None:
    """Fact 3: Q_t(h, s, a) is the same for all histories, so that the timed critic gives the true gradient."""
    pomdp = named(name)
    analysis = theory.analyse(pomdp, random_reactive(pomdp), horizon=4, merge="history")
    graph, Q = analysis.graph, analysis.values.Q_hsa
    place = (graph.time[graph.node] * pomdp.states + graph.state)[:, None] * pomdp.actions + np.arange(pomdp.actions)
    for extreme in (np.maximum, np.minimum):
        common = np.full(4 * pomdp.states * pomdp.actions, -np.inf if extreme is np.maximum else np.inf)
        extreme.at(common, place, Q)
        np.testing.assert_allclose(Q, common[place], atol=1e-12)
    mean = graph.per_node(graph.belief[:, None] * common[place])
    np.testing.assert_allclose(mean, analysis.values.Q_ha, atol=1e-12)


@pytest.mark.parametrize("name", ["heaven-hell-1", "load-unload", "good-bad"])
def test_reactive_policy_where_the_state_decides_what_is_seen_has_a_true_gradient(name: str) -> None:
    """Fact 3: one step and then V_t(s') is Q(s, a), and unbiased although V_t(s) is not (good/bad)."""
    pomdp = named(name)
    analysis = theory.analyse(pomdp, random_reactive(pomdp), horizon=5)
    for critic in ("timed-mc", "timed-td"):
        assert worst(analysis.gradient_bias(critic)) < 1e-12
    assert (worst(analysis.value_bias("timed-mc")) > 0.01) == (name == "good-bad")


def test_what_is_seen_in_the_tiger_problem_depends_on_the_action() -> None:
    """Fact 3 needs Pr(o | s'): after opening a door one hears nothing, so that V(s') mixes two kinds of arrival.

    Q(s, a) is unbiased all the same; r + gamma V(s') is not Q(s, a).
    """
    pomdp = problem("tiger")
    analysis = theory.analyse(pomdp, random_reactive(pomdp), horizon=4)
    assert worst(analysis.value_bias("timed-mc")) > 5
    assert worst(analysis.gradient_bias("timed-mc")) > 5
    assert "depends on how it came there" in analysis.state_value().explanation


@pytest.mark.parametrize("name", ["heaven-hell-1", "heaven-hell-3", "load-unload"])
def test_deterministic_observations_leave_no_bias(name: str) -> None:
    """Fact 4: o = f(s) is enough for theorem "V(s) is unbiased"; a bijection is not needed."""
    pomdp = named(name)
    table = random_reactive(pomdp)
    if name.startswith("heaven"):
        table[-1] = table[0]  # the symbol seen first means cell 0, and is to be treated so
        analysis = theory.analyse(pomdp, table, horizon=math.inf)
        found = analysis.state_value()
        assert found.V is not None, found.explanation
        assert worst(analysis.value_bias("td0")) < 1e-12
        np.testing.assert_allclose(found.V, analysis.visit_values("td0"), atol=1e-12)
    else:
        analysis = theory.analyse(pomdp, table, horizon=6)
        bias = analysis.value_bias("timed-mc")
        assert worst(bias[analysis.graph.time > 0]) < 1e-12


@pytest.mark.parametrize("name", ALL)
def test_policy_that_ignores_the_history_has_no_bias(name: str) -> None:
    """Fact 5."""
    pomdp = named(name)
    finite = theory.analyse(pomdp, "uniform", horizon=5)
    for critic in ("timed-mc", "timed-td"):
        assert worst(finite.value_bias(critic)) < 1e-11
        assert worst(finite.gradient_bias(critic)) < 1e-11
    endless = theory.analyse(pomdp, "uniform", horizon=math.inf)
    assert endless.state_value().well_defined
    for critic in ("mc", "td0", "td-lambda"):
        assert worst(endless.value_bias(critic)) < 1e-8


@pytest.mark.parametrize("name", ["tiger", "heaven-hell-1", "shopping-2", "load-unload"])
def test_two_timed_state_values_differ_and_both_are_right_on_average(name: str) -> None:
    """Fact 6."""
    pomdp = named(name)
    analysis = theory.analyse(pomdp, random_policy(1, pomdp.actions), horizon=ALL[name])
    assert worst(analysis.states.timed_mc - analysis.states.timed_td) > 0.02
    graph = analysis.graph
    for critic in ("timed-mc", "timed-td"):
        bias = analysis.value_bias(critic)
        assert worst(bias) > 1e-3
        mean = np.bincount(graph.time, graph.probability_of_node * bias)
        np.testing.assert_allclose(mean, 0, atol=1e-11)


@pytest.mark.parametrize(
    ("n", "towards", "cosines"),
    [
        (3, (0.505, 0.480, 0.477, -0.078), (1, 0.985, 0.978, -0.617)),
        (4, (0.534, 0.518, 0.488, -0.101), (1, 0.988, 0.985, -0.698)),
    ],
)
def test_td0_on_states_pushes_away_from_the_priest(n: int, towards: tuple, cosines: tuple) -> None:
    """Fact 8: an agent that is uniform until it has heard the priest, and 90 % expert afterwards."""
    analysis = theory.analyse(f"heaven-hell-{n}", heard_the_priest(n))
    true = analysis.gradient()
    south, east = 1, 2
    # Not having heard the priest: south from the start, and east along the corridor to him.
    rows = {len(h) and h[-1][1]: z for z, h in uninformed_histories(analysis, n)}
    way = [(0, south)] + [(cell, east) for cell in range(3 * n + 1, 4 * n + 1)]
    for critic, push, cosine in zip(("hs", "timed-mc", "mc", "td0"), towards, cosines, strict=True):
        followed = analysis.gradient(critic)
        sum_on_the_way = sum(followed.table[analysis.graph.parameter[rows[cell]], a] for cell, a in way)
        assert sum_on_the_way == pytest.approx(push, abs=6e-4)
        assert followed.cosine(true) == pytest.approx(cosine, abs=6e-4)
    assert analysis.gradient("td0", "mc").error(true) < 1e-13
    # Time alone does not help: the timed critic of the appendix's recursion pushes away too.
    timed = analysis.gradient("timed-td").table
    sum_on_the_way = sum(timed[analysis.graph.parameter[rows[cell]], a] for cell, a in way)
    assert sum_on_the_way == pytest.approx({3: -0.088, 4: -0.135}[n], abs=6e-4)


def uninformed_histories(analysis: theory.Analysis, n: int):
    """A node for each cell in which the priest has not been heard."""
    for z in range(analysis.graph.nodes):
        h = analysis.graph.history(z)
        if all(o <= 4 * n for _, o in h):
            yield z, h


def test_state_critic_at_the_priest() -> None:
    """Fact 8: 0.876 by Monte-Carlo, 0.279 by TD(0), which is less than at the start, 0.335."""
    analysis = theory.analyse("heaven-hell-3", heard_the_priest(3))
    priest = 13
    assert analysis.visit_values("mc")[priest] == pytest.approx(0.876, abs=5e-4)
    assert analysis.visit_values("td0")[priest] == pytest.approx(0.279, abs=5e-4)
    assert analysis.visit_values("td0")[0] == pytest.approx(0.335, abs=5.1e-4)


@pytest.mark.parametrize(
    ("name", "better"), [("load-unload", True), ("shopping-2", True), ("tiger", False), ("heaven-hell-1", False)]
)
def test_variance_is_not_ordered(name: str, better: bool) -> None:
    """Fact 10: V(h, s) has less variance in some problems and more in others; a resampled state always has more."""
    pomdp = named(name)
    analysis = theory.analyse(pomdp, random_policy(0, pomdp.actions), horizon=ALL[name])
    symmetric = analysis.variance("h")
    assert (analysis.variance("hs") < symmetric) == better
    assert analysis.variance("hs", resampled=True) > 1.1 * symmetric


def test_time_limit_as_an_end_misleads_a_critic_without_time() -> None:
    """Fact 11, for a reactive policy in Heaven-Hell-1: wrong with an end, right with bootstrap."""
    pomdp = problem("heaven-hell-1")
    table = random_reactive(pomdp, 3)
    table[-1] = table[0]
    ended = theory.analyse(pomdp, table, horizon=7)
    assert "time limit" in ended.state_value().explanation
    assert ended.gradient("td0").error(ended.gradient()) > 0.01 * ended.gradient().norm
    assert ended.gradient("hs").error(ended.gradient()) < 1e-14
    bootstrapped = theory.analyse(pomdp, table, horizon=7, truncation="bootstrap")
    assert bootstrapped.gradient("td0").error(bootstrapped.gradient()) < 1e-13
    endless = theory.analyse(pomdp, table, horizon=math.inf)
    assert pytest.approx(bootstrapped.J, abs=1e-14) == endless.J
    found = endless.state_value()
    assert found.V is not None
    np.testing.assert_allclose(bootstrapped.visit_values("td0"), found.V, atol=1e-13)


def test_belief_is_conditioned_on_survival() -> None:
    """Fact 12: a failed buy proves that the item is not here."""
    pomdp = problem("shopping-2")
    buy = pomdp.action_names.index("buy")
    h = ()
    belief = theory.belief_of(pomdp, h)
    options = [o for o in range(pomdp.observations) if _possible(pomdp, ((buy, o),))]
    assert options
    for o in options:
        after = theory.belief_of(pomdp, ((buy, o),))
        ends = np.array([pomdp.done[pomdp.first[s * pomdp.actions + buy]] for s in range(pomdp.states)])
        assert belief[ends].sum() > 0
        assert after[ends].sum() == 0
        assert after.sum() == pytest.approx(1)


def _possible(pomdp: Pomdp, h: theory.History) -> bool:
    try:
        theory.belief_of(pomdp, h)
    except ValueError:
        return False
    return True


def test_first_observation_none_drawn_or_constant() -> None:
    """Fact 13: what is seen first changes values at t = 0, and a constant symbol makes Pr(o | s) change with time."""
    drawn = problem("good-bad")
    constant = dataclasses.replace(drawn, first_observation=None)
    copy = np.eye(2)
    with_symbol = theory.analyse(constant, np.concatenate([copy, [[0.0, 1.0]]]), horizon=math.inf)
    shown = theory.analyse(drawn, copy, horizon=math.inf)
    g = drawn.discount
    assert pytest.approx(3 / (4 * (1 - g)), rel=1e-12) == shown.J
    assert pytest.approx(3 * g / (4 * (1 - g)), rel=1e-12) == with_symbol.J
    assert shown.state_value().well_defined
    assert "different at the start" in with_symbol.state_value().explanation
    assert with_symbol.V(()) == with_symbol.V(((None, drawn.observations),)) == pytest.approx(with_symbol.J)


@pytest.mark.parametrize("name", ["tiger", "good-bad"])
def test_variance_of_state_values_vanishes(name: str) -> None:
    """Fact 14: where the belief is certain, and at the last step if rewards do not depend on the state."""
    pomdp = named(name)
    analysis = theory.analyse(pomdp, random_policy(2, pomdp.actions), horizon=4, merge="history")
    graph, spread = analysis.graph, gradients.state_variance(analysis.values)
    assert spread.min() >= -1e-12
    certain = np.bincount(graph.node) == 1
    np.testing.assert_allclose(spread[certain], 0, atol=1e-12)
    last = spread[graph.time == 3]
    assert (worst(last) < 1e-15) == (name == "good-bad")


def test_numbers_of_histories() -> None:
    assert count_histories(problem("heaven-hell-1"), 7)[-1] == 14847
    assert count_histories(problem("heaven-hell-2"), 6)[-1] == 4386
    assert count_histories(problem("shopping-2"), 4)[-1] == 2999
    assert count_histories(problem("tiger"), 3)[-1] == 216
    listed = list(theory.realisable(problem("shopping-2"), 3))
    assert len(listed) == sum(count_histories(problem("shopping-2"), 3))
    assert len({h for h, _ in listed}) == len(listed)
