"""A small world to test the model checker with, correct until a subclass breaks it."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from asymrl.worlds import CheckError, Discrete, Step, World, check


class Line(World):
    """A walk on five cells, ending at the right one: a correct world, which tests break in one place each."""

    name: str = eqx.field(static=True, default="line")
    discount: float = eqx.field(static=True, default=0.9)
    time_limit: int | None = eqx.field(static=True, default=20)

    @property
    def action_names(self) -> tuple[str, ...]:
        return ("left", "right")

    @property
    def observation_space(self) -> Any:
        return Discrete(5)

    @property
    def latent_space(self) -> Any:
        return Discrete(5)

    def reset(self, key) -> Any:
        return {"place": (jax.random.bits(key) % 4).astype(jnp.int32)}

    def step(self, key, state, action) -> Any:
        place = jnp.clip(state["place"] + 2 * action - 1, 0, 4)
        return Step({"place": place}, jnp.float32(-1), place == 4)

    def first_observation(self, key, state) -> Any:
        return state["place"]

    def observe(self, key, state, action, next_state) -> Any:
        return next_state["place"]

    def latent(self, state) -> Any:
        return state["place"]

    def from_latent(self, latent) -> Any:
        return {"place": latent}


def refused(env: World) -> str:
    with pytest.raises(CheckError) as caught:
        check(env, episodes=8, steps=16)
    assert str(caught.value).startswith(f"{env.name}: ")
    return str(caught.value)
