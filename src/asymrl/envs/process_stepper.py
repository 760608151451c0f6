"""Several Gymnasium environments stepped at the same time, each in its own process."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from asymrl.envs.checked_environment import (
    CheckedEnvironment,
    Interface,
    Position,
    make_environment,
    mistakes_named,
)
from asymrl.envs.child_processes import become_child, how_it_ended, packed, start_child, unpacked
from asymrl.envs.gymnasium_spaces import entry
from asymrl.envs.steppers import RowBuffers, StepResult, chosen, of_environment, write_row
from asymrl.envs.user_code import user_path
from asymrl.worlds.stepped_world import UserCodeError

PARTING_SECONDS = 2.0  # time environments have to close
STARTING_SECONDS = 60.0  # extra time for new processes to import what they need on a busy machine


class ProcessStepper:
    """Steps environments in their own processes, except those whose episode has ended.

    A process that dies or does not answer in time is a mistake like any other.
    """

    def __init__(self, interface: Interface, count: int, timeout: float | None):
        """`timeout`: seconds that making an environment, `reset` and `step` may take. None: any."""
        self.title, self.timeout, self.rows = interface.title, timeout, RowBuffers(interface, count)
        self.positions = [Position()] * count
        self._children: list[tuple[Any, Connection]] = []
        # Forking a process that uses JAX may hang, so new processes are started from a fork server.
        context = multiprocessing.get_context("forkserver")
        try:
            with user_path():
                make = packed(lambda: CheckedEnvironment(interface))
                for i in range(count):
                    here, there = context.Pipe()
                    arguments = (there, make)
                    process = context.Process(target=serve_environment, args=arguments, daemon=True, name=f"env {i}")
                    start_child(process)
                    there.close()
                    self._children.append((process, here))
            self._answers(range(count), "make")
        except BaseException:
            self.close()
            raise

    def reset(self, seeds: Sequence[int], which: np.ndarray | None = None) -> tuple[Any, Any]:
        numbers = chosen(which, len(self._children))
        for i in numbers:
            self.positions[i] = self.positions[i].reset(seeds[i])
            self._send(i, ("reset", seeds[i]))
        observations, states = self.rows.empty()
        for i, values in zip(numbers, self._answers(numbers, "reset"), strict=True):
            write_row((observations, states), i, values)
        return observations, states

    def step(self, actions: Any, alive: np.ndarray) -> StepResult:
        numbers = chosen(alive, len(self._children))
        for i in numbers:
            self.positions[i] = self.positions[i].stepped()
            self._send(i, ("step", entry(actions, i)))
        observations, states = self.rows.empty()
        rewards, ends = np.zeros(len(alive), np.float32), np.zeros((2, len(alive)), bool)
        for i, answer in zip(numbers, self._answers(numbers, "step"), strict=True):
            *values, rewards[i], ends[0, i], ends[1, i] = answer
            write_row((observations, states), i, values)
        return observations, states, rewards, ends[0], ends[1]

    def close(self) -> None:
        """Lets the environments close; kills those that take too long."""
        for i in range(len(self._children)):
            self._send(i, ("close", None))
        until = time.monotonic() + PARTING_SECONDS
        for process, connection in self._children:
            process.join(max(until - time.monotonic(), 0.0))
            if process.is_alive():
                process.kill()
                process.join()
            connection.close()
        self._children.clear()

    def _send(self, i: int, request: tuple[str, Any]) -> None:
        with contextlib.suppress(OSError):  # it is gone, as waiting for its answer will show
            self._children[i][1].send(request)

    def _answers(self, numbers: Sequence[int], method: str) -> list[Any]:
        """What these environments answered. Raises UserCodeError for the first that failed."""
        patience = _patience(method, self.timeout)
        until = None if patience is None else time.monotonic() + patience
        answers = []
        for i in numbers:
            process, connection = self._children[i]
            try:
                if not connection.poll(None if until is None else max(until - time.monotonic(), 0.0)):
                    raise self._mistake(i, method, f"no answer within {patience:g} seconds; its process was ended")
                answer = connection.recv()
            except (EOFError, OSError):
                raise self._mistake(i, method, f"its process ended ({how_it_ended(process)})") from None
            if isinstance(answer, UserCodeError):
                raise of_environment(answer, i, len(self._children))
            answers.append(answer)
        return answers

    def _mistake(self, i: int, method: str, cause: str) -> UserCodeError:
        self._children[i][0].kill()  # it may be busy forever
        return of_environment(_failed(self.title, self.positions[i], method, cause), i, len(self._children))


def try_environment(title: str, make: Callable[[], Any], timeout: float | None) -> None:
    """Makes and resets an environment in a process of its own, before this process does the same.

    Raises:
        UserCodeError: if it dies, hangs or fails there; here, that would end the whole command.
        ValueError: if it cannot be sent to another process.
    """
    try:
        sent = packed(make)
    except Exception as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"{title} cannot be sent to another process ({cause}); leave out stepping=processes"
        ) from error
    context = multiprocessing.get_context("forkserver")
    here, there = context.Pipe()
    process = context.Process(target=_make_and_reset, args=(there, title, sent), daemon=True, name="env")
    first = Position().reset(0)
    try:
        with user_path():
            start_child(process)
        there.close()
        for method in ("make", "reset"):
            patience = _patience(method, timeout)
            try:
                if not here.poll(patience):
                    raise _failed(title, first, method, f"no answer within {patience:g} seconds; its process was ended")
                answer = here.recv()
            except (EOFError, OSError):
                raise _failed(title, first, method, f"its process ended ({how_it_ended(process)})") from None
            if isinstance(answer, UserCodeError):
                raise answer
    finally:
        if process.pid is not None:
            process.kill()
            process.join()
        here.close()


def _make_and_reset(connection: Connection, title: str, sent: bytes) -> None:
    become_child()
    first = Position().reset(0)
    try:
        env = make_environment(title, lambda: unpacked(sent)())
        connection.send(None)
        with mistakes_named(title, first, "reset"):
            env.reset(seed=first.seed)
        connection.send(None)
    except UserCodeError as mistake:
        connection.send(mistake)


def _patience(method: str, timeout: float | None) -> float | None:
    """Seconds to wait for an answer: longer for a new process, which must import what it needs. None: any."""
    return None if timeout is None else timeout + (STARTING_SECONDS if method == "make" else 0.0)


def _failed(title: str, position: Position, method: str, cause: str) -> UserCodeError:
    """An error about a process that is gone, or was ended."""
    is_made = method != "make"
    return position.mistake(title, method, cause) if is_made else UserCodeError(f"{title} cannot be made: {cause}")


def serve_environment(connection: Connection, make: bytes) -> None:
    """The main function of an environment's process: answers requests until `close`, or until its parent is gone."""
    become_child()
    try:
        env: CheckedEnvironment = unpacked(make)()
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
