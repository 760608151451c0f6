"""A world whose actions are vectors of indices: set two dials as was shown at the start."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from asymrl.worlds import Discrete, MultiDiscrete, Step, World

SIZES = (3, 2)
BLANK = 6


class Dials(World):
    """The wanted setting is seen first, and then nothing. Each step pays the share of dials that are set right."""

    name: str = eqx.field(static=True, default="dials")
    discount: float = eqx.field(static=True, default=0.9)
    time_limit: int | None = eqx.field(static=True, default=3)

    sizes: tuple[int, ...] = eqx.field(static=True, default=SIZES)
    names: tuple[str, ...] = eqx.field(static=True, default=("left", "right"))

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.names

    @property
    def action_space(self) -> MultiDiscrete:
        return MultiDiscrete(self.sizes)

    @property
    def observation_space(self) -> Any:
        return Discrete(BLANK + 1, blank=True)

    @property
    def latent_space(self) -> Any:
        return Discrete(BLANK)

    def reset(self, key: Any) -> Any:
        return jax.random.randint(key, (), 0, BLANK)

    def step(self, key: Any, state: Any, action: Any) -> Step:
        wanted = jnp.stack([state // SIZES[1], state % SIZES[1]])
        return Step(state, jnp.mean((action == wanted).astype(jnp.float32)), jnp.bool_(False))

    def first_observation(self, key: Any, state: Any) -> Any:
        return state

    def observe(self, key: Any, state: Any, action: Any, next_state: Any) -> Any:
        return jnp.int32(BLANK)

    def latent(self, state: Any) -> Any:
        return state

    def from_latent(self, latent: Any) -> Any:
        return jnp.asarray(latent, jnp.int32)
