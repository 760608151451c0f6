"""Several Gymnasium environments stepped together: in this process one after the other, or each in its own process."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asymrl.envs.child_processes import become_child, how_it_ended, packed, start_child, unpacked
from asymrl.envs.gymnasium_checks import CheckedEnvironment, Interface, Position, make_environment, mistakes_named
from asymrl.envs.gymnasium_spaces import entry
from asymrl.envs.user_code import user_path
from asymrl.worlds.spaces import Record, Space
from asymrl.worlds.stepped_world import UserCodeError

StepResult = tuple[Any, Any, np.ndarray, np.ndarray, np.ndarray]

PARTING_SECONDS = 2.0  # time environments have to close
STARTING_SECONDS = 60.0  # extra time for new processes to import what they need on a busy machine


class _GymnasiumStepper:
    """Steps environments, except those whose episode has ended. Subclasses say how the environments are called."""

    def __init__(self, interface: Interface, count: int):
        self.count = count
        self._spaces = interface.observation.space, interface.latent.encoding.space

    def call(self, numbers: Sequence[int], method: str, arguments: Sequence[Any]) -> list[Any]:
        """What a method of these environments returns. Raises UserCodeError for the first that fails."""
        raise NotImplementedError

    def reset(self, seeds: Sequence[int], which: np.ndarray | None = None) -> tuple[Any, Any]:
        numbers = range(self.count) if which is None else np.flatnonzero(which).tolist()
        rows = self._rows()
        for i, values in zip(numbers, self.call(numbers, "reset", [seeds[i] for i in numbers]), strict=True):
            _write_row(rows, i, values)
        return rows

    def step(self, actions: Any, alive: np.ndarray) -> StepResult:
        numbers, rows = np.flatnonzero(alive).tolist(), self._rows()
        rewards, ends = np.zeros(self.count, np.float32), np.zeros((2, self.count), bool)
        for i, answer in zip(numbers, self.call(numbers, "step", [entry(actions, i) for i in numbers]), strict=True):
            *values, rewards[i], ends[0, i], ends[1, i] = answer
            _write_row(rows, i, values)
        return *rows, rewards, ends[0], ends[1]

    def _rows(self) -> tuple[Any, Any]:
        """Zeros for observations and latent states; a row for each environment."""
        observations, latents = (_zeros(space, self.count) for space in self._spaces)
        return observations, latents

    def of_environment(self, mistake: UserCodeError, i: int) -> UserCodeError:
        """The mistake, and which of the environments made it."""
        return UserCodeError(str(mistake), mistake.traceback, i, self.count)


class SerialStepper(_GymnasiumStepper):
    """Steps environments one after the other, in this process."""

    def __init__(self, interface: Interface, count: int):
        super().__init__(interface, count)
        self.envs: list[CheckedEnvironment] = []
        for i in range(count):
            try:
                self.envs.append(CheckedEnvironment(interface))
            except UserCodeError as mistake:
                self.close()
                raise self.of_environment(mistake, i) from None

    def call(self, numbers: Sequence[int], method: str, arguments: Sequence[Any]) -> list[Any]:
        results = []
        for i, argument in zip(numbers, arguments, strict=True):
            try:
                results.append(getattr(self.envs[i], method)(argument))
            except UserCodeError as mistake:
                raise self.of_environment(mistake, i) from None
        return results

    def close(self) -> None:
        for env in self.envs:
            env.close()


class ProcessStepper(_GymnasiumStepper):
    """Steps environments in their own processes; one that dies or does not answer in time is a mistake, too."""

    def __init__(self, interface: Interface, count: int, timeout: float | None):
        """`timeout`: seconds that making an environment, `reset` and `step` may take. None: any."""
        super().__init__(interface, count)
        self.timeout, self._children = timeout, []
        try:
            make = packed(lambda: CheckedEnvironment(interface))
            for i in range(count):
                self._children.append(_Child(interface.title, make, f"env {i}"))
            self._answers(range(count), "make")
        except BaseException:
            self.close()
            raise

    def call(self, numbers: Sequence[int], method: str, arguments: Sequence[Any]) -> list[Any]:
        for i, argument in zip(numbers, arguments, strict=True):
            self._children[i].send(method, argument)
        return self._answers(numbers, method)

    def _answers(self, numbers: Sequence[int], method: str) -> list[Any]:
        patience, answers = _patience(method, self.timeout), []
        until = time.monotonic() + patience
        for i in numbers:
            try:
                answers.append(self._children[i].answer(method, until, patience))
            except UserCodeError as mistake:
                raise self.of_environment(mistake, i) from None
        return answers

    def close(self) -> None:
        """Lets the environments close; kills those that take too long."""
        for child in self._children:
            child.send("close", None)
        until = time.monotonic() + PARTING_SECONDS
        for child in self._children:
            child.end(max(until - time.monotonic(), 0.0))
        self._children.clear()


class _Child:
    """An environment in a process of its own."""

    def __init__(self, title: str, make: bytes, name: str):
        self.title, self.position = title, Position()
        # Forking a process that uses JAX may hang, so new processes are started from a fork server.
        context = multiprocessing.get_context("forkserver")
        self._connection, there = context.Pipe()
        self._process = context.Process(target=serve_environment, args=(there, make), daemon=True, name=name)
        with user_path():
            start_child(self._process)
        there.close()

    def send(self, method: str, argument: Any) -> None:
        if method != "close":
            self.position = self.position.reset(argument) if method == "reset" else self.position.stepped()
        with contextlib.suppress(OSError):  # it is gone, as waiting for its answer will show
            self._connection.send((method, argument))

    def answer(self, method: str, until: float, patience: float) -> Any:
        """What the method returned. Raises UserCodeError if it failed, or there is no answer."""
        try:
            wait = None if math.isinf(until) else max(until - time.monotonic(), 0.0)
            if not self._connection.poll(wait):
                self._process.kill()  # it may be busy forever
                raise self._mistake(method, f"no answer within {patience:g} seconds; its process was ended")
            answer = self._connection.recv()
        except (EOFError, OSError):
            raise self._mistake(method, f"its process ended ({how_it_ended(self._process)})") from None
        if isinstance(answer, UserCodeError):
            raise answer
        return answer

    def end(self, seconds: float) -> None:
        """Waits for the process to end, and kills it after so many seconds."""
        self._process.join(seconds)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._connection.close()

    def _mistake(self, method: str, cause: str) -> UserCodeError:
        if method == "make":
            return UserCodeError(f"{self.title} cannot be made: {cause}")
        return self.position.mistake(self.title, method, cause)


class _Trial:
    """An environment of which nothing is known yet."""

    def __init__(self, title: str, make: Callable[[], Any]):
        self.title, self.env = title, make_environment(title, make)

    def reset(self, seed: int) -> None:
        with mistakes_named(self.title, Position().reset(seed), "reset"):
            self.env.reset(seed=seed)


def try_environment(title: str, make: Callable[[], Any], timeout: float | None) -> None:
    """Makes and resets an environment in a process of its own, before this process does the same.

    Raises:
        UserCodeError: if it dies, hangs or fails there; here, that would end the whole command.
        ValueError: if it cannot be sent to another process.
    """
    try:
        sent = packed(lambda: _Trial(title, make))
    except Exception as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"{title} cannot be sent to another process ({cause}); leave out stepping=processes"
        ) from error
    child = _Child(title, sent, "env")
    try:
        for method in ("make", "reset"):
            if method == "reset":
                child.send("reset", 0)
            patience = _patience(method, timeout)
            child.answer(method, time.monotonic() + patience, patience)
    finally:
        child.end(0.0)


def serve_environment(connection: Any, make: bytes) -> None:
    """The main function of an environment's process: answers requests until `close`, or until its parent is gone."""
    become_child()
    try:
        env: Any = unpacked(make)()
        connection.send(None)
    except UserCodeError as mistake:
        connection.send(mistake)
        return
    with contextlib.suppress(EOFError, OSError):
        while (request := connection.recv())[0] != "close":
            method, argument = request
            try:
                answer: Any = env.reset(argument) if method == "reset" else env.step(argument)
            except UserCodeError as mistake:
                answer = mistake
            connection.send(answer)
    env.close()


def _patience(method: str, timeout: float | None) -> float:
    """Seconds to wait for an answer: longer for a new process, which must import what it needs."""
    return math.inf if timeout is None else timeout + (STARTING_SECONDS if method == "make" else 0.0)


def _write_row(rows: Any, i: int, value: Any) -> None:
    """Writes a value, whose parts may be in tuples and dictionaries, into row `i`."""
    if isinstance(rows, dict):
        for name, part in rows.items():
            _write_row(part, i, value[name])
    elif isinstance(rows, tuple):
        for part, own in zip(rows, value, strict=True):
            _write_row(part, i, own)
    else:
        rows[i] = value


def _zeros(space: Space, count: int) -> Any:
    if isinstance(space, Record):
        return {name: _zeros(part, count) for name, part in space.items()}
    return np.zeros((count, *space.shape), space.dtype)
