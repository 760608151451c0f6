"""The process of a pool: it asks the process of the scheduler what to train, and reports to it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from asymrl.envs.child_processes import become_child
from asymrl.runs.events import Event
from asymrl.runs.interrupts import end_process, is_busy
from asymrl.runs.lanes import Assignment
from asymrl.runs.placement import Pace
from asymrl.runs.scheduler import Order
from asymrl.runs.serving import reason_of, serve


class ProcessPlacement(NamedTuple):
    """Where the process of a pool trains."""

    device: int
    """Index of the device on this machine."""
    platform: str | None
    """The kind of device it must be. None: any."""
    environment: Mapping[str, str]
    pause: float = 0.0
    """Seconds to wait first."""


class RemoteClient:
    """The client of a pool in another process: every call is a question to the process of the scheduler."""

    def __init__(self, connection: Connection):
        self._connection = connection

    def _ask(self, question: str, *arguments: Any) -> Any:
        self._connection.send((question, arguments))
        return self._connection.recv()

    def pick(self) -> Order | None:
        return self._ask("pick")

    def take(self, count: int) -> list[Assignment]:
        return self._ask("take", count)

    def report(self, event: Event) -> None:
        self._ask("report", event)

    def is_stopped(self) -> bool:
        return self._ask("is_stopped")

    def unwanted(self) -> frozenset[int]:
        return self._ask("unwanted")

    def should_yield(self, seconds_left: float, seconds_per_step: float) -> bool:
        return self._ask("should_yield", seconds_left, seconds_per_step)

    def requeue(self) -> None:
        self._ask("requeue")

    def close(self) -> None:
        self._ask("close")

    def fail(self, reason: str, out_of_memory: bool) -> None:
        self._ask("fail", reason, out_of_memory)


def serve_remotely(connection: Connection, pace: Pace, placement: ProcessPlacement) -> None:
    """The main function of a pool's process."""
    become_child()
    time.sleep(placement.pause)
    os.environ.update(placement.environment)  # before anything touches the device
    import jax

    from asymrl.runs.cache import use_compilation_cache

    use_compilation_cache()
    with contextlib.suppress(BrokenPipeError, EOFError):
        try:
            devices = jax.local_devices()
            if placement.platform not in (None, devices[0].platform):
                # JAX takes what it finds, and a CPU instead of a GPU would train for days.
                raise DeviceLostError(f"there is no {placement.platform} any more, only {devices[0].platform}")
            serve(RemoteClient(connection), devices[placement.device], pace)
        except (BrokenPipeError, EOFError):
            raise
        except Exception as error:
            connection.send(("lost", (reason_of(error),)))
            raise SystemExit(1) from None
    if is_busy():
        end_process(0)


class DeviceLostError(RuntimeError):
    """A process found another kind of device than it expected."""
