"""A supervisor keeps the process of one pool alive, and answers its questions."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from asymrl.adapters.child_processes import start_child
from asymrl.engine.placement import SILENCE_SECONDS, Pace, may_hang
from asymrl.engine.scheduler import MOST_LOSSES, Order
from asymrl.engine.workers.pool_process import ProcessPlacement, serve_remotely
from asymrl.engine.workers.serving import LocalClient, reason_of
from asymrl.learning.programs.program import ONE_AFTER_ANOTHER

HEAD_START_SECONDS = 60.0  # for the processes of first priority to choose what they train
RECOVERY_SECONDS = 10.0  # before a lost device is tried again; MPS needs a moment when all its clients have failed


class Supervisor(threading.Thread):
    """Starts the process of one pool, again if it is lost, until nothing is left to train.

    A process whose kernels run concurrently and that falls silent while it trains is killed: the next one runs its
    kernels one after the other. Training has stopped like that on a GPU, for reasons unknown, in trials of programs.
    """

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
            self._process.join()
            if self._process.exitcode == 0 and reason is None:
                return
            lost_device = reason is not None
            was_busy = self.client.scheduler.lose(self.client.pool, reason or f"exit code {self._process.exitcode}")
            idle_losses = 0 if was_busy else idle_losses + 1
            if self.client.is_stopped():
                return
            placement = self.placement._replace(pause=RECOVERY_SECONDS if lost_device else 0.0)

    def _answer(self, connection: Connection) -> str | None:
        """Answers the questions of the process until it ends. Returns why its device was lost, if it was."""
        order: Order | None = None
        patience: float | None = None  # while it compiles, it may take its time
        while True:
            try:
                if not connection.poll(patience):
                    self._process.kill()
                    self._run_kernels_one_after_another()
                    return f"no word for {SILENCE_SECONDS:.0f} s; from now on it runs its kernels one after the other"
                question, arguments = connection.recv()
                if question == "lost":
                    self._process.kill()  # after its device failed, a process may take forever to exit
                    return arguments[0]
                if question == "pick":
                    self._let_others_choose()
                answer = getattr(self.client, question)(*arguments)
                if question == "pick":
                    order, patience = answer, None
                elif question == "take" and order is not None and may_hang(self._platform, order.shape, self._flags):
                    patience = SILENCE_SECONDS
                connection.send(answer)
                self.has_chosen.set()
            except (EOFError, OSError):
                return None
            except Exception as error:  # nobody else would learn what happened to its runs
                self._process.kill()
                return reason_of(error)

    @property
    def _platform(self) -> str:
        return self.placement.platform or "cpu"

    @property
    def _flags(self) -> str:
        """What XLA_FLAGS says in the process."""
        return self.placement.environment.get("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))

    def _run_kernels_one_after_another(self) -> None:
        environment = {**self.placement.environment, "XLA_FLAGS": f"{self._flags} {ONE_AFTER_ANOTHER}".strip()}
        self.placement = self.placement._replace(environment=environment)

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
