"""The sparse outcomes of a finite world say the same as its tables."""

import dataclasses

import equinox as eqx
import numpy as np
import pytest

from asymrl.worlds.finite import FiniteWorld
from asymrl.worlds.pomdp import NOTHING
from asymrl.worlds.registry import make


def finite(name: str) -> FiniteWorld:
    world = make(name)
    assert isinstance(world, FiniteWorld)
    return world


WORLDS = ["heaven-hell-2", "shopping-2", "good-bad", "tiger", "tiger:episodic=true"]


@pytest.mark.parametrize("name", WORLDS)
def test_outcomes_add_up_to_the_tables(name: str) -> None:
    world = finite(name)
    pomdp = world.pomdp()
    s, a = pomdp.rows()
    S, A = world.D.shape
    joint = np.zeros((S, A, S, len(world.observation_names)))
    on = ~pomdp.done
    np.add.at(joint, (s[on], a[on], pomdp.next_state[on], pomdp.observation[on]), pomdp.probability[on])
    expected = np.einsum("sat,ato->sato", world.T.astype(float), world.O.astype(float))
    expected[world.D] = 0
    np.testing.assert_allclose(joint, expected, atol=1e-7)
    np.testing.assert_allclose(pomdp.R(), world.R, rtol=1e-6)
    ends = np.zeros((S, A))
    np.add.at(ends, (s[pomdp.done], a[pomdp.done]), pomdp.probability[pomdp.done])
    np.testing.assert_array_equal(ends, world.D)
    assert np.all(pomdp.observation[pomdp.done] == NOTHING)


def test_rewards_keep_their_digits() -> None:
    """0.1 has no exact float32: theory in float64 must not inherit its error of 1e-9."""
    pomdp = eqx.tree_at(lambda w: w.rewards, finite("tiger"), np.full((2, 3), 0.1)).pomdp()
    np.testing.assert_array_equal(pomdp.reward, 0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probability": lambda p: p.probability * 1.1}, r"action 'listen' in state 'tiger-left' sum to 1.1"),
        ({"probability": lambda p: -p.probability}, r"probability -0\.85, expected a positive"),
        ({"next_state": lambda p: p.next_state + 1}, r"next state 2, expected a number from 0 to 1"),
        ({"reward": lambda p: p.reward * np.nan}, r"reward nan, expected a finite"),
        ({"start": lambda p: p.start * 2}, r"start sums to 2"),
        ({"discount": lambda p: 1.5}, r"discount is 1\.5"),
        ({"time_limit": lambda p: 0}, r"time_limit is 0"),
    ],
)
def test_what_is_wrong_is_named(change: dict, message: str) -> None:
    pomdp = finite("tiger").pomdp()
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(pomdp, **{name: value(pomdp) for name, value in change.items()})
