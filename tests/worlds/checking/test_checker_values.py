"""The model checker: wrong numbers, shapes and failing functions are found and named."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.worlds import (
    Box,
    Discrete,
    FiniteWorld,
    Record,
    Signal,
    Tiger,
    World,
    make,
)
from tests.worlds.line_world import Line, refused


class NotANumber(Line):
    def step(self, key, state, action):
        bad = (state["place"] == 2) & (action == 1)
        return super().step(key, state, action)._replace(reward=jnp.where(bad, jnp.nan, 0.0))


class Infinite(Line):
    def step(self, key, state, action):
        return super().step(key, state, action)._replace(reward=-jnp.log(state["place"].astype(jnp.float32)))


def test_rewards_must_be_finite():
    assert "the reward is nan in the state with latent 2, action 1 (right)" in refused(NotANumber())
    assert "the reward is inf in the state with latent 0, action 0 (left)" in refused(Infinite())


class Outside(Line):
    def observe(self, key, state, action, next_state):
        return next_state["place"] + (next_state["place"] == 4)


class FirstOutside(Line):
    def first_observation(self, key, state):
        return jnp.where(state["place"] == 2, -1, state["place"])


class LatentOutside(Line):
    @property
    def latent_space(self):
        return Discrete(4)


class SignalOutside(Line):
    def signals(self):
        return {"double": Signal(lambda place: 2 * place, Discrete(5), "too large")}


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (
            Outside,
            "the observation is outside its space in the state with latent 3, action 1 (right): it is 5, outside",
        ),
        (FirstOutside, "the first observation is outside its space in the state with latent 2: it is -1, outside 0..4"),
        (LatentOutside, "the next latent is outside its space in the state with latent 3, action 1 (right): it is 4"),
        (SignalOutside, "the signal 'double' is outside its space in the state with latent 3: it is 6"),
    ],
)
def test_values_outside_their_space(world, message):
    assert message in refused(world())


def damaged(env: FiniteWorld, where: Any, change: float, entry: int = 0) -> FiniteWorld:
    def damage(probability):
        probability = probability.copy()
        probability[entry] += change
        return probability

    return eqx.tree_at(lambda world: where(world).probability, env, replace_fn=damage)


@pytest.mark.parametrize(
    ("where", "change", "message"),
    [
        (lambda w: w.transitions, 0.25, "transition probabilities for state 0, action 0 sum to 1.25, expected 1"),
        (lambda w: w.observations, -0.1, "observation probabilities for action 0, next state 0 sum to 0.9, expected 1"),
        (lambda w: w.start_states, 0.5, "start probabilities for the first state sum to 1.5, expected 1"),
        (lambda w: w.start_states, np.nan, "start probabilities for the first state sum to nan"),
        (lambda w: w.observations, -1.0, "hold a negative number"),
    ],
)
def test_probabilities_that_are_none(where, change, message):
    assert message in refused(damaged(Tiger(), where, change))


def test_what_is_seen_at_the_end_is_drawn_too():
    message = refused(damaged(Tiger(episodic=True), lambda w: w.observations, 0.5, entry=-1))
    assert "observation probabilities for action 2, the end of an episode sum to 1.5" in message


def test_first_observations_are_probabilities_too():
    env = make("good-bad")
    assert isinstance(env, FiniteWorld)
    assert "first observation probabilities for state 0 sum to 1.5" in refused(
        damaged(env, lambda w: w.first_observations, 0.5)
    )


class IntegerReward(Line):
    def step(self, key, state, action):
        return super().step(key, state, action)._replace(reward=jnp.int32(1))


class RewardVector(Line):
    def step(self, key, state, action):
        return super().step(key, state, action)._replace(reward=jnp.zeros(1))


class IntegerEnd(Line):
    def step(self, key, state, action):
        return super().step(key, state, action)._replace(terminated=jnp.int32(0))


class PlainTuple(Line):
    def step(self, key, state, action):
        return tuple(super().step(key, state, action))


class FloatObservation(Line):
    def observe(self, key, state, action, next_state):
        return next_state["place"].astype(jnp.float32)


class FirstObservationVector(Line):
    def first_observation(self, key, state):
        return state["place"][None]


class WrongRecord(Line):
    @property
    def latent_space(self):
        return Record((("place", Discrete(5)), ("more", Box((2,)))))

    def latent(self, state):
        return {"place": state["place"], "more": jnp.zeros(3)}


class NoRecord(WrongRecord):
    def latent(self, state):
        return state["place"]


class ChangingState(Line):
    def step(self, key, state, action):
        step = super().step(key, state, action)
        return step._replace(state={"place": step.state["place"].astype(jnp.float32)})

    def observe(self, key, state, action, next_state):
        return next_state["place"].astype(jnp.int32)


class GrowingState(Line):
    def step(self, key, state, action):
        step = super().step(key, state, action)
        return step._replace(state={**step.state, "more": jnp.int32(1)})


class OtherState(Line):
    def from_latent(self, latent):
        return {"place": latent.astype(jnp.uint8)}


class NoActions(Line):
    @property
    def action_names(self):
        return ()


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (IntegerReward, "step returns a reward int32[], expected float32[]"),
        (RewardVector, "step returns a reward float32[1], expected float32[]"),
        (IntegerEnd, "step returns a terminated int32[], expected bool[]"),
        (PlainTuple, "step returns a tuple, expected asymrl.worlds.Step"),
        (FloatObservation, "the result of observe is float32[], expected int32[]"),
        (FirstObservationVector, "the result of first_observation is int32[1], expected int32[]"),
        (WrongRecord, "the result of latent at 'more' is float32[3], expected float32[2]"),
        (NoRecord, "the result of latent is int32[], expected a dictionary with the keys place, more"),
        (ChangingState, "step returns a different kind of state than reset: ['place'] is float32[], expected int32[]"),
        (GrowingState, "step returns a different kind of state than reset"),
        (OtherState, "from_latent returns a different kind of state than reset: ['place'] is uint8[]"),
        (NoActions, "there are no actions"),
    ],
)
def test_shapes_and_dtypes(world, message):
    assert message in refused(world())


def failing(function: str) -> World:
    def fail(self, *arguments):
        raise KeyError("a mistake of mine")

    return type(f"Failing{function}", (Line,), {function: fail})()


@pytest.mark.parametrize(
    "function",
    ["reset", "step", "first_observation", "observe", "latent", "from_latent", "latent_problem"],
)
def test_a_function_that_raises_is_named(function):
    message = refused(failing(function))
    assert message == f"line: {function} raised KeyError: 'a mistake of mine'"


class SignalRaises(Line):
    def signals(self):
        return {"odd": Signal(lambda latent: latent["nothing"], Discrete(2), "a mistake")}


class Refuses(Line):
    def latent_problem(self, latent):
        return "is not to my liking" if latent == 3 else None


class FailsWhenItRuns(Line):
    """Nothing is wrong with the shapes; the mistake comes with the numbers."""

    def step(self, key, state, action):
        def reward(place):
            raise RuntimeError("no reward today")

        paid = jax.pure_callback(
            reward, jax.ShapeDtypeStruct((), jnp.float32), state["place"], vmap_method="sequential"
        )
        return super().step(key, state, action)._replace(reward=paid)


def test_other_failures():
    assert "the signal 'odd' raised" in refused(SignalRaises())
    assert "latent_problem refuses the state with latent 3, which the world reached: is not to my liking" in refused(
        Refuses()
    )
    assert "no reward today" in refused(FailsWhenItRuns())
