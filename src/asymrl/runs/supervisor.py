"""A supervisor keeps the process of one pool alive, and answers its questions."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from asymrl.envs.child_processes import start_child
from asymrl.runs.placement import Pace
from asymrl.runs.pool_process import ProcessPlacement, serve_remotely
from asymrl.runs.scheduler import MOST_LOSSES
from asymrl.runs.serving import LocalClient, reason_of

HEAD_START_SECONDS = 60.0  # for the processes of first priority to choose what they train
RECOVERY_SECONDS = 10.0  # before a lost device is tried again; MPS needs a moment when all its clients have failed
PARTING_SECONDS = 30.0  # for a process to end; one that waits for a broken device may take forever


class Supervisor(threading.Thread):
    """Starts the process of one pool, again if it is lost, until nothing is left to train."""

    def __init__(
        self, client: LocalClient, pace: Pace, placement: ProcessPlacement, before: Sequence[threading.Event] = ()
    ):
        """`before`: the events of those that choose what they train before this one."""
        super().__init__(daemon=True, name=client.pool)
        self.client, self.pace, self.placement, self._before = client, pace, placement, before
        self.has_chosen = threading.Event()
        self._process: Any = None
        self._is_killed = False

    def run(self) -> None:
        # A fork would share the threads and the device of this process.
        context, placement = multiprocessing.get_context("spawn"), self.placement
        idle_losses = 0  # processes that were lost before they had anything to do
        while not self._is_killed and idle_losses <= MOST_LOSSES:
            here, there = context.Pipe()
            process = context.Process(target=serve_remotely, args=(there, self.pace, placement), daemon=True)
            start_child(process)
            self._process = process
            if self._is_killed:
                process.kill()
            there.close()
            reason = self._answer(here)
            here.close()
            process.join(PARTING_SECONDS)
            if process.exitcode is None:
                process.kill()
                process.join(PARTING_SECONDS)
            if process.exitcode == 0 and reason is None:
                return
            why = reason or f"exit code {process.exitcode}"
            was_busy = self.client.scheduler.lose(self.client.pool, why)
            idle_losses = 0 if was_busy else idle_losses + 1
            if self.client.is_stopped():
                return
            placement = self.placement._replace(pause=RECOVERY_SECONDS if reason is not None else 0.0)

    def _answer(self, connection: Connection) -> str | None:
        """Answers the questions of the process until it ends. Returns why its device was lost, if it was."""
        while True:
            try:
                question, arguments = connection.recv()
                if question == "lost":
                    self._process.kill()  # after its device failed, a process may take forever to exit
                    return arguments[0]
                if question == "pick":
                    self._let_others_choose()
                answer = getattr(self.client, question)(*arguments)
                connection.send(answer)
                self.has_chosen.set()
            except (EOFError, OSError):
                return None
            except Exception as error:  # nobody else would learn what happened to its runs
                self._process.kill()
                return reason_of(error)

    def _let_others_choose(self) -> None:
        end = time.monotonic() + HEAD_START_SECONDS
        for has_chosen in self._before:
            while not (has_chosen.wait(0.1) or self._is_killed or time.monotonic() > end):
                pass
        self._before = ()

    def kill(self) -> None:
        self._is_killed = True
        if self._process is not None and self.is_alive():
            self._process.kill()
        self.join()
