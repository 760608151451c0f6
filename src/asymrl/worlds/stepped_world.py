"""Worlds made from environments of other libraries, and worlds that are stepped in Python, not compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from asymrl.worlds.spaces import ActionSpace, Discrete, Space, entry_names, value_text
from asymrl.worlds.world import World


class UserCodeError(ValueError):
    """The user's environment failed, or returned something unusable. The message is one line."""

    def __init__(self, message: str, traceback: str = "", environment: int = 0, of: int = 1):
        """`environment`: its number among those stepped together, from 0; `of`: how many there are."""
        super().__init__(message)
        self.traceback = traceback
        """The lines of the user's own code, without ours; empty if none of them raised."""
        self.environment, self.of = environment, of

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.traceback, self.environment, self.of)

    @property
    def report(self) -> str:
        """The message and, under it, the traceback."""
        return f"{self}\n{self.traceback}".rstrip()


class Stepper(Protocol):
    """Several copies of an environment, stepped together. Arrays have a leading axis of environments.

    Every method raises UserCodeError, naming the environment, if the user's code fails; the stepper can then only
    be closed.
    """

    def reset(self, seeds: Sequence[int], which: Bool[np.ndarray, "env"] | None = None) -> tuple[Any, Any]:
        """Starts an episode in each, or only in those of `which`, from these seeds.

        Returns observations and latent states; those of the others are not used.
        """
        ...

    def step(
        self, actions: Any, alive: Bool[np.ndarray, "env"]
    ) -> tuple[Any, Any, Float[np.ndarray, "env"], Bool[np.ndarray, "env"], Bool[np.ndarray, "env"]]:
        """Takes an action in each environment that is `alive`; the results of the others are not used.

        `actions` are values of the action space: an array, or dictionaries of arrays.

        Returns observations, latent states, rewards, and whether episodes were terminated and truncated.
        """
        ...

    def close(self) -> None: ...


def chosen_rows(which: Bool[np.ndarray, "env"], these: Any, those: Any) -> Any:
    """Arrays with the rows in `which` from `these`, the others from `those`; the first axis is environments."""
    return jax.tree.map(lambda a, b: np.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b), these, those)


class Conversion(NamedTuple):
    """How a part of an environment's observation becomes our numbers: `(value - first) * scale`, in our shape.

    This is data, not a function, so that it can be saved with a policy.
    """

    path: tuple[str, ...] = ()
    """The names that lead to the part in our space."""
    keys: tuple[str | int, ...] = ()
    """The keys and indices that lead to the part in the environment's observation."""
    first: int | tuple[int, ...] = 0
    """The smallest value, for all entries or for each."""
    scale: float = 1.0
    axes: tuple[int, ...] | None = None
    """The order in which the axes of the value are read, if it is not their own."""


class WrappedWorld(World):
    """A world made from an environment of another library, with the spaces that the environment declares."""

    name: str = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    time_limit: int | None = eqx.field(static=True)
    actions: ActionSpace = eqx.field(static=True)
    observations: Space = eqx.field(static=True)

    @property
    def action_names(self) -> tuple[str, ...]:
        if isinstance(self.actions, Discrete):
            return tuple(map(str, range(self.actions.n)))
        return entry_names(self.actions)

    @property
    def action_space(self) -> ActionSpace:
        return self.actions

    @property
    def observation_space(self) -> Space:
        return self.observations


class SteppedWorld(WrappedWorld):
    """A world that is stepped in Python. It has spaces and signals like any other, but no compiled functions.

    Its states are its latent states; the dynamics are known to the environments only.
    """

    latents: Space = eqx.field(static=True)
    make: Callable[[], Any] = eqx.field(static=True)
    """Makes one environment, as a `gymnasium.Env`."""
    open: Callable[[int], Stepper] = eqx.field(static=True)
    """Opens a number of environments that are stepped together."""
    read: Callable[[Any], Any] = eqx.field(static=True)
    """Turns an observation of the environment into a value of the observation space."""
    conversions: tuple[Conversion, ...] = eqx.field(static=True)
    """The same as data."""
    act: Callable[[Any], Any] = eqx.field(static=True)
    """Turns an action into one of the environment."""
    latent_from: str = eqx.field(static=True, default="")
    """Where the latent state comes from, for people."""
    recipe: str | None = eqx.field(static=True, default=None)
    """A name by which the same world can be made again, if it has one."""
    without_latent: str | None = eqx.field(static=True, default=None)
    """Why there is no latent state, if there is none; only critics that read the history can be trained then."""

    @property
    def action_names(self) -> tuple[str, ...]:
        if isinstance(self.actions, Discrete):
            return tuple(str(self.act(i)) for i in range(self.actions.n))
        return entry_names(self.actions)

    def action_text(self, action: Any) -> str:
        """An action as the environment takes it: in its own units, within its bounds."""
        return value_text(self.act(action))

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
        return TypeError(f"{self.name} runs in Python and cannot be compiled; train it, or use it through Gymnasium")
