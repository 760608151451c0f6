"""Critics that read a part of the state."""

import numpy as np
import pytest

from asymrl import theory
from asymrl.theory.critic_signals import V_history_signal, V_signal, examine_signal, signal_labels
from asymrl.worlds import FiniteWorld, make
from tests.oracles.trajectories import random_policy
from tests.theory.worlds import heard_the_priest


def finite(name: str) -> FiniteWorld:
    world = make(name)
    assert isinstance(world, FiniteWorld)
    return world


@pytest.fixture(scope="module")
def tree() -> theory.Analysis:
    return theory.analyse("heaven-hell-1", random_policy(0, 4), horizon=6)


@pytest.mark.parametrize("name", ["state", "heaven-side", "position", "at-priest"])
def test_critic_of_the_history_and_any_signal_is_unbiased(tree: theory.Analysis, name: str) -> None:
    critic = V_history_signal(tree.values, signal_labels(finite("heaven-hell-1"), name))
    assert np.nanmax(np.abs(tree.value_bias(critic))) < 1e-14
    assert tree.gradient(critic).error(tree.gradient()) < 1e-14


def test_between_nothing_and_everything(tree: theory.Analysis) -> None:
    world = finite("heaven-hell-1")
    np.testing.assert_allclose(V_history_signal(tree.values, signal_labels(world, "state")), tree.values.V_hs)
    nothing = np.zeros(tree.pomdp.states, int)
    np.testing.assert_allclose(V_history_signal(tree.values, nothing), tree.critics("h"), atol=1e-14)
    # The cell is known anyway, so that the side is all that is hidden.
    np.testing.assert_allclose(V_history_signal(tree.values, signal_labels(world, "heaven-side")), tree.values.V_hs)
    np.testing.assert_allclose(
        V_history_signal(tree.values, signal_labels(world, "position")), tree.critics("h"), atol=1e-14
    )
    h, side = ((1, 4),), signal_labels(world, "heaven-side")
    state = int(np.flatnonzero(tree.belief(h))[0])
    assert tree.V_signal(h, side, int(side[state])) == pytest.approx(tree.V(h, state))
    with pytest.raises(ValueError, match="the signal 7 is impossible after S"):
        tree.V_signal(h, side, 7)


def test_critic_of_the_signal_alone_is_the_fixed_point_of_td0(tree: theory.Analysis) -> None:
    world, graph = finite("heaven-hell-1"), tree.graph
    np.testing.assert_allclose(V_signal(tree.values, signal_labels(world, "state")), tree.critics("td0"), atol=1e-12)
    side = signal_labels(world, "heaven-side")
    V = V_signal(tree.values, side)
    targets = graph.reward + graph.pomdp.discount * (graph.P @ V)
    for i in (0, 1):
        here = side[graph.state] == i
        assert V[here] == pytest.approx(np.average(targets[here], weights=graph.mass[here]))


def test_what_heaven_side_is_worth() -> None:
    """In Heaven-Hell-3 the agent knows its cell: the side explains all that V(h, s) adds, the cell nothing."""
    world, analysis = finite("heaven-hell-3"), theory.analyse("heaven-hell-3", heard_the_priest(3))
    side, cell = (examine_signal(analysis, world, name) for name in ("heaven-side", "position"))
    assert side.explained == pytest.approx(1)
    assert side.variance_hi == pytest.approx(side.variance_hs)
    assert cell.explained == pytest.approx(0, abs=1e-12)
    assert cell.variance_hi == pytest.approx(cell.variance_h)
    assert side.cosine_s == pytest.approx(-0.617, abs=6e-4)
