"""Pools on this machine, in threads of this process.

On a CPU every core is a place for a pool, and all of them share one compiled program. On an accelerator, a pool of few
lanes leaves the device idle most of the time, so several share it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

from asymrl.runs.interrupts import POOL_THREAD
from asymrl.runs.memory_plan import MemoryPlan, memory_of
from asymrl.runs.placement import Pace
from asymrl.runs.process_workers import ProcessWorkers
from asymrl.runs.saved_runs import DeviceLayout
from asymrl.runs.scheduler import Scheduler
from asymrl.runs.serving import LocalClient, reason_of, serve

ENDING_SECONDS = 0.5  # time threads have to end; those still compiling no longer matter


class Workers(Protocol):
    """Take runs from the scheduler and train them until there are none."""

    @property
    def platform(self) -> str:
        """What kind of device they train on."""
        ...

    @property
    def places(self) -> int:
        """Pools that share the runs of one shape."""
        ...

    @property
    def plan(self) -> MemoryPlan | None:
        """How much memory their pools have, where that is known."""
        ...

    @property
    def layout(self) -> DeviceLayout | None:
        """On which devices they train, where that is known."""
        ...

    def start(self, scheduler: Scheduler) -> None: ...

    def is_alive(self) -> bool: ...

    def end(self) -> None:
        """Releases everything. Called once no pool holds runs, or after an error."""
        ...


class ThreadWorkers:
    """Pools in threads of this process: one per core of a CPU, several per accelerator."""

    def __init__(self, seats: list[tuple[str, Any]], pace: Pace, pools_per_shape: int = 1):
        """`seats`: a name and a device for each pool."""
        self._seats, self.pace, self.places = seats, pace, pools_per_shape
        device = seats[0][1]
        self.platform, self.layout = device.platform, layout_of([device for _, device in seats])
        is_cpu, there = device.platform == "cpu", memory_of(device)
        self.plan = MemoryPlan(device.platform, there, is_shared=is_cpu, pools=len(seats) if is_cpu else 1)
        self._threads: list[threading.Thread] = []

    def start(self, scheduler: Scheduler) -> None:
        for name, device in self._seats:
            client = LocalClient(scheduler, name, device.id)
            who = {"daemon": True, "name": f"{POOL_THREAD}{name}"}
            self._threads.append(threading.Thread(target=self._serve, args=(client, device), **who))
        for thread in self._threads:
            thread.start()

    def _serve(self, client: LocalClient, device: Any) -> None:
        try:
            serve(client, device, self.pace)
        except Exception as error:  # the device is gone; other devices may go on with the runs
            client.scheduler.lose(client.pool, reason_of(error))

    def is_alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def end(self) -> None:
        until = time.monotonic() + ENDING_SECONDS
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.0))


def local_workers(pace: Pace, *, workers: int | None, processes: int | None) -> Workers:
    """Workers for the devices of this machine.

    Args:
        pace: of their pools.
        workers: pools per device; by default one per core of a CPU, or 5 on an accelerator.
        processes: run pools in this many processes of their own. None: in threads of this one.
    """
    import jax

    devices = list(jax.local_devices())
    platform = devices[0].platform
    if processes is not None:
        memory = memory_of(devices[0])
        apart = ProcessWorkers(processes, pace=pace, devices=len(devices), platform=platform, memory=memory)
        apart.layout = layout_of(devices)
        return apart
    if platform == "cpu":
        seats = [(f"core {i}", devices[i % len(devices)]) for i in range(workers or cores())]
    else:
        seats = [(f"{platform} {device.id}.{i}", device) for i in range(workers or 5) for device in devices]
    return ThreadWorkers(seats, pace, pools_per_shape=1 if platform == "cpu" else len(devices))


def layout_of(devices: Sequence[Any]) -> DeviceLayout:
    """The layout of these devices, each counted once, and of the cores of this process."""
    first = devices[0]
    return DeviceLayout(first.platform, first.device_kind, len({device.id for device in devices}), cores())


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
