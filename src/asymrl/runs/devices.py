"""The devices of this machine: how many lanes suit them, and how many runs with a replay their memory holds."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from asymrl.runs.arrays import DeviceLayout
from asymrl.runs.wording import size_text
from asymrl.settings import DQNSettings, Settings

STEPPED_LANES = 8  # of a pool whose world runs in Python
FEW_LANES, MOST_LANES = 24, 320  # of a pool on an accelerator: fewer leave it idle, more are hardly faster
LANES_SHARE = 0.6  # of the runs may have a lane at once; the others get the lanes of runs that end
MEMORY_SHARE = 0.8  # of the memory may be used
# Besides the state of a run: on a host, the last checkpoint, the next one and its file; on an accelerator, a copy while
# runs move to other lanes.
COPIES_ON_HOST, COPIES_ELSEWHERE = 4, 2

LanesOf = Callable[[Settings, int, int], int]
"""How many lanes a pool should have, given its shape and the waiting runs: of that shape, and of all shapes."""


def lanes_for(platform: str, wanted: int | None, places: int) -> LanesOf:
    """How many lanes a pool should have; `places`: pools that share the runs of one shape.

    On a core, the weights of one run fill the cache. A world that runs in Python asks the policies of many runs in one
    call. An accelerator needs many lanes, but also waiting runs to refill them, so that few run alone at the end.
    """

    def lanes_of(shape: Settings, waiting: int, of_all_shapes: int) -> int:
        if wanted is not None:
            return min(wanted, waiting)
        if platform == "cpu":
            return min(waiting, STEPPED_LANES) if is_stepped(shape) else 1
        share = max(FEW_LANES, math.ceil(LANES_SHARE * of_all_shapes / places))
        return min(waiting, share, MOST_LANES)

    return lanes_of


def is_stepped(shape: Settings) -> bool:
    """Whether the world of a shape runs in Python."""
    from asymrl.learners.state import training_world
    from asymrl.worlds.stepped_world import SteppedWorld

    return isinstance(training_world(shape), SteppedWorld)


def layout_of(devices: Sequence[Any]) -> DeviceLayout:
    """The layout of these devices, each counted once, and of the cores of this process."""
    first = devices[0]
    return DeviceLayout(first.platform, first.device_kind, len({device.id for device in devices}), cores())


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class MemoryBudget(NamedTuple):
    """The memory for runs: of this machine, or of each accelerator.

    Only runs with a replay are counted beforehand. Programs of others report what they need once they are compiled.
    """

    platform: str
    available: int | None
    """Bytes, None if unknown."""

    @classmethod
    def of(cls, device: Any) -> MemoryBudget:
        return cls(device.platform, memory_of(device))

    def bytes_of(self, shape: Settings) -> int:
        """Bytes of a run of this shape, with the copies that are made of it; 0 if it has no replay."""
        copies = COPIES_ON_HOST if self.platform == "cpu" else COPIES_ELSEWHERE
        return copies * bytes_of_run(shape) if isinstance(shape, DQNSettings) else 0

    def lanes(self, shape: Settings, used: int = 0) -> int | None:
        """How many runs of a shape fit beside `used` bytes; None if that is not known."""
        if self.available is None or not (needed := self.bytes_of(shape)):
            return None
        return max(int((MEMORY_SHARE * self.available - used) // needed), 0)

    def check(self, shape: Settings) -> None:
        """Raises ValueError if not even one run of this shape fits."""
        if self.lanes(shape) == 0:
            assert self.available is not None
            needed, usable = size_text(self.bytes_of(shape)), size_text(int(MEMORY_SHARE * self.available))
            raise ValueError(
                f"a run of {shape.world} {shape.method} needs {needed} of memory, and {usable} can be used; choose "
                "fewer --replay-steps"
            )


@functools.lru_cache(maxsize=1000)
def bytes_of_run(shape: Settings) -> int:
    """Bytes of all arrays of a run: networks, optimisers, replay and the rest."""
    import jax
    import numpy as np

    from asymrl.learners.program import program

    def size(leaf: Any) -> int:
        is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return (8 if is_key else np.dtype(leaf.dtype).itemsize) * math.prod(leaf.shape)

    return sum(size(x) for x in jax.tree.leaves(program(shape).template()) if isinstance(x, jax.ShapeDtypeStruct))


def memory_of(device: Any) -> int | None:
    """Bytes for the runs on a device: the limit of an accelerator, or the free memory of the machine."""
    if device.platform == "cpu":
        return free_memory()
    stats = device.memory_stats()
    return None if not stats else stats.get("bytes_limit")


def free_memory(root: Path = Path("/")) -> int | None:
    """Free bytes of this machine or of the container, whichever is less; None if the system does not say."""
    amounts = [_machine_memory(root / "proc/meminfo"), _container_memory(root / "sys/fs/cgroup")]
    return min((amount for amount in amounts if amount is not None), default=None)


def _machine_memory(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return int(fields["MemAvailable"][0]) * 1024 if "MemAvailable" in fields else None


def _container_memory(folder: Path) -> int | None:
    """Bytes that the control group leaves, if it sets a limit."""
    try:
        limit, used = ((folder / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return None if limit == "max" else max(int(limit) - int(used), 0)
    except (OSError, ValueError):
        return None
