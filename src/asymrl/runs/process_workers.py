"""Workers on this machine, each in a process of its own.

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
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from asymrl.envs.child_processes import become_child, start_child
from asymrl.runs.arrays import DeviceLayout
from asymrl.runs.cache import use_compilation_cache
from asymrl.runs.devices import MemoryBudget
from asymrl.runs.interrupts import end_process, is_busy
from asymrl.runs.placement import Pace
from asymrl.runs.run_queue import RunQueue
from asymrl.runs.threads import Workers
from asymrl.runs.worker import LocalWorker, Report, Request, Seat, WorkerLostError, reason_of

MPS_CONTROL, MPS_PRIORITY = "nvidia-cuda-mps-control", "CUDA_MPS_CLIENT_PRIORITY"
FIRST, SECOND = "0", "1"  # MPS priorities of processes
HEAD_START_SECONDS = 60.0  # for the processes of first priority to choose what they train
RECOVERY_SECONDS = 10.0  # before a lost device is tried again; MPS needs a moment when all its clients have failed
PARTING_SECONDS = 30.0  # for a process to end; one that waits for a broken device may take forever
READY = "ready"


class ProcessPlacement(NamedTuple):
    """Where a process trains."""

    device: int
    """Index of the device on this machine."""
    platform: str | None
    """The kind of device it must be. None: any."""
    environment: Mapping[str, str]
    pause: float = 0.0
    """Seconds to wait first."""


class ProcessWorker:
    """A worker in a process of its own, which is started again when it is lost."""

    def __init__(self, name: str, pace: Pace, placement: ProcessPlacement, after: Sequence[ProcessWorker] = ()):
        """`after`: the workers that choose what they train before this one."""
        on_cpu = placement.platform in (None, "cpu")
        # Each process is a place of its own: several of them may serve one shape.
        self.seat = Seat(name, name, None if on_cpu else placement.device)
        self.has_chosen = threading.Event()
        self._pace, self._placement, self._after = pace, placement, after
        self._process: Any = None
        self._connection: Connection | None = None
        self._is_ended = False

    def start(self) -> None:
        """Waits until the process has found its device, and others with priority have chosen what they train."""
        # A fork would share the threads and the device of this process.
        context = multiprocessing.get_context("spawn")
        self._connection, there = context.Pipe()
        self._process = context.Process(target=serve_requests, args=(there, self._pace, self._placement), daemon=True)
        start_child(self._process)
        there.close()
        if self._is_ended:
            self._process.kill()
        self._placement = self._placement._replace(pause=0.0)
        self._receive()
        end = time.monotonic() + HEAD_START_SECONDS
        for worker in self._after:
            while not (worker.has_chosen.wait(0.1) or self._is_ended or time.monotonic() > end):
                pass
        self._after = ()

    def call(self, request: Request) -> Report:
        """Answers a request in the process."""
        assert self._connection is not None
        self.has_chosen.set()
        with contextlib.suppress(OSError):  # what has ended is noticed in a moment
            self._connection.send(request)
        return self._receive()

    def _receive(self) -> Any:
        """What the process answers. Raises WorkerLostError with the reason that it gave, or its exit code."""
        assert self._connection is not None
        try:
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(PARTING_SECONDS)
            raise WorkerLostError(f"exit code {self._process.exitcode}") from None
        if isinstance(answer, str) and answer != READY:
            self._process.kill()  # after its device failed, a process may take forever to exit
            self._placement = self._placement._replace(pause=RECOVERY_SECONDS)
            raise WorkerLostError(answer)
        return answer

    def close(self) -> None:
        """Lets the process end; one that is lost or busy is killed."""
        process, connection = self._process, self._connection
        if connection is not None:
            connection.close()
        if process is not None:
            process.join(PARTING_SECONDS)
            if process.exitcode is None:
                process.kill()
                process.join(PARTING_SECONDS)

    def kill(self) -> None:
        """Ends the process at once and for good, from any thread."""
        self._is_ended = True
        if self._process is not None and self._process.is_alive():
            self._process.kill()


class ProcessWorkers(Workers):
    """Each worker in a process of its own."""

    def __init__(
        self,
        processes: int,
        *,
        pace: Pace,
        devices: int = 1,
        platform: str | None = None,
        memory: int | None = None,
        layout: DeviceLayout | None = None,
    ):
        """`processes`: at a time, on all `devices` together; `platform`: their kind; `memory`: bytes of each."""
        kind = platform or "cpu"
        super().__init__((), kind, places=processes, memory=MemoryBudget(kind, memory), layout=layout)
        self._processes, self._pace, self._devices, self._platform = processes, pace, devices, platform
        self._exit = contextlib.ExitStack()

    def start(self, queue: RunQueue) -> None:
        """Starts MPS, if there is, and the processes."""
        environment = self._exit.enter_context(shared_device())
        workers: list[ProcessWorker] = []
        first: list[ProcessWorker] = []
        for i in range(self._processes):
            placement = ProcessPlacement(i % self._devices, self._platform, self.environment_of(environment, i))
            is_second = placement.environment.get(MPS_PRIORITY) == SECOND
            worker = ProcessWorker(f"process {i}", self._pace, placement, tuple(first) if is_second else ())
            workers.append(worker)
            if not is_second:
                first.append(worker)
        self.workers = workers
        super().start(queue)

    def environment_of(self, environment: Mapping[str, str], i: int) -> dict[str, str]:
        """Gives one process in six priority: otherwise, small updates would wait behind large ones.

        Those with priority choose first and get what takes longest. A priority that the user has set holds for all.
        """
        if MPS_PRIORITY in os.environ:
            return dict(environment)
        return {**environment, MPS_PRIORITY: FIRST if i < max(1, self._processes // 6) else SECOND}

    def end(self) -> None:
        for worker in self.workers:
            assert isinstance(worker, ProcessWorker)
            worker.kill()
        for thread in self._threads:
            thread.join()
        self._exit.close()


def process_workers(pace: Pace, processes: int) -> ProcessWorkers:
    """Workers in so many processes, on the devices of this machine."""
    import jax

    from asymrl.runs.devices import layout_of, memory_of

    devices = list(jax.local_devices())
    return ProcessWorkers(
        processes,
        pace=pace,
        devices=len(devices),
        platform=devices[0].platform,
        memory=memory_of(devices[0]),
        layout=layout_of(devices),
    )


def serve_requests(connection: Connection, pace: Pace, placement: ProcessPlacement) -> None:
    """The main function of a worker's process: it answers requests until nobody asks any more."""
    become_child()
    time.sleep(placement.pause)
    os.environ.update(placement.environment)  # before anything touches the device
    import jax

    use_compilation_cache()
    with contextlib.suppress(BrokenPipeError, EOFError):
        try:
            devices = jax.local_devices()
            if placement.platform not in (None, devices[0].platform):
                # JAX takes what it finds, and a CPU instead of a GPU would train for days.
                raise DeviceLostError(f"there is no {placement.platform} any more, only {devices[0].platform}")
            worker = LocalWorker(devices[placement.device], pace)
            connection.send(READY)
            while True:
                connection.send(worker.call(connection.recv()))
        except (BrokenPipeError, EOFError):
            raise
        except WorkerLostError as error:
            _say_lost(connection, str(error))
        except Exception as error:
            _say_lost(connection, reason_of(error))
    if is_busy():
        end_process(0)


def _say_lost(connection: Connection, reason: str) -> None:
    connection.send(reason)
    raise SystemExit(1) from None


class DeviceLostError(RuntimeError):
    """A process found another kind of device than it expected."""


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
