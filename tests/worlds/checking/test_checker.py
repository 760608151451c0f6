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
    FiniteWorld,
    MultiDiscrete,
    Shopping,
    check,
    make,
)
from asymrl.worlds.checking.sampling import EXHAUSTIVE_PAIRS
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


def test_what_runs_in_python_is_refused():
    with pytest.raises(ValueError, match=r"CartPole-v1 runs in Python.*check_env"):
        check(make("CartPole-v1"))
