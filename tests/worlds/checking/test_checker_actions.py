"""The model checker tries every kind of action."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from asymrl.worlds import (
    Box,
    Step,
    World,
    check,
)
from asymrl.worlds.checking.sampling import actions_to_try
from tests.worlds.dials import Dials
from tests.worlds.line_world import refused


def test_vectors_of_indices_are_tried_in_all_combinations():
    report = check(Dials(), episodes=8, steps=4)
    assert report.pairs == 6 * report.states

    class Unpaid(Dials):
        def step(self, key: Any, state: Any, action: Any) -> Step:
            return Step(state, jnp.where((action == 1).all(), jnp.nan, 0.0), jnp.bool_(False))

    assert "the reward is nan in the state with latent" in (message := refused(Unpaid()))
    assert message.endswith("action 1, 1")


def test_of_many_vectors_of_indices_some_are_tried():
    many = Dials(sizes=(10, 20))
    tried = actions_to_try(many)
    assert tried.shape == (64, 2)
    np.testing.assert_array_equal(tried[:2], [[0, 0], [9, 19]])
    assert all(many.action_space.problem(action) is None for action in tried)
    assert len(np.unique(tried, axis=0)) > 50


def test_every_entry_of_an_action_has_a_name():
    message = refused(Dials(names=("left",)))
    assert "action_names has 1 names, but action_space has 2 entries of an action" in message


class Slider(World):
    """A place between -1 and 1 that vectors of actions move; everything is seen."""

    name: str = eqx.field(static=True, default="slider")
    discount: float = eqx.field(static=True, default=0.9)
    time_limit: int | None = eqx.field(static=True, default=20)

    @property
    def action_names(self):
        return ("push",)

    @property
    def action_space(self):
        return Box((1,), -0.5, 0.5)

    @property
    def observation_space(self):
        return Box((1,), -1.0, 1.0)

    @property
    def latent_space(self):
        return self.observation_space

    def reset(self, key):
        return jax.random.uniform(key, (1,), minval=-1.0)

    def step(self, key, state, action):
        moved = jnp.clip(state + action, -1.0, 1.0)
        return Step(moved, -jnp.abs(moved[0]), jnp.bool_(False))

    def first_observation(self, key, state):
        return state

    def observe(self, key, state, action, next_state):
        return next_state

    def latent(self, state):
        return state

    def from_latent(self, latent):
        return jnp.asarray(latent, jnp.float32)


def test_actions_that_are_vectors():
    report = check(Slider(), episodes=4, steps=4)
    assert report.pairs == report.states * 5, "both corners of the space of actions, and three points between them"


def test_a_fault_under_a_vector_of_actions_is_named():
    class Overflowing(Slider):
        def step(self, key, state, action):
            step = super().step(key, state, action)
            return step._replace(reward=jnp.where(action[0] > 0.4, jnp.inf, step.reward))

    assert refused(Overflowing()).endswith(", action 0.5")
