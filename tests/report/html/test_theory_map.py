"""The map of where V(s) misjudges: its numbers against sums over the listed states, its order, its end."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

import asymrl
from asymrl.report.html.theory_map import map_data, theory_page
from asymrl.report.theory_figures import picture
from asymrl.theory import Analysis, analyse
from asymrl.theory.solvers import policy_by_name, solve
from asymrl.worlds import FiniteWorld
from tests.report.html.browser import opened

DEPTH = 5


@pytest.fixture(scope="module")
def fork() -> tuple[FiniteWorld, Analysis, dict]:
    world = asymrl.make("heaven-hell-1")
    assert isinstance(world, FiniteWorld)
    policy = policy_by_name(world.pomdp(), "eps-optimal:0.5", solve(world.pomdp(), 12), 12)
    analysis = analyse(world, policy, horizon=12)
    return world, analysis, map_data(world, analysis, depth=DEPTH, most=20)


def test_numbers_are_means_over_the_belief(fork: tuple[FiniteWorld, Analysis, dict]):
    world, analysis, data = fork
    visit_values = dict(zip(world.state_names, analysis.visit_values("td0"), strict=True))
    assert data["histories"]
    for history in data["histories"]:
        assert history["possible"] == len(history["states"])
        names, belief, V_s, V_hs, _ = zip(*history["states"], strict=True)
        assert sum(belief) == pytest.approx(1)
        np.testing.assert_allclose(V_s, [visit_values[name] for name in names], rtol=1e-5)
        assert history["mean"] == pytest.approx(np.dot(belief, V_s), abs=1e-5)
        assert history["V_h"] == pytest.approx(np.dot(belief, V_hs), abs=1e-5)
        assert history["bias"] == pytest.approx(history["mean"] - history["V_h"], abs=1e-5)


def test_what_matters_most_comes_first(fork: tuple[FiniteWorld, Analysis, dict]):
    _, analysis, data = fork
    weights = [abs(each["bias"]) * each["probability"] for each in data["histories"]]
    assert all(one >= other * (1 - 1e-4) for one, other in itertools.pairwise(weights))
    assert all(each["actions"] <= DEPTH for each in data["histories"])
    graph, bias = analysis.graph, analysis.value_bias("td0")
    listed = ~graph.open & (graph.time <= DEPTH) & (np.abs(bias) > analysis.rounding)
    assert data["misjudged"] == listed.sum() >= len(data["histories"])
    assert weights[0] == pytest.approx((np.abs(bias) * graph.probability_of_node)[listed].max(), rel=1e-4)


def test_a_state_that_is_seen_is_not_misjudged():
    """A reactive policy without a time limit: V(s) is the value of the state, whatever came before."""
    world = asymrl.make("good-bad")
    assert isinstance(world, FiniteWorld)
    uniform = analyse(world, "uniform", horizon=math.inf, discount=0.9)
    assert map_data(world, uniform)["histories"] == []


@pytest.mark.slow
def test_the_map_in_a_browser(fork: tuple[FiniteWorld, Analysis, dict], tmp_path: Path):
    world, analysis, _ = fork
    data = map_data(world, analysis, depth=DEPTH)
    file = tmp_path / "theory.html"
    table = ["critic   bias  cosine", "V(s)      1.5   0.164"]
    answer = [*table, "", "Which critic?", "V(s) < V(h), so use", "a2c-asym-hs."]
    page = theory_page(world, analysis, "eps-optimal:0.5", answer, picture(analysis, "title"), depth=DEPTH)
    file.write_text(page, encoding="utf-8")
    with opened(file) as (tab, said):
        assert tab.inner_text("#section-answer .verdict") == "V(s) < V(h), so use a2c-asym-hs."
        assert tab.locator("#section-answer td").all_inner_texts() == ["V(s)", "1.5", "0.164"]
        assert tab.locator(".map-card").count() == len(data["histories"])
        words = tab.locator(".map-words").all_inner_texts()
        assert words == [each["words"] for each in data["histories"]]
        tab.select_option("#map-order", label="too low first")
        low = min(each["bias"] for each in data["histories"])
        assert tab.locator(".map-bias").first.inner_text() == f"{low:.3f}".replace("-", "−")
        assert said == []
