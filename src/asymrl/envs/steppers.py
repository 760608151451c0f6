"""Several Gymnasium environments stepped together, one after the other, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asymrl.envs.checked_environment import CheckedEnvironment, Interface
from asymrl.envs.gymnasium_spaces import entry
from asymrl.worlds.spaces import Record, Space
from asymrl.worlds.stepped_world import UserCodeError

StepResult = tuple[Any, Any, np.ndarray, np.ndarray, np.ndarray]


class SerialStepper:
    """Steps environments one after the other, in this process, except those whose episode has ended."""

    def __init__(self, interface: Interface, count: int):
        self.envs: list[CheckedEnvironment] = []
        self.rows = RowBuffers(interface, count)
        for i in range(count):
            try:
                self.envs.append(CheckedEnvironment(interface))
            except UserCodeError as mistake:
                self.close()
                raise of_environment(mistake, i, count) from None

    def reset(self, seeds: Sequence[int], which: np.ndarray | None = None) -> tuple[Any, Any]:
        observations, states = self.rows.empty()
        for i in chosen(which, len(self.envs)):
            try:
                values = self.envs[i].reset(seeds[i])
            except UserCodeError as mistake:
                raise of_environment(mistake, i, len(self.envs)) from None
            write_row((observations, states), i, values)
        return observations, states

    def step(self, actions: Any, alive: np.ndarray) -> StepResult:
        observations, states = self.rows.empty()
        rewards, ends = np.zeros(len(self.envs), np.float32), np.zeros((2, len(self.envs)), bool)
        for i in chosen(alive, len(self.envs)):
            try:
                *values, rewards[i], ends[0, i], ends[1, i] = self.envs[i].step(entry(actions, i))
            except UserCodeError as mistake:
                raise of_environment(mistake, i, len(self.envs)) from None
            write_row((observations, states), i, values)
        return observations, states, rewards, ends[0], ends[1]

    def close(self) -> None:
        for env in self.envs:
            env.close()


class RowBuffers:
    """Arrays for the observations and latent states of some environments."""

    def __init__(self, interface: Interface, count: int):
        self._spaces = interface.observation.space, interface.latent.encoding.space
        self._count = count

    def empty(self) -> tuple[Any, Any]:
        """Zeros; a row for each environment."""
        observations, latents = (_zeros(space, self._count) for space in self._spaces)
        return observations, latents


def chosen(which: np.ndarray | None, count: int) -> Sequence[int]:
    """The environments of a mask, or all of them."""
    return range(count) if which is None else np.flatnonzero(which).tolist()


def write_row(rows: Any, i: int, value: Any) -> None:
    """Writes a value, whose parts may be in tuples and dictionaries, into row `i`."""
    if isinstance(rows, dict):
        for name, part in rows.items():
            write_row(part, i, value[name])
    elif isinstance(rows, tuple):
        for part, own in zip(rows, value, strict=True):
            write_row(part, i, own)
    else:
        rows[i] = value


def of_environment(mistake: UserCodeError, i: int, count: int) -> UserCodeError:
    """The mistake, and which of `count` environments made it."""
    return UserCodeError(str(mistake), mistake.traceback, i, count)


def _zeros(space: Space, count: int) -> Any:
    if isinstance(space, Record):
        return {name: _zeros(part, count) for name, part in space.items()}
    return np.zeros((count, *space.shape), space.dtype)
