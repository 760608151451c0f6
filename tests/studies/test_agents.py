"""Agents that are experts in part: with certainty they are optimal, with probability 0 they are random."""

from __future__ import annotations

import numpy as np
import pytest

from agents import half_expert
from asymrl import theory
from asymrl.theory.exact.policies import Controller
from asymrl.worlds import scores

ROCKS = "rock-sample-3-3:position=true,half_efficiency=0.001"


@pytest.mark.parametrize("world", ["heaven-hell-3", "heaven-hell-4", "shopping-5", ROCKS])
@pytest.mark.parametrize(("expert", "known"), [(1.0, "best"), (0.0, "random")])
def test_experts_are_optimal_and_others_random(world: str, expert: float, known: str) -> None:
    returns = scores(world)
    assert returns is not None
    # An expert needs few steps, and a random agent of Shopping has too many beliefs.
    merge = "memory" if "shopping" in world and not expert else None
    analysis = theory.analyse(world, half_expert(world, expert, expert), discount=1.0, merge=merge)
    assert pytest.approx(returns.undiscounted[known].low, abs=1e-9) == analysis.J


def test_informed_agents_are_better() -> None:
    for world in ("heaven-hell-3", "shopping-3", "rock-sample-2-1:half_efficiency=0.001"):
        J = [
            theory.analyse(world, half_expert(world, *p, patient=True), horizon=30).J
            for p in ((0, 0), (0, 0.9), (0.9, 0.9))
        ]
        assert J[0] < J[1] < J[2]


def test_a_patient_agent_buys_nothing_before_it_has_asked() -> None:
    hasty, patient = (half_expert("shopping-2", 0.0, 0.5, patient=each) for each in (False, True))
    assert isinstance(hasty, Controller)
    assert isinstance(patient, Controller)
    np.testing.assert_allclose(hasty.pi[:4], 1 / 6)
    np.testing.assert_allclose(patient.pi[:4], [[0.2, 0.2, 0.2, 0.2, 0.2, 0.0]] * 4)
    np.testing.assert_array_equal(hasty.pi[4:], patient.pi[4:])


def test_other_worlds_have_no_expert() -> None:
    with pytest.raises(ValueError, match="tiger: there are experts for heaven-hell-N"):
        half_expert("tiger", 0.0, 0.0)
