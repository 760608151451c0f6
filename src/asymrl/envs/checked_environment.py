"""One copy of a user's environment, with its mistakes turned into errors that say where they are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from asymrl.envs.child_processes import is_ctrl_c
from asymrl.envs.gymnasium_spaces import Encoding
from asymrl.envs.returned_values import ReturnedValueError, check_finite, check_value, reset_values, step_values
from asymrl.envs.user_code import described, own_traceback
from asymrl.worlds.stepped_world import UserCodeError

StepValues = tuple[Any, Any, float, bool, bool]
"""Observation and latent state in our spaces, reward, and whether the episode was terminated or truncated."""


class LatentState(NamedTuple):
    """How to find and encode the latent state of an environment; `where` it is, or why it is `missing`."""

    find: Callable[[gymnasium.Env, dict[str, Any]], Any]
    encoding: Encoding
    where: str = ""
    missing: str | None = None
    space: gymnasium.Space[Any] | None = None
    """Its space, if the environment declares one."""


class Interface(NamedTuple):
    """All that is known about a user's environment: how to make it, read it and act in it."""

    title: str
    make: Callable[[], gymnasium.Env]
    space: gymnasium.Space[Any]
    """Of its observations, as declared."""
    observation: Encoding
    latent: LatentState
    act: Callable[[Any], Any]
    """Turns an action into one of the environment."""


class Position(NamedTuple):
    """Where an environment is: the resets since it was made, the seed of the last reset, and the steps since then."""

    episode: int = 0
    seed: int | None = None
    step: int = 0

    def reset(self, seed: int) -> Position:
        return Position(self.episode + 1, seed)

    def stepped(self) -> Position:
        return self._replace(step=self.step + 1)

    def mistake(self, title: str, method: str, cause: str, traceback: str = "") -> UserCodeError:
        """An error about a call of `method` here."""
        where = f"episode {self.episode}" + (f", step {self.step}" if method == "step" else "")
        return UserCodeError(f"{title}: {method}() in {where} (reset with seed {self.seed}): {cause}", traceback)


class CheckedEnvironment:
    """A copy of an environment. Every call raises UserCodeError if the user's code fails."""

    def __init__(self, interface: Interface):
        self.interface, self.position = interface, Position()
        self.env = make_environment(interface.title, interface.make)

    def reset(self, seed: int) -> tuple[Any, Any]:
        """Starts an episode. Returns observation and latent state."""
        self.position = self.position.reset(seed)
        with mistakes_named(self.interface.title, self.position, "reset"):
            return self._read(*reset_values(self.env.reset(seed=seed)))

    def step(self, action: Any) -> StepValues:
        """Takes an action of ours."""
        self.position = self.position.stepped()
        with mistakes_named(self.interface.title, self.position, "step"):
            returned = self.env.step(self.interface.act(action))
            observation, reward, terminated, truncated, info = step_values(returned)
            return *self._read(observation, info), reward, terminated, truncated

    def close(self) -> None:
        """Closes the environment, ignoring its errors."""
        try:
            self.env.close()
        except Exception:  # it is no longer needed
            return

    def _read(self, observation: Any, info: dict[str, Any]) -> tuple[Any, Any]:
        space, encoding, latent = self.interface.space, self.interface.observation, self.interface.latent
        check_value(space, observation, "the observation")
        encoded_observation = _encoded(encoding, observation, "the observation")
        value = latent.find(self.env, info)
        if latent.space is not None:
            check_value(latent.space, value, "the state")
        truth = _encoded(latent.encoding, value, "the state")
        check_finite(truth, "the state")
        return encoded_observation, truth


@contextlib.contextmanager
def mistakes_named(title: str, position: Position, method: str) -> Iterator[None]:
    """Turns what the user's code raises in a call of `method` into UserCodeError."""
    try:
        yield
    except UserCodeError:
        raise
    except ReturnedValueError as error:
        raise position.mistake(title, method, str(error)) from None
    except BaseException as error:  # also SystemExit, which would end a thread silently
        if is_ctrl_c(error):
            raise
        old = method == "reset" and isinstance(error, TypeError) and "'seed'" in str(error)
        hint = "; the old interface of Gym has no seed: write reset(self, *, seed=None, options=None)" if old else ""
        raise position.mistake(title, method, f"{described(error)}{hint}", own_traceback(error)) from None


def make_environment(title: str, make: Callable[[], gymnasium.Env]) -> gymnasium.Env:
    """A copy of the user's environment. Raises UserCodeError if it cannot be made."""
    try:
        return make()
    except UserCodeError:
        raise
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        raise UserCodeError(f"{title} cannot be made: {described(error)}", own_traceback(error)) from None


def _encoded(encoding: Encoding, value: Any, what: str) -> Any:
    try:
        read = encoding.read(value)
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise ReturnedValueError(f"{what} cannot be read: {text}") from None
    if problem := _shape_problem(encoding, read):
        raise ReturnedValueError(f"{what} {problem}")
    return read


def _shape_problem(encoding: Encoding, read: Any) -> str | None:
    if isinstance(read, dict):
        return None  # its parts were read one by one
    shape = getattr(encoding.space, "shape", ())
    return None if np.shape(read) == shape else f"has shape {np.shape(read)}, expected {shape}"
