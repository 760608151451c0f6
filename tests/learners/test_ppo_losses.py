"""What PPO bootstraps from at the ends of episodes and of pieces, and its advantages as the policy loss uses them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.numbers import numbers_of
from asymrl.learners.ppo_losses import Data, normalised, values_ahead, weighted_advantages
from asymrl.learners.streams import Piece
from tests.learners.small import tiny_ppo

# Two steps, each the end of an episode; then two steps of an episode that goes on after the piece.
VALUES, NEXT_VALUES = jnp.array([1.0, 2.0, 3.0, 4.0])[:, None], jnp.array([10.0, 20.0, 30.0, 40.0])[:, None]


def a_piece(valid: list[bool]) -> Piece:
    nothing = jnp.zeros((4, 1))
    parts = dict.fromkeys(Piece._fields, nothing) | {
        "terminated": jnp.array([True, False, False, False])[:, None],
        "truncated": jnp.array([False, True, False, False])[:, None],
        "times": jnp.array([0, 0, 0, 1])[:, None],
        "valid": jnp.array(valid)[:, None],
    }
    return Piece(**parts)


@pytest.mark.parametrize(
    ("bootstrap", "expected"),
    [
        (True, [0, 20, 4, 40]),  # where an episode was cut off or the piece ends, the value after the action
        (False, [0, 0, 4, 40]),
    ],
)
def test_steps_bootstrap_from_what_follows_in_their_episode(bootstrap: bool, expected: list[int]):
    ahead = values_ahead(VALUES, NEXT_VALUES, a_piece([True] * 4), bootstrap)
    np.testing.assert_array_equal(ahead[:, 0], expected)


def test_nothing_is_read_after_the_end_of_a_whole_episode():
    """Not even numbers that are none: what a world says there has no meaning."""
    piece, unknown = a_piece([True, True, False, False]), NEXT_VALUES.at[2:].set(jnp.nan)
    ahead = values_ahead(VALUES, unknown, piece, True)
    np.testing.assert_array_equal(ahead[:, 0], [0, 20, 0, 0])


def test_advantages_are_normalised_over_the_steps_that_count():
    advantages, valid = jnp.array([[1.0], [4.0], [0.0]]), jnp.array([[True], [True], [False]])
    np.testing.assert_allclose(normalised(advantages, valid)[:, 0], [-1, 1, 0], rtol=1e-6)


def test_weights_of_the_policy_loss_are_discounted_by_the_time_in_the_episode():
    data = Data(a_piece([True] * 4), None, VALUES, jnp.ones((4, 1)))
    settings = tiny_ppo(normalise_advantages=False, discount_steps=True, discount=0.5)
    np.testing.assert_array_equal(weighted_advantages(data, settings, numbers_of(settings))[:, 0], [1, 1, 1, 0.5])
