"""Mistakes of a user's environment: what it returns is checked where it is made, and errors say where they are."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from asymrl.envs.child_processes import is_ctrl_c
from asymrl.envs.gymnasium_spaces import Encoding
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


class ReturnedValueError(Exception):
    """Something that an environment returned cannot be used."""


def reset_values(returned: Any) -> tuple[Any, dict[str, Any]]:
    """Observation and info, as `reset` returned them. Raises ReturnedValueError if it did not."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise ReturnedValueError(
            f"it returned {_kind(returned)}, expected (observation, info); an environment with the old interface of "
            "Gym returns the observation only"
        )
    _check_info(returned[1])
    return returned


def step_values(returned: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    """Observation, reward, both ends and info, as `step` returned them. Raises ReturnedValueError if it did not."""
    if not isinstance(returned, tuple) or len(returned) != 5:
        old = isinstance(returned, tuple) and len(returned) == 4
        raise ReturnedValueError(
            f"it returned {_kind(returned)}, expected (observation, reward, terminated, truncated, info)"
            + ("; the old interface of Gym has one `done` instead of terminated and truncated" if old else "")
        )
    observation, reward, terminated, truncated, info = returned
    number = _number(reward)
    if not math.isfinite(number):
        raise ReturnedValueError(f"the reward is {number}")
    for name, end in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(end, bool | np.bool_ | int | np.integer):
            raise ReturnedValueError(f"{name} is {_kind(end)}, expected True or False")
    _check_info(info)
    return observation, number, bool(terminated), bool(truncated), info


def _number(reward: Any) -> float:
    if not isinstance(reward, str | bytes):
        with contextlib.suppress(TypeError, ValueError):
            return float(reward)
    raise ReturnedValueError(f"the reward is {_kind(reward)}, expected a number")


def _check_info(info: Any) -> None:
    if not isinstance(info, dict):
        raise ReturnedValueError(f"info is {_kind(info)}, expected a dictionary")


def check_value(space: spaces.Space[Any], value: Any, what: str) -> None:
    """Raises ReturnedValueError, calling the value `what`, if it does not have the form that a space declares.

    Checks keys, shapes, the range of integers, and that numbers are finite. Violations of other bounds and of exact
    types are common, and do no harm.
    """
    match space:
        case spaces.Dict():
            if not isinstance(value, Mapping) or not set(space.spaces) <= set(value):
                keys = ", ".join(map(str, space.spaces))
                raise ReturnedValueError(f"{what} is {_kind(value)}, expected a dictionary with the keys {keys}")
            for name, part in space.spaces.items():
                check_value(part, value[name], f"{what} {name!r}")
        case spaces.Tuple():
            if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
                raise ReturnedValueError(f"{what} is {_kind(value)}, expected a tuple of {len(space.spaces)}")
            for i, part in enumerate(space.spaces):
                check_value(part, value[i], f"{what} {i}")
        case spaces.Discrete():
            _check_integers(value, (), int(space.start), int(space.start + space.n) - 1, what)
        case spaces.MultiDiscrete():
            _check_integers(value, space.shape, space.start, space.start + space.nvec - 1, what)
        case spaces.MultiBinary():
            _check_integers(value, space.shape, 0, 1, what)
        case spaces.Box() if np.issubdtype(space.dtype, np.integer):
            _check_integers(value, space.shape, space.low, space.high, what)
        case spaces.Box():
            check_finite(_array(value, space.shape, what), what)
        case _:
            pass


def check_finite(value: Any, what: str) -> None:
    """Raises ReturnedValueError if an array, or one of a dictionary of them, holds a number that is not finite."""
    if isinstance(value, dict):
        for name, part in value.items():
            check_finite(part, f"{what} {name!r}")
    elif np.issubdtype(np.asarray(value).dtype, np.floating) and not np.isfinite(value).all():
        array = np.asarray(value)
        at = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        raise ReturnedValueError(f"{what} is {array[at]}{_place(at)}")


def _array(value: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """The value as an array of numbers of this shape; a single number may have any shape of one entry."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise ReturnedValueError(f"{what} is {_kind(value)}, whose parts have different lengths") from None
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ReturnedValueError(f"{what} is {_kind(value)}, expected numbers")
    if array.shape != shape and not array.size == math.prod(shape) == 1:
        raise ReturnedValueError(f"{what} has shape {array.shape}, expected {shape}")
    return array


def _check_integers(value: Any, shape: tuple[int, ...], low: Any, high: Any, what: str) -> None:
    array = _array(value, shape, what)
    if np.issubdtype(array.dtype, np.floating) and not (array == np.floor(array)).all():
        raise ReturnedValueError(f"{what} is {_kind(value)}, expected integers")
    array = array.reshape(shape)
    outside = (array < low) | (array > high)
    if outside.any():
        at = tuple(np.argwhere(outside)[0].tolist())
        least, most = (np.broadcast_to(end, shape)[at] for end in (low, high))
        raise ReturnedValueError(f"{what} is {array[at]}{_place(at)}, outside {least}..{most}")


def _place(at: Sequence[int]) -> str:
    """Where in an array; nothing for a single number."""
    return f" at {', '.join(map(str, at))}" if at else ""


def _kind(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, Mapping):
        return f"a dictionary with the keys {', '.join(map(str, value)) or 'none'}"
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
