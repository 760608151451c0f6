"""Worlds that run in Python, step by step, instead of being compiled: other people's environments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from asymrl.worlds.spaces import Box, Discrete, Space
from asymrl.worlds.world import World


class Stepper(Protocol):
    """Several environments of one kind that are stepped together. Arrays have a leading axis of environments."""

    def reset(self, seeds: Sequence[int]) -> tuple[Any, Any]:
        """Starts an episode in each, from these seeds; what is seen and the latent states."""
        ...

    def step(
        self, actions: np.ndarray, alive: Bool[np.ndarray, "env"]
    ) -> tuple[Any, Any, Float[np.ndarray, "env"], Bool[np.ndarray, "env"], Bool[np.ndarray, "env"]]:
        """Takes an action in each whose episode goes on.

        What is seen, the latent states, rewards, and whether the episode was terminated or truncated; of the others
        nothing is used.
        """
        ...

    def close(self) -> None: ...


class Conversion(NamedTuple):
    """How a part of what an environment shows becomes numbers of ours: `(value - first) * scale`, flattened.

    Data, not a function, so that it can be written to a file with a policy.
    """

    path: tuple[str, ...] = ()
    """The names that lead to it in our space."""
    keys: tuple[str | int, ...] = ()
    """The keys and indices that lead to it in what the environment shows."""
    first: int | tuple[int, ...] = 0
    """The least value, or that of each entry."""
    scale: float = 1.0


class SteppedWorld(World):
    """A world that runs in Python. It has spaces and signals as any other, and is trained by `learning.host`.

    Its states are its latent states: what happens between them is known to the environments alone.
    """

    name: str = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    time_limit: int | None = eqx.field(static=True)
    names_of_actions: tuple[str, ...] = eqx.field(static=True)
    actions: Discrete | Box = eqx.field(static=True)
    observations: Space = eqx.field(static=True)
    latents: Space = eqx.field(static=True)
    make: Callable[[], Any] = eqx.field(static=True)
    """Makes one environment, as Gymnasium knows it."""
    open: Callable[[int], Stepper] = eqx.field(static=True)
    """Opens so many environments."""
    read: Callable[[Any], Any] = eqx.field(static=True)
    """Turns what an environment shows into a value of the observation space."""
    conversions: tuple[Conversion, ...] = eqx.field(static=True)
    """The same as data."""
    act: Callable[[Any], Any] = eqx.field(static=True)
    """Turns an action into one that an environment takes."""
    without_latent: str | None = eqx.field(static=True, default=None)
    """Why there is no latent state, if there is none; then only critics of the history can be trained."""

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.names_of_actions

    @property
    def action_space(self) -> Discrete | Box:
        return self.actions

    @property
    def observation_space(self) -> Space:
        return self.observations

    @property
    def latent_space(self) -> Space:
        return self.latents

    def latent(self, state: Any) -> Any:
        return state

    def from_latent(self, latent: Any) -> Any:
        return latent

    def reset(self, key: Any) -> NoReturn:
        raise self._not_compiled()

    def step(self, key: Any, state: Any, action: Any) -> NoReturn:
        raise self._not_compiled()

    def first_observation(self, key: Any, state: Any) -> NoReturn:
        raise self._not_compiled()

    def observe(self, key: Any, state: Any, action: Any, next_state: Any) -> NoReturn:
        raise self._not_compiled()

    def _not_compiled(self) -> TypeError:
        return TypeError(f"{self.name} runs in Python and can not be compiled; train it, or use it through Gymnasium")
