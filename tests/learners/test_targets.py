"""Target networks: when a frozen one is copied, and how far a Polyak one moves."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from asymrl.learners.numbers import stack_numbers
from asymrl.learners.targets import update_target
from asymrl.settings import MOST_STEPS, DQNSettings

MODEL, TARGET = jnp.array([[1.0], [2.0], [3.0]]), jnp.array([[5.0], [6.0], [7.0]])


def followed(settings: DQNSettings, timesteps: list[int], active: tuple[bool, ...] = (True,) * 3) -> tuple:
    numbers, next_target = stack_numbers([settings] * 3), jnp.array([0, 100, 100], jnp.int32)
    update = jax.vmap(lambda model, target, numbers, *at: update_target(model, target, settings, numbers, *at))
    at = jnp.array(timesteps, jnp.int32), next_target, jnp.array(active)
    moved, following = update(MODEL, TARGET, numbers, *at)
    return np.asarray(moved).ravel().tolist(), np.asarray(following).tolist()


def test_a_frozen_target_is_copied_when_that_is_due():
    moved, following = followed(DQNSettings(target_period=50), [7, 99, 120])
    assert moved == [1.0, 6.0, 3.0]
    assert following == [57, 100, 170]


def test_a_run_that_stands_still_keeps_its_target():
    moved, following = followed(DQNSettings(target_period=50), [7, 99, 120], (False, True, False))
    assert moved == [5.0, 6.0, 7.0]
    assert following == [0, 100, 100]


def test_a_polyak_target_moves_by_its_share():
    moved, _ = followed(DQNSettings(target="polyak", polyak=0.25), [7, 7, 7], (True, True, False))
    assert moved == [0.25 * 1 + 0.75 * 5, 0.25 * 2 + 0.75 * 6, 7.0]


def test_the_longest_period_does_not_wrap_around():
    """A sum beyond 32 bits would be negative, and the target copied at every update."""
    _, following = followed(DQNSettings(target_period=MOST_STEPS), [7, 2**21, 2**30])
    assert following == [MOST_STEPS] * 3
