"""Pools on this machine, each in a process of its own.

Several of them may share an accelerator: NVIDIA's multi-process service (MPS) lets their programs run side by side.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from asymrl.adapters.child_processes import become_child, start_child
from asymrl.engine.events import Event
from asymrl.engine.interrupts import end_process, is_busy
from asymrl.engine.lanes import Assignment
from asymrl.engine.memory_plan import MemoryPlan
from asymrl.engine.placement import Pace
from asymrl.engine.scheduler import MOST_LOSSES, Order, Scheduler
from asymrl.engine.workers.serving import LocalClient, reason_of, serve
from asymrl.stores.checkpoints.saved_runs import DeviceLayout

MPS_CONTROL, MPS_PRIORITY = "nvidia-cuda-mps-control", "CUDA_MPS_CLIENT_PRIORITY"
FIRST, SECOND = "0", "1"  # MPS priorities of processes
HEAD_START_SECONDS = 60.0  # for the processes of first priority to choose what they train
RECOVERY_SECONDS = 10.0  # before a lost device is tried again; MPS needs a moment when all its clients have failed


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

    from asymrl.engine.cache import use_compilation_cache

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


class ProcessWorkers:
    """Each pool in a process of its own."""

    def __init__(
        self,
        processes: int,
        *,
        pace: Pace,
        devices: int = 1,
        platform: str | None = None,
        memory: int | None = None,
    ):
        """`processes`: at a time, on all `devices` together; `platform`: their kind; `memory`: bytes of each."""
        if processes < 1:
            raise ValueError(f"{processes} processes: at least one is needed")
        self.processes, self.pace, self.devices = processes, pace, devices
        self.platform, self.places = platform or "cpu", processes
        is_cpu = self.platform == "cpu"
        self.plan = MemoryPlan(
            self.platform,
            memory,
            is_shared=is_cpu,
            pools=processes if is_cpu else -(-processes // devices),
            device_of=lambda place: place[1] % devices,
        )
        self.layout: DeviceLayout | None = None
        self._platform = platform
        self._supervisors: list[_Supervisor] = []
        self._exit = contextlib.ExitStack()

    def start(self, scheduler: Scheduler) -> None:
        environment = self._exit.enter_context(shared_device())
        before: list[threading.Event] = []
        for i in range(self.processes):
            device = i % self.devices
            placement = ProcessPlacement(device, self._platform, self._environment(environment, i))
            # Each process is a place of its own: several of them may serve one shape.
            client = LocalClient(scheduler, f"process {i}", ("process", i))
            is_second = placement.environment.get(MPS_PRIORITY) == SECOND
            supervisor = _Supervisor(client, self.pace, placement, tuple(before) if is_second else ())
            if not is_second:
                before.append(supervisor.has_chosen)
            self._supervisors.append(supervisor)
        for supervisor in self._supervisors:
            supervisor.start()

    def _environment(self, environment: Mapping[str, str], i: int) -> dict[str, str]:
        """Gives one process in six priority: otherwise, small updates would wait behind large ones.

        They choose first and get what takes longest. A priority that the user has set holds for all.
        """
        if MPS_PRIORITY in os.environ:
            return dict(environment)
        return {**environment, MPS_PRIORITY: FIRST if i < max(1, self.processes // 6) else SECOND}

    def is_alive(self) -> bool:
        return any(supervisor.is_alive() for supervisor in self._supervisors)

    def end(self) -> None:
        for supervisor in self._supervisors:
            supervisor.kill()
        self._exit.close()


class _Supervisor(threading.Thread):
    """Keeps the process of one pool alive, and answers its questions."""

    def __init__(
        self, client: LocalClient, pace: Pace, placement: ProcessPlacement, before: tuple[threading.Event, ...] = ()
    ):
        """`before`: set once those have chosen what they train who may choose before this one."""
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
        while True:
            try:
                question, arguments = connection.recv()
                if question == "lost":
                    self._process.kill()  # after its device failed, a process may take forever to exit
                    return arguments[0]
                if question == "pick":
                    self._let_others_choose()
                connection.send(getattr(self.client, question)(*arguments))
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


@contextlib.contextmanager
def shared_device() -> Iterator[dict[str, str]]:
    """While entered, processes with the returned environment variables can share an accelerator.

    Starts MPS for that time, unless it is not installed or already running; without it, processes take turns.
    """
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # no process takes all of the memory
    control = shutil.which(MPS_CONTROL)
    if control is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield environment
        return
    with tempfile.TemporaryDirectory(prefix="asymrl-mps-", ignore_cleanup_errors=True) as folder:
        mps = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        is_started = _control(control, ["-d"], mps)
        try:
            yield {**environment, **(mps if is_started else {})}
        finally:
            if is_started:
                _control(control, [], mps, command="quit\n")


def _control(control: str, arguments: list[str], environment: Mapping[str, str], command: str | None = None) -> bool:
    """Calls the MPS control program. Returns whether it succeeded."""
    try:
        result = subprocess.run(
            [control, *arguments],
            input=command,
            env={**os.environ, **environment},
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0
