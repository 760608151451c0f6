"""Workers on a Ray cluster: each is an actor with a pool of lanes, and reports to the driver, which writes.

When one dies, its runs go on from what it reported last, in another.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from asymrl.runs.files import RunError
from asymrl.runs.placement import Pace
from asymrl.runs.run_queue import RunQueue
from asymrl.runs.threads import Workers
from asymrl.runs.worker import LocalWorker, Report, Request, Seat, WorkerLostError, reason_of

POLL_SECONDS = 0.5


class RemoteWorker:
    """What an actor holds."""

    def __init__(self, pace: Pace):
        import jax

        from asymrl.runs.cache import use_compilation_cache

        use_compilation_cache()
        self._worker = LocalWorker(jax.local_devices()[0], pace)

    def is_ready(self) -> bool:
        return True

    def call(self, request: Request) -> Report:
        return self._worker.call(request)


class RayWorker:
    """A worker in an actor, which is placed anew, wherever there is room, when it is lost."""

    def __init__(self, ray: Any, name: str, pace: Pace, resources: Mapping[str, float], is_over: Callable[[], bool]):
        """`is_over`: whether there is nothing left to do, so that nobody waits for room any more."""
        self.seat = Seat(name, name, name)
        self._ray, self._pace, self._is_over = ray, pace, is_over
        self._class = ray.remote(**resources, max_restarts=0)(RemoteWorker)
        self._actor: Any = None

    def start(self) -> None:
        """Waits until the cluster has room for the actor."""
        self._actor = self._class.remote(self._pace)
        self._wait(self._actor.is_ready.remote(), self._is_over)

    def call(self, request: Request) -> Report:
        """Answers a request in the actor."""
        return self._wait(self._actor.call.remote(request), lambda: self._actor is None)

    def _wait(self, reference: Any, is_vain: Callable[[], bool]) -> Any:
        """The result of a call. Raises WorkerLostError if the actor is lost, or the call in vain meanwhile."""
        while not self._ray.wait([reference], timeout=POLL_SECONDS)[0]:
            if is_vain():
                raise WorkerLostError("no longer needed", is_final=True)
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise WorkerLostError(reason_of(error.cause if isinstance(error.cause, Exception) else error)) from error
        except self._ray.exceptions.RayError as error:
            raise WorkerLostError(reason_of(error)) from error

    def close(self) -> None:
        """Ends the actor; a call that is under way is lost."""
        actor, self._actor = self._actor, None
        if actor is not None:
            self._ray.kill(actor)


class RayWorkers(Workers):
    """Workers on a Ray cluster, as many as it has room for now."""

    ending_seconds = 10 * POLL_SECONDS

    def __init__(self, pace: Pace, *, address: str | None = None, workers: int | None = None):
        """Connects to the cluster at `address`, to the one that this machine belongs to, or to a new one.

        Raises:
            RunError: if Ray is not installed or the cluster cannot be reached.
        """
        self._ray, self._pace = _ray(), pace
        if not self._ray.is_initialized():
            _connect(self._ray, address)
        have = self._ray.cluster_resources()
        gpus = int(have.get("GPU", 0))
        self._resources = {"num_gpus": 1 / (workers or 1), "num_cpus": 1} if gpus else {"num_cpus": 1}
        room = gpus / self._resources["num_gpus"] if gpus else have.get("CPU", 1)
        super().__init__((), "gpu" if gpus else "cpu", places=max(1, int(room)))

    def start(self, queue: RunQueue) -> None:
        self.workers = [
            RayWorker(self._ray, f"ray worker {i}", self._pace, self._resources, queue.is_over)
            for i in range(self.places)
        ]
        super().start(queue)


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise RunError('the engine ray needs another package: pip install "asymrl[ray]"') from error


def _connect(ray: Any, address: str | None) -> None:
    options = {"log_to_driver": False, "logging_level": "warning"}
    try:
        if address is not None:
            ray.init(address=address, **options)
            return
        try:
            ray.init(address="auto", **options)
        except ConnectionError:
            ray.init(include_dashboard=False, **options)
    except (ConnectionError, OSError, ValueError, RuntimeError) as error:
        raise RunError(f"the Ray cluster {address or ''} cannot be reached: {error}") from error
