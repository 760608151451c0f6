"""How many runs fit into memory, known before anything is compiled."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from asymrl.learners.factory import program
from asymrl.runs.wording import size_text
from asymrl.settings import DQNSettings, Settings

MEMORY_SHARE = 0.8  # of the memory may be planned for
# Besides the state of a run: on a host, the last checkpoint, the next one and its file; on an accelerator, a copy while
# runs move to other lanes.
COPIES = {"cpu": 4}
COPIES_ELSEWHERE = 2
LARGE_LAYER = 4096  # units; a memory of that size has 200 MB of weights


class MemoryPlan:
    """How many runs fit into memory: one that all places share, or one for each device."""

    def __init__(
        self,
        platform: str,
        there: int | None,
        *,
        is_shared: bool,
        pools: int = 1,
        device_of: Callable[[Any], Hashable] = lambda place: place,
    ):
        """`there`: bytes of memory, None if unknown; `is_shared`: whether all places share them.

        `pools`: how many may serve one shape there; `device_of`: the device of a place, if several places share one.
        """
        self._platform, self._there, self._is_shared, self.pools = platform, there, is_shared, pools
        self._device_of = device_of

    def bytes_of(self, shape: Settings) -> int:
        """Bytes of a run of this shape, with the copies that are made of it; 0 if the run is small.

        Programs of small networks without a replay report what they need once they are compiled.
        """
        if not is_large(shape):
            return 0
        return COPIES.get(self._platform, COPIES_ELSEWHERE) * bytes_of_run(shape)

    def memory_at(self, place: Hashable) -> Hashable:
        """Which memory the pools of a place use."""
        return None if self._is_shared else self._device_of(place)

    def lanes(self, shape: Settings, used: int = 0) -> int | None:
        """How many runs of a shape fit beside `used` bytes; None if that is not known."""
        if self._there is None or not (each := self.bytes_of(shape)):
            return None
        return max(int((MEMORY_SHARE * self._there - used) // each), 0)

    def check(self, shape: Settings) -> None:
        """Raises ValueError, saying what would fit, if a single run of this shape does not."""
        if self._there is None or self.lanes(shape) != 0:
            return
        what = f"a run of {shape.world} {shape.method} needs {size_text(self.bytes_of(shape))} of memory"
        have = f"{size_text(int(MEMORY_SHARE * self._there))} can be used"
        raise ValueError(f"{what}, and {have}{self._remedy(shape)}")

    def _remedy(self, shape: Settings) -> str:
        """What to make smaller: a shorter replay that fits, if there is one."""
        if not isinstance(shape, DQNSettings):
            return "; choose a smaller memory_size or fewer hidden units"
        assert self._there is not None
        least = shape.horizon + 1
        smallest = self.bytes_of(replace(shape, replay_steps=least))
        each = (self.bytes_of(shape) - smallest) / max(shape.replay_steps - least, 1)
        steps = least + int((MEMORY_SHARE * self._there - smallest) / max(each, 1e-9))
        if steps <= least:
            return ""
        digits = 10 ** max(int(math.log10(steps)) - 1, 0)
        return f"; --replay-steps {max(steps // digits * digits, least)} fits"


def is_large(shape: Settings) -> bool:
    """Whether a run of this shape may need much memory: for a replay, or for networks of an unusual size."""
    widest = max([shape.memory_size, *(shape.hidden or ())])
    return isinstance(shape, DQNSettings) or widest > LARGE_LAYER


@functools.lru_cache(maxsize=1000)
def bytes_of_run(shape: Settings) -> int:
    """Bytes of all arrays of a run: networks, optimisers, replay and the rest."""
    leaves = jax.tree.leaves(program(shape).template())
    sizes = (_itemsize(leaf.dtype) * math.prod(leaf.shape) for leaf in leaves if isinstance(leaf, jax.ShapeDtypeStruct))
    return sum(sizes)


def _itemsize(dtype: Any) -> int:
    return 8 if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key) else np.dtype(dtype).itemsize


def memory_of(device: Any) -> int | None:
    """Bytes for the runs on a device: the limit of an accelerator, or the free memory of the machine."""
    if device.platform == "cpu":
        return free_memory()
    stats = device.memory_stats()
    return None if not stats else stats.get("bytes_limit")


def free_memory(root: Path = Path("/")) -> int | None:
    """Free bytes of this machine or of the container, whichever is less; None if the system does not say."""
    amounts = [_meminfo(root / "proc/meminfo"), _container(root / "sys/fs/cgroup")]
    return min((each for each in amounts if each is not None), default=None)


def _meminfo(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return int(fields["MemAvailable"][0]) * 1024 if "MemAvailable" in fields else None


def _container(folder: Path) -> int | None:
    """Bytes that the control group leaves, if it sets a limit."""
    try:
        limit, used = ((folder / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return None if limit == "max" else max(int(limit) - int(used), 0)
    except (OSError, ValueError):
        return None
