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
    HeavenHell,
    MemoryFourRooms,
    Record,
    Signal,
    Tiger,
    World,
    check,
    make,
)
from asymrl.worlds.deterministic import DeterministicTable, TransitionTable, deterministic_table
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


class OnATable(Line):
    """The same walk, which also says that it is one on a table."""

    wrong: str = eqx.field(static=True, default="")


@deterministic_table.register
def _(world: OnATable) -> DeterministicTable:
    place = np.clip(np.arange(5)[:, None] + np.array([[-1, 1]]), 0, 4).ravel()
    ended = (place == 4).astype(np.int32)
    table = TransitionTable(place, place, np.full(10, -1.0, np.float32), ended)
    if world.wrong in table._fields:
        table = table._replace(**{world.wrong: np.roll(getattr(table, world.wrong), 1) - (world.wrong == "reward")})
    dtype = jnp.int8 if world.wrong == "at" else jnp.int32
    return DeterministicTable(
        table=lambda start: table,
        sights=lambda start: (jnp.arange(5) + start["place"]) % 5 if world.wrong == "shared" else jnp.arange(5),
        first=lambda state, seen: (state["place"], 4 if world.wrong == "first" else seen),
        at=lambda start, place: {"place": jnp.asarray(place, dtype)},
        shared=True,
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("place", "says another latent than step and observe in the state with latent"),
        ("reward", "says another reward than step and observe in the state with latent"),
        ("ended", "says another terminated than step and observe in the state with latent"),
        ("sight", "says another observation than step and observe in the state with latent"),
        ("first", "says another first observation than first_observation in the state with latent"),
        ("shared", "says another first observation than first_observation in the state with latent"),
        ("at", "returns a different kind of state than reset: ['place'] is int8[], expected int32[]"),
    ],
)
def test_a_table_must_say_what_the_steps_do(wrong: str, message: str):
    assert message in refused(OnATable(wrong=wrong))


def test_worlds_with_and_without_a_table_pass():
    assert "its table says what its steps do" in check(OnATable(), episodes=8, steps=16).passed
    assert not any("table" in rule for rule in check(Line(), episodes=8, steps=16).passed)


class Foggy(MemoryFourRooms):
    """Rooms in which nothing is seen but the first time."""

    def __init__(self):
        super().__init__(7)

    def observe(self, key, state, action, next_state):
        return jax.tree.map(jnp.zeros_like, super().observe(key, state, action, next_state))


class Patient(HeavenHell):
    """A corridor without an end."""

    def __init__(self):
        super().__init__(1)

    def step(self, key, state, action):
        return super().step(key, state, action)._replace(terminated=jnp.bool_(False))


def test_chance_at_the_start_and_after_the_end_is_no_hindrance():
    """Two rooms that look different, of which only one is left: the next episode may begin in either."""
    T = np.zeros((2, 2, 2))
    T[0, :, 0], T[1, 0, 0], T[1, 1, 1] = 1.0, 1.0, 1.0
    D = np.array([[True, False], [False, False]])
    O, R = np.tile(np.eye(2), (2, 1, 1)), np.where(D, 1.0, -0.1)
    T[D] = 0.5
    world = FiniteWorld.from_tables("two-rooms", T, O, R, np.full(2, 0.5), D, first_O=np.eye(2))
    assert "its table says what its steps do" in check(world, episodes=8, steps=16).passed
    noisy = FiniteWorld.from_tables("foggy-rooms", T, 0.9 * O + 0.05, R, np.full(2, 0.5), D, first_O=np.eye(2))
    assert deterministic_table(noisy) is None


def test_a_subclass_that_changes_the_steps_has_no_table():
    assert deterministic_table(MemoryFourRooms(7)) is not None
    assert deterministic_table(Foggy()) is None
    assert deterministic_table(HeavenHell(1)) is not None
    assert deterministic_table(Patient()) is None
