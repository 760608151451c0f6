"""The threads of a training: each serves a worker, in this process or elsewhere, from the queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from asymrl.runs.arrays import DeviceLayout
from asymrl.runs.devices import MemoryBudget, cores, layout_of
from asymrl.runs.interrupts import POOL_THREAD
from asymrl.runs.placement import Pace
from asymrl.runs.run_queue import RunQueue
from asymrl.runs.worker import LocalWorker, Worker, WorkerLostError, reason_of

MOST_IDLE_LOSSES = 5  # times that a worker may be lost before it has anything to do


class Workers:
    """All workers of a training, each called by a thread of its own. These are in threads of this process."""

    ending_seconds = 0.5
    """That the threads have to end; those still compiling no longer matter."""

    def __init__(
        self,
        workers: Sequence[Worker],
        platform: str,
        *,
        places: int = 1,
        memory: MemoryBudget | None = None,
        layout: DeviceLayout | None = None,
    ):
        """`platform`: of their devices; `places`: pools that share the runs of one shape."""
        self.workers, self.platform, self.places = workers, platform, places
        self.memory, self.layout = memory, layout
        self._threads: list[threading.Thread] = []

    def start(self, queue: RunQueue) -> None:
        """Has all of them train the runs of the queue."""
        for worker in self.workers:
            name = f"{POOL_THREAD}{worker.seat.name}"
            self._threads.append(threading.Thread(target=serve, args=(worker, queue), daemon=True, name=name))
        for thread in self._threads:
            thread.start()

    def is_alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def end(self) -> None:
        """Releases everything. Called once no pool holds runs, or after an error."""
        for worker in self.workers:
            worker.close()
        until = time.monotonic() + self.ending_seconds
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.0))


def thread_workers(pace: Pace, workers: int | None = None) -> Workers:
    """Workers in threads of this process: one per core of a CPU, all with one compiled program, or `workers`.

    On an accelerator, a pool of few lanes leaves the device idle most of the time, so several share it.
    """
    import jax

    devices = list(jax.local_devices())
    platform = devices[0].platform
    if platform == "cpu":
        seats = [(f"core {i}", devices[i % len(devices)]) for i in range(workers or cores())]
    else:
        seats = [(f"{platform} {device.id}.{i}", device) for i in range(workers or 5) for device in devices]
    return Workers(
        [LocalWorker(device, pace, name) for name, device in seats],
        platform,
        places=1 if platform == "cpu" else len(devices),
        memory=MemoryBudget.of(devices[0]),
        layout=layout_of([device for _, device in seats]),
    )


def serve(worker: Worker, queue: RunQueue) -> None:
    """Passes the requests of a queue to a worker, and its reports back, until nothing is left to do."""
    idle_losses = 0
    while idle_losses <= MOST_IDLE_LOSSES:
        try:
            worker.start()
            while (request := queue.next(worker.seat)) is not None:
                queue.report(worker.seat.name, worker.call(request))
            return
        except WorkerLostError as error:
            was_busy = queue.lose(worker.seat.name, str(error))
            idle_losses = 0 if was_busy else idle_losses + 1
            if error.is_final or queue.is_stopped():
                return
        except Exception as error:  # nobody else would learn what happened to its runs
            queue.lose(worker.seat.name, reason_of(error))
            return
        finally:
            worker.close()
