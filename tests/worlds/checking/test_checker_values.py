"""The model checker: wrong numbers, shapes and failing functions are found and named."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from asymrl.worlds import (
    Box,
    Discrete,
    Record,
    Signal,
    World,
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
        (IntegerReward, "the reward of step is int32[], expected float32[]"),
        (RewardVector, "the reward of step is float32[1], expected float32[]"),
        (IntegerEnd, "terminated of step is int32[], expected bool[]"),
        (PlainTuple, "step returns a tuple, expected asymrl.worlds.Step"),
        (FloatObservation, "the result of observe is float32[], expected int32[]"),
        (FirstObservationVector, "the result of first_observation is int32[1], expected int32[]"),
        (WrongRecord, "the result of latent at ['more'] is float32[3], expected float32[2]"),
        (NoRecord, "the result of latent is int32[], expected {more: float32[2], place: int32[]}"),
        (ChangingState, "the state of step at ['place'] is float32[], expected int32[]"),
        (GrowingState, "the state of step is {more: int32[], place: int32[]}, expected {place: int32[]}"),
        (OtherState, "the result of from_latent at ['place'] is uint8[], expected int32[]"),
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
