"""The engine of many processes on one machine, each with one batch.

A batch of twenty runs does not fill a large accelerator, and one process executes one program at a time. NVIDIA's
multi-process service (MPS) lets the programs of several processes run side by side.
"""

from __future__ import annotations

import collections
import contextlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from asymrl.runs.signals import SIGNALS
from asymrl.sweeps.engine import (
    Advanced,
    Event,
    Finished,
    Kept,
    Pace,
    after_loss,
    after_trouble,
    is_device_lost,
    is_out_of_memory,
    reason_of,
)
from asymrl.sweeps.training import Task

LOOK_SECONDS = 0.2
PARTING_SECONDS = 120.0  # that processes have to hand over their state when a sweep is stopped
URGENT_SHARE = 6  # one process in so many goes first where MPS shares the device
MPS_CONTROL = "nvidia-cuda-mps-control"
RECOVERY_SECONDS = 10.0  # before a lost device is tried again; MPS needs a moment when all its clients have failed


class Trouble(NamedTuple):
    """Why a process could not train its batch."""

    reason: str
    out_of_memory: bool = False
    device_lost: bool = False


class Place(NamedTuple):
    """Where a process is to train."""

    device: int
    """Which of the devices of the machine."""
    platform: str | None
    """What kind of device that has to be. None: any."""
    environment: Mapping[str, str]
    pause: float = 0.0
    """Seconds to wait first."""


def train_batch(driver: Connection, task: Task, pace: Pace, place: Place) -> None:
    """What a process does: it trains its batch, and tells the driver, until that says stop or is gone."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # a terminal or a queue sends them to all; the driver decides
    time.sleep(place.pause)
    os.environ.update(place.environment)  # before anything touches the device
    import jax

    from asymrl.runs.cache import use_compilation_cache
    from asymrl.sweeps.compiled import Compiled
    from asymrl.sweeps.follow import follow
    from asymrl.sweeps.training import BatchTraining

    use_compilation_cache()
    with contextlib.suppress(BrokenPipeError):
        try:
            devices = jax.local_devices()
            if place.platform not in (None, devices[0].platform):
                # JAX takes what it finds, and a CPU instead of a GPU would train for days.
                reason = f"there is no {place.platform} any more, only {devices[0].platform}"
                driver.send(Trouble(reason, device_lost=True))
                return
            compiled = Compiled(task.batch.first.shape(), task.width, devices[place.device])
            training = BatchTraining(task, compiled, pace.refresh_seconds)
            for event in follow(training, pace, driver.poll):
                # The driver has the task; its state is large.
                driver.send(event if isinstance(event, Kept) else event._replace(task=None))
        except BrokenPipeError:
            raise
        except Exception as error:  # whatever is wrong with this batch, the others go on
            driver.send(Trouble(reason_of(error), is_out_of_memory(error), is_device_lost(error)))


class _Waiting(NamedTuple):
    """A batch that waits for a process."""

    task: Task
    losses: int = 0
    pause: float = 0.0


@dataclass
class _Child:
    """A process with a batch."""

    task: Task
    device: int
    losses: int
    process: Any
    why_lost: str | None = None
    """What the process had to say about it."""
    trained: bool = False
    """Whether there is something to lose."""
    closed: bool = False
    """Whether the batch is finished or has failed; if a process ends otherwise, it was lost."""


class ProcessEngine:
    """Trains every batch in a process of its own, several at a time."""

    def __init__(
        self,
        processes: int,
        *,
        pace: Pace = Pace(),  # noqa: B008  it is frozen
        devices: int = 1,
        platform: str | None = None,
        urgent: Callable[[Task], bool] | None = None,
    ):
        """`processes`: at a time, on all `devices` together; `platform`: what kind these are.

        `urgent`: which batches are served first where processes share a device; None: those that start first.
        """
        if processes < 1:
            raise ValueError(f"{processes} processes: at least one is needed")
        self.processes, self.pace, self.devices, self.platform = processes, pace, devices, platform
        self.urgent = urgent

    def run(self, tasks: Sequence[Task], report: Callable[[Event], None], stop: Callable[[], bool]) -> None:
        with shared_device() as environment:
            floor = _Floor(self, environment, report)
            floor.waiting.extend(_Waiting(task) for task in tasks)
            try:
                while (floor.waiting or floor.children) and not stop():
                    floor.start()
                    floor.listen()
                floor.part()
            finally:
                floor.end()


class _Floor:
    """The processes of a sweep, and the batches that wait for one."""

    def __init__(self, engine: ProcessEngine, environment: Mapping[str, str], report: Callable[[Event], None]):
        self.engine, self.environment, self.report = engine, environment, report
        self.waiting: collections.deque[_Waiting] = collections.deque()
        self.children: dict[Connection, _Child] = {}
        self._started, self._parting = 0, False
        # A fork would share the threads and the device of the driver.
        self._context = multiprocessing.get_context("spawn")

    def start(self) -> None:
        """Gives waiting batches to new processes, as many as there is room for."""
        while self.waiting and len(self.children) < self.engine.processes:
            task, losses, pause = self.waiting.popleft()
            used = collections.Counter(child.device for child in self.children.values())
            device = min(range(self.engine.devices), key=lambda i: used[i])
            here, there = self._context.Pipe()
            place = Place(device, self.engine.platform, self._environment(task), pause)
            arguments = (there, task, self.engine.pace, place)
            process = self._context.Process(target=train_batch, args=arguments, daemon=True)
            process.start()
            there.close()
            self._started += 1
            self.children[here] = _Child(task, device, losses, process)

    def _environment(self, task: Task) -> dict[str, str]:
        """The longest batches come first; unless told otherwise, those that start first are served first, so that
        nobody waits for them.
        """
        if self.engine.urgent is None:
            urgent = self._started < max(1, self.engine.processes // URGENT_SHARE)
        else:
            urgent = self.engine.urgent(task)
        return {**self.environment, "CUDA_MPS_CLIENT_PRIORITY": "0" if urgent else "1"}

    def listen(self) -> None:
        """Passes on what the processes have to tell."""
        for connection in wait(list(self.children), timeout=LOOK_SECONDS):
            assert isinstance(connection, Connection)
            child = self.children[connection]
            try:
                message = connection.recv()
            except (EOFError, OSError):
                self._gone(connection)
            else:
                self._told(child, message)

    def _told(self, child: _Child, message: Any) -> None:
        match message:
            case Kept(saved):
                child.task = replace(child.task, saved=saved)
                self.report(message)
            case Advanced():
                child.trained = True
                self.report(message._replace(task=child.task))
            case Finished():
                child.closed = True
                self.report(message._replace(task=child.task))
            case Trouble(reason, _, device_lost=True):
                child.why_lost = reason
                child.process.kill()  # with a device that failed, the end of a process can take forever
            case Trouble(reason, out_of_memory):
                child.closed = True
                instead = after_trouble(child.task, reason, out_of_memory, self.report)
                self.waiting.extendleft(_Waiting(task, child.losses) for task in reversed(instead))

    def _gone(self, connection: Connection) -> None:
        """A process has ended. If its batch is not complete, another one goes on with what was kept of it."""
        child = self.children.pop(connection)
        connection.close()
        child.process.join()
        if child.closed or self._parting:
            return
        losses, last = child.losses + 1, child.why_lost or f"exit code {child.process.exitcode}"
        failure = f"lost with its process {losses} times, the last time: {last}"
        if after_loss(child.task, losses, "process", failure, self.report):
            pause = RECOVERY_SECONDS if child.why_lost else 0.0
            self.waiting.appendleft(_Waiting(child.task, losses, pause))

    def part(self) -> None:
        """Asks all processes to stop, and waits for the state that they hand over."""
        self._parting = True
        for connection, child in self.children.items():
            if not child.trained:
                child.process.kill()
                continue
            with contextlib.suppress(OSError):
                connection.send("stop")
        until = time.monotonic() + PARTING_SECONDS
        while self.children and time.monotonic() < until:
            self.listen()

    def end(self) -> None:
        for connection, child in self.children.items():
            child.process.kill()
            child.process.join()
            connection.close()


@contextlib.contextmanager
def shared_device() -> Iterator[dict[str, str]]:
    """The environment in which processes share an accelerator, for as long as they do.

    Starts MPS for the occasion, unless there is none or one is running already; without it, processes take turns.
    """
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # nobody takes all of the memory
    control = shutil.which(MPS_CONTROL)
    if control is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield environment
        return
    with tempfile.TemporaryDirectory(prefix="asymrl-mps-", ignore_cleanup_errors=True) as folder:
        mps = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        started = _control(control, ["-d"], mps)
        try:
            yield {**environment, **(mps if started else {})}
        finally:
            if started:
                _control(control, [], mps, say="quit\n")


def _control(control: str, arguments: list[str], environment: Mapping[str, str], say: str | None = None) -> bool:
    """Whether MPS did what it was told."""
    try:
        done = subprocess.run(
            [control, *arguments],
            input=say,
            env={**os.environ, **environment},
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
