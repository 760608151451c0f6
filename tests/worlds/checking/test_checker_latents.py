"""The model checker: what the latent state must hold, and what it must not."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from asymrl.worlds import (
    Box,
    Discrete,
    Indices,
    Record,
    Step,
    check,
)
from tests.worlds.line_world import Line, refused


class Stateless(Line):
    """A bandit: there is no state at all."""

    def reset(self, key):
        return ()

    def step(self, key, state, action):
        return Step((), jnp.asarray(action, jnp.float32), jnp.bool_(False))

    def first_observation(self, key, state):
        return jnp.int32(0)

    def observe(self, key, state, action, next_state):
        return jnp.int32(0)

    def latent(self, state):
        return jnp.int32(0)

    def from_latent(self, latent):
        return ()


def test_a_world_without_state():
    assert check(Stateless(), episodes=4, steps=4).states == 1


class HiddenCounter(Line):
    """A reward after five steps, which the latent does not tell."""

    def reset(self, key):
        return {**super().reset(key), "steps": jnp.int32(0)}

    def step(self, key, state, action):
        step = super().step(key, state, action)
        steps = state["steps"] + 1
        return Step({**step.state, "steps": steps}, jnp.where(steps > 5, 1.0, 0.0), step.terminated)

    def from_latent(self, latent):
        return {"place": latent, "steps": jnp.int32(0)}


class ToldCounter(HiddenCounter):
    @property
    def latent_space(self):
        return Record((("place", Discrete(5)), ("steps", Discrete(10_000))))

    def latent(self, state):
        return state

    def from_latent(self, latent):
        return latent


class HiddenFromTheStart(Line):
    """No two states that are reached share a latent, but from_latent forgets what the reward depends on."""

    @property
    def latent_space(self):
        return Box((2,), 0.0, 1.0)

    def reset(self, key):
        return {**super().reset(key), "luck": jax.random.uniform(key), "mark": jax.random.uniform(key)}

    def step(self, key, state, action):
        step = super().step(key, state, action)
        mark = (state["mark"] + 0.618034) % 1.0
        return Step({**step.state, "luck": state["luck"], "mark": mark}, state["luck"], step.terminated)

    def latent(self, state):
        return jnp.stack([state["place"] / 4, state["mark"]])

    def from_latent(self, latent):
        place = jnp.round(4 * latent[0]).astype(jnp.int32)
        return {"place": place, "luck": jnp.float32(2), "mark": latent[1]}


def test_states_that_share_a_latent_but_not_their_future():
    message = refused(HiddenCounter())
    assert "reached two states with the same latent" in message
    assert "the state with latent" in message
    assert "action 0 (left)" in message
    check(ToldCounter(), episodes=8, steps=16)


def test_a_latent_that_forgets():
    message = refused(HiddenFromTheStart())
    assert "the state made by from_latent has a different reward" in message
    assert "action 0 (left)" in message


class WrongInverse(Line):
    def from_latent(self, latent):
        return {"place": jnp.where(latent == 3, 2, latent)}


def test_from_latent_must_undo_latent():
    assert "from_latent does not undo latent in the state with latent 3; it gives 2" in refused(WrongInverse())


def test_what_is_declared_fixed_must_not_change():
    class Repainted(Line):
        """Its only cell is painted anew when the agent moves right."""

        @property
        def latent_space(self):
            return Record((("place", Discrete(5)), ("paint", Indices(9, (1,), fixed=True))))

        def latent(self, state):
            return {"place": state["place"], "paint": state["place"].astype(jnp.uint8)[None]}

        def from_latent(self, latent):
            return {"place": latent["place"]}

    message = refused(Repainted())
    assert "'paint' is declared fixed during an episode, but changes in the state with latent" in message
