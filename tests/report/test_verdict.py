"""`asymrl theory`: verdicts that say what exact computation says."""

import dataclasses

import numpy as np

from asymrl import theory
from asymrl.report.verdict import examine
from tests.theory.exact.worlds import heard_the_priest, load_unload, problem


def test_agent_that_has_not_met_the_priest_is_warned() -> None:
    analysis = theory.analyse("heaven-hell-3", heard_the_priest(3))
    found = examine(analysis, "heard", {})
    assert not found.V_s_defined
    assert "points away from the true gradient: cosine -0.617" in found.advice
    returns = next(critic for critic in found.critics if critic.estimator == "mc")
    assert returns.safe
    assert returns.worst_gradient is None
    worst = found.critics[0].worst_gradient
    assert worst is not None
    assert worst.history == "the start"
    assert worst.action in ("N", "S")


def test_asymmetry_pays_in_load_unload() -> None:
    def noisy(h: theory.History) -> np.ndarray:
        return np.random.default_rng(len(h)).dirichlet(np.ones(2))

    found = examine(theory.analyse(load_unload(), noisy, horizon=6), "noisy", {})
    assert found.variance is not None
    assert found.variance.hs < found.variance.h
    assert "less noise than V(h): it should help" in found.advice


def test_known_state_needs_no_privilege() -> None:
    pomdp = problem("heaven-hell-1")
    known = theory.analyse(pomdp, "uniform", horizon=3)
    assert "always knows the state" not in examine(known, "uniform", {}).advice
    known_start = dataclasses.replace(pomdp, start=np.eye(pomdp.states)[0])
    assert "always knows the state" in examine(theory.analyse(known_start, "uniform", horizon=3), "uniform", {}).advice
