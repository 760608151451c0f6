"""Pools on this machine, each in a process of its own.

Several of them may share an accelerator: NVIDIA's multi-process service (MPS) lets their programs run side by side.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping

from asymrl.runs.memory_plan import MemoryPlan
from asymrl.runs.placement import Pace
from asymrl.runs.pool_process import ProcessPlacement
from asymrl.runs.saved_runs import DeviceLayout
from asymrl.runs.scheduler import Scheduler
from asymrl.runs.serving import LocalClient
from asymrl.runs.supervisor import Supervisor

MPS_CONTROL, MPS_PRIORITY = "nvidia-cuda-mps-control", "CUDA_MPS_CLIENT_PRIORITY"
FIRST, SECOND = "0", "1"  # MPS priorities of processes


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
        self._supervisors: list[Supervisor] = []
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
            supervisor = Supervisor(client, self.pace, placement, tuple(before) if is_second else ())
            if not is_second:
                before.append(supervisor.has_chosen)
            self._supervisors.append(supervisor)
        for supervisor in self._supervisors:
            supervisor.start()

    def _environment(self, environment: Mapping[str, str], i: int) -> dict[str, str]:
        """Gives one process in six priority: otherwise, small updates would wait behind large ones.

        Those with priority choose first and get what takes longest. A priority that the user has set holds for all.
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
