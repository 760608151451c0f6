"""A world whose actions are records: turn the right knob by the right amount, as was shown at the start."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from asymrl.worlds import Box, Discrete, Record, Step, World

ACTIONS = Record((("amount", Box((1,), 0.0, 4.0)), ("knob", Discrete(2))))


class ControlPanel(World):
    """The wanted knob and amount are seen first, and then nothing. A step pays less the further it is off."""

    name: str = eqx.field(static=True, default="control-panel")
    discount: float = eqx.field(static=True, default=0.9)
    time_limit: int | None = eqx.field(static=True, default=2)

    @property
    def action_names(self) -> tuple[str, ...]:
        return ("knob", "amount")

    @property
    def action_space(self) -> Record:
        return ACTIONS

    @property
    def observation_space(self) -> Any:
        return Box((2,), -1.0, 1.0)

    @property
    def latent_space(self) -> Any:
        return Discrete(4)

    def reset(self, key: Any) -> Any:
        return jax.random.randint(key, (), 0, 4)

    def step(self, key: Any, state: Any, action: Any) -> Step:
        off = jnp.abs(action["amount"][0] - 1.0 - 2.0 * (state // 2)) / 2
        return Step(state, (action["knob"] == state % 2).astype(jnp.float32) - off, jnp.bool_(False))

    def first_observation(self, key: Any, state: Any) -> Any:
        return jnp.stack([state % 2, state // 2]) * 2.0 - 1.0

    def observe(self, key: Any, state: Any, action: Any, next_state: Any) -> Any:
        return jnp.zeros(2)

    def latent(self, state: Any) -> Any:
        return state

    def from_latent(self, latent: Any) -> Any:
        return jnp.asarray(latent, jnp.int32)
