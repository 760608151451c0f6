"""Actions that are held for several steps, in a world whose every step is known."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from jaxtyping import Array

from asymrl.draw.text import draw_text
from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.learners.state import training_world
from asymrl.settings import A2CSettings
from asymrl.worlds import Box, make
from asymrl.worlds.repeated import RepeatedWorld, repeated
from asymrl.worlds.world import Step, World


class Count(World):
    """Step n is worth n if action 1 is taken, and shows n; the episode ends after `last` steps."""

    last: int = eqx.field(static=True, default=100)
    name: str = eqx.field(static=True, default="count")
    discount: float = eqx.field(static=True, default=0.9)
    time_limit: int | None = eqx.field(static=True, default=10)

    @property
    def action_names(self) -> tuple[str, ...]:
        return ("skip", "take")

    @property
    def observation_space(self) -> Box:
        return Box((1,))

    @property
    def latent_space(self) -> Box:
        return Box((1,))

    def reset(self, key: Any) -> Array:
        return jnp.zeros(1)

    def step(self, key: Any, state: Array, action: Any) -> Step:
        n = state + 1
        return Step(n, jnp.where(action == 1, n[0], 0.0), n[0] >= self.last)

    def first_observation(self, key: Any, state: Array) -> Array:
        return state

    def observe(self, key: Any, state: Any, action: Any, next_state: Array) -> Array:
        return state + 1

    def latent(self, state: Array) -> Array:
        return state

    def from_latent(self, latent: Array) -> Array:
        return latent


class CountInPython(gymnasium.Env):
    """The same as a Gymnasium environment, which fails if it is stepped after its end."""

    observation_space, action_space = spaces.Box(0, np.inf, (1,)), spaces.Discrete(2)

    def __init__(self, last: int = 100):
        self.last = last

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.n = 0
        return self._seen(), {"state": self._seen()}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        assert self.n < self.last, "stepped after the end"
        self.n += 1
        return self._seen(), float(self.n * action), self.n >= self.last, False, {"state": self._seen()}

    def _seen(self) -> np.ndarray:
        return np.array([self.n], np.float32)


# The limit is 10 steps, and an action is held for 4: what each action earns and shows, and how the episode ends.
CUT_OFF = ([10, 26, 19], [4, 8, 10], "truncated")
OVER_IN_THE_MIDDLE = ([10, 11], [4, 6], "terminated")
OVER_AT_THE_LIMIT = ([10, 26, 19], [4, 8, 10], "terminated")
CASES = [(100, CUT_OFF), (6, OVER_IN_THE_MIDDLE), (10, OVER_AT_THE_LIMIT)]


@pytest.mark.parametrize(("last", "wanted"), CASES)
def test_a_compiled_world(last: int, wanted: Any):
    world = repeated(Count(last=last), 4)
    assert world.time_limit == 3
    episode, _ = world.begin(jax.random.key(0))
    rewards, seen, ending = [], [], ""
    while not ending:
        episode, after = world.advance(jax.random.key(1), episode, 1)
        rewards.append(float(after.reward))
        seen.append(float(after.observation[0]))
        ending = "terminated" if after.terminated else "truncated" if after.truncated else ""
    assert (rewards, seen, ending) == wanted
    assert episode.t == len(rewards)


@pytest.mark.parametrize(("last", "wanted"), CASES)
def test_an_environment_in_python(last: int, wanted: Any):
    """Two environments side by side, the second of which takes nothing: it sees the same and earns nothing."""
    world: Any = repeated(from_gymnasium(lambda: CountInPython(last), time_limit=10), 4)
    assert world.time_limit == 3
    stepper, alive = world.open(2), np.ones(2, bool)
    stepper.reset([0, 0])
    rewards, seen, terminated = [], [], np.zeros(2, bool)
    while alive.any():
        observation, truth, earned, terminated, truncated = stepper.step(np.array([1, 0]), alive)
        np.testing.assert_array_equal(observation, truth)
        assert observation[0] == observation[1]
        assert earned[1] == 0
        rewards.append(earned[0])
        seen.append(observation[0, 0])
        alive = ~terminated & ~truncated & (len(rewards) < world.time_limit)
    stepper.close()
    assert (rewards, seen, "terminated" if terminated[0] else "truncated") == wanted


def test_environments_begin_anew_each_on_its_own():
    world: Any = repeated(from_gymnasium(CountInPython, time_limit=6), 4)
    stepper, everyone = world.open(2), np.ones(2, bool)
    stepper.reset([0, 0])
    stepper.step(np.array([1, 1]), everyone)
    stepper.reset([0, 0], np.array([True, False]))
    observation, *_ = stepper.step(np.array([1, 1]), everyone)
    np.testing.assert_array_equal(observation, [[4], [6]])


def test_the_environment_that_is_made_holds_actions_too():
    env = repeated(from_gymnasium(lambda: CountInPython(6), time_limit=10), 4).make()  # pyright: ignore
    env.reset(seed=0)
    results = [env.step(1) for _ in range(2)]
    assert [(float(seen[0]), reward, over) for seen, reward, over, *_ in results] == [(4, 10, False), (6, 11, True)]


def test_cart_pole_goes_where_single_steps_lead():
    single, held = make("cart-pole", time_limit=9), repeated(make("cart-pole", time_limit=9), 3)
    episode, _ = single.begin(jax.random.key(3))
    long, _ = held.begin(jax.random.key(3))
    for action in (1, 0, 1):
        total, after = 0.0, None
        for _ in range(3):
            episode, after = single.advance(jax.random.key(0), episode, action)
            total += float(after.reward)
        assert after is not None
        long, at_once = held.advance(jax.random.key(0), long, action)
        np.testing.assert_allclose(at_once.observation, after.observation, rtol=1e-6)
        assert float(at_once.reward) == total
        assert at_once.truncated == after.truncated
    assert episode.t == 9


def test_settings_count_actions_but_for_the_time_limit():
    settings = A2CSettings(world="cart-pole", time_limit=10, action_repeat=4)
    world = training_world(settings)
    assert isinstance(world, RepeatedWorld)
    assert (settings.horizon, world.time_limit) == (3, 3)
    assert training_world(A2CSettings(world="cart-pole", time_limit=10)) == make("cart-pole", time_limit=10)
    with pytest.raises(ValueError, match="action_repeat is 0"):
        A2CSettings(action_repeat=0)
    state = world.reset(jax.random.key(0))
    assert "cart-pole" in draw_text(world, state, world.first_observation(jax.random.key(0), state))
