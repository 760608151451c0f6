"""A world with gymnax's functions whose action is a vector: push a mass to the middle, without seeing its speed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class State(NamedTuple):
    place: jax.Array
    speed: jax.Array


class Params(NamedTuple):
    max_steps_in_episode: int = 10


class Slider:
    name = "Slider"
    default_params = Params()

    def reset_env(self, key: Any, params: Any) -> tuple[Any, State]:
        state = State(jax.random.uniform(key, minval=-1.0), jnp.float32(0))
        return self.get_obs(state), state

    def step_env(self, key: Any, state: State, action: Any, params: Any) -> tuple[Any, ...]:
        force, brake = action[0, 0], action[0, 1]
        speed = (state.speed + 0.1 * force) * brake
        after = State(jnp.clip(state.place + speed, -2.0, 2.0), speed)
        return self.get_obs(after), after, -jnp.abs(after.place), jnp.abs(after.place) < 0.01, {}

    def get_obs(self, state: State) -> Any:
        return state.place[None]

    def action_space(self, params: Any) -> Any:
        return SimpleNamespace(low=jnp.array([[-2.0, 0.0]]), high=jnp.array([[2.0, 1.0]]), shape=(1, 2))

    def observation_space(self, params: Any) -> Any:
        return SimpleNamespace(low=-2.0, high=2.0, shape=(1,))
