"""The model checker: correct worlds pass; what depends on more than it should is found and named."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.worlds import (
    WORLDS,
    Box,
    Discrete,
    FiniteWorld,
    Indices,
    MultiDiscrete,
    Record,
    Shopping,
    Step,
    World,
    check,
    make,
)
from asymrl.worlds.checking.sampling import EXHAUSTIVE_PAIRS, actions_to_try
from tests.worlds.dials import Dials
from tests.worlds.line_world import Line, refused


@pytest.mark.parametrize("name", WORLDS)
def test_all_worlds_pass(name):
    env = make(name)
    report = check(env)
    assert report.world == name
    assert report.pairs == report.states * len(env.action_names)
    assert "the latent determines the future" in str(report)
    if isinstance(env, FiniteWorld) and env.ends.size <= EXHAUSTIVE_PAIRS:
        assert report.states == env.latent_space.n, "a finite world of this size is examined whole"
    else:
        assert report.states > 100


def test_a_large_finite_world_is_examined_on_the_way():
    report = check(Shopping(8), episodes=4, steps=8)
    assert 1 < report.states <= 32


def test_a_world_of_ones_own_passes():
    report = check(Line(), episodes=8, steps=16)
    assert report.states <= 5
    assert not any("probabilities" in rule for rule in report.passed)


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


def test_observations_may_be_vectors_of_indices():
    class Seen(Dials):
        @property
        def observation_space(self) -> Any:
            return MultiDiscrete((3, 2))

        def first_observation(self, key: Any, state: Any) -> Any:
            return jnp.stack([state // 2, state % 2]).astype(jnp.int32)

        def observe(self, key: Any, state: Any, action: Any, next_state: Any) -> Any:
            return self.first_observation(key, next_state)

    class Wrong(Seen):
        def observe(self, key: Any, state: Any, action: Any, next_state: Any) -> Any:
            return jnp.stack([state // 2, action[0]]).astype(jnp.int32)

    check(Seen(), episodes=8, steps=4)
    assert "it has 2 at (1,), outside 0..1" in refused(Wrong())


class Place(NamedTuple):
    place: Any
    nothing: Any = None


class Walker(eqx.Module):
    place: Any


class Shaped(Line):
    """The same walk with its state in any kind of tree."""

    kind: str = eqx.field(static=True, default="dict")

    def wrap(self, place) -> Any:
        return {
            "dict": lambda: {"place": place},
            "named tuple": lambda: Place(place),
            "module": lambda: Walker(place),
            "nested": lambda: ({"deep": [place]}, ()),
            "with key": lambda: {"place": place, "key": jax.random.key(7)},
        }[self.kind]()

    def unwrap(self, state) -> Any:
        return {
            "dict": lambda: state["place"],
            "named tuple": lambda: state.place,
            "module": lambda: state.place,
            "nested": lambda: state[0]["deep"][0],
            "with key": lambda: state["place"],
        }[self.kind]()

    def reset(self, key):
        return self.wrap(super().reset(key)["place"])

    def step(self, key, state, action):
        step = super().step(key, {"place": self.unwrap(state)}, action)
        return step._replace(state=self.wrap(step.state["place"]))

    def first_observation(self, key, state):
        return self.unwrap(state)

    def observe(self, key, state, action, next_state):
        return self.unwrap(next_state)

    def latent(self, state):
        return self.unwrap(state)

    def from_latent(self, latent):
        return self.wrap(latent)


@pytest.mark.parametrize("kind", ["named tuple", "module", "nested", "with key"])
def test_a_state_is_any_tree(kind):
    assert check(Shaped(kind=kind), episodes=4, steps=8).states > 1


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


class HostReward(Line):
    def step(self, key, state, action):
        return super().step(key, state, action)._replace(reward=jnp.float32(np.random.default_rng().random()))


class HostStart(Line):
    def reset(self, key):
        return {"place": jnp.int32(np.random.default_rng().integers(2**30)) % 4}


class HostNoise(Line):
    def observe(self, key, state, action, next_state):
        noise = np.random.default_rng().integers(2**30, size=100)
        return (next_state["place"] + jnp.asarray(noise, jnp.int32).sum()) % 5


calls = itertools.count()


class Counting(Line):
    def latent(self, state):
        return state["place"] + next(calls) * 0


class Stateful(Line):
    def latent(self, state):
        return (state["place"] + next(calls)) % 5


@pytest.mark.parametrize(
    ("world", "function"),
    [(HostReward, "step"), (HostStart, "reset"), (HostNoise, "observe"), (Stateful, "latent")],
)
def test_randomness_and_memory_on_the_host(world, function):
    assert f"{function} depends on more than its arguments" in refused(world())


def test_what_happens_on_the_host_without_effect_is_fine():
    check(Counting(), episodes=4, steps=4)


class OtherwiseUnderVmap(Line):
    """A function with a rule of its own for batches, and a wrong one."""

    def step(self, key, state, action):
        @jax.custom_batching.custom_vmap
        def bonus(place):
            return place.astype(jnp.float32)

        @bonus.def_vmap
        def _(size, batched, place):
            return place.astype(jnp.float32) + (place == 1), True

        return super().step(key, state, action)._replace(reward=bonus(state["place"]))


class StartsOtherwiseUnderVmap(Line):
    def reset(self, key):
        @jax.custom_batching.custom_vmap
        def moved(place):
            return place

        @moved.def_vmap
        def _(size, batched, place):
            return (place + 1) % 4, True

        return {"place": moved(super().reset(key)["place"])}


def test_vmapped_differs_from_single():
    message = refused(OtherwiseUnderVmap())
    assert "step gives different results with and without vmap" in message
    assert "in the state with latent 1, action 0 (left)" in message
    message = refused(StartsOtherwiseUnderVmap())
    assert "reset gives different results with and without vmap" in message
    assert "in the state with latent" in message


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


def test_what_runs_in_python_is_refused():
    with pytest.raises(ValueError, match=r"CartPole-v1 runs in Python.*check_env"):
        check(make("CartPole-v1"))


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
