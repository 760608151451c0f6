"""Which cells are trained together: as many as memory allows and speed rewards."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from asymrl.sweeps.cells import Cell, batch_of, by_shape
from asymrl.sweeps.compiled import CompiledCache
from asymrl.sweeps.in_flight import Saved
from asymrl.sweeps.probes import Probe
from asymrl.sweeps.training import BatchTraining, Task

RUNS_PER_CORE = 2  # in a batch on a CPU; the weights of more do not stay in its caches
UNMEASURED = 256  # elsewhere: so many make one batch without a measurement, which costs a compilation
GROWTH = 4  # each measurement is of a batch so much larger than the one before
WORTHWHILE = 1.1  # times the speed: a larger batch is worth its memory and its longer wait for the slowest run
MEMORY_SHARE = 0.8  # of what is free may be planned for
PROBE_SECONDS = 3.0


SizeOf = Callable[[Sequence[Cell], Callable[[], bool]], int]
"""How many cells of a group may be one batch; what is measured for it is broken off once the second says so."""


class Measured(NamedTuple):
    """A batch of some size, tried out."""

    steps_per_second: float
    bytes_needed: int | None


def _never() -> bool:
    return False


def choose_size(
    cells: int,
    measure: Callable[[int], Measured],
    memory: float,
    unmeasured: int,
    ended: Callable[[], bool] = _never,
) -> int:
    """How many runs of a group a batch should have.

    Larger batches are tried as long as they fit in memory and are faster as a whole.

    Args:
        cells: in the group.
        measure: tries out a batch of a size.
        memory: bytes that a batch may use.
        unmeasured: up to so many cells are one batch anyway.
        ended: whether there is no time to try out more.
    """
    if cells <= unmeasured:
        return cells
    if ended():
        return unmeasured
    size, best = unmeasured, measure(unmeasured)
    while size < cells and not ended():
        larger = min(size * GROWTH, cells)
        per_run = (best.bytes_needed or 0) / size
        if per_run * larger > memory:
            larger = int(memory // per_run)
        if larger <= size:
            break
        found = measure(larger)
        if (found.bytes_needed or 0) > memory or found.steps_per_second < WORTHWHILE * best.steps_per_second:
            break
        size, best = larger, found
    return size


def even_sizes(cells: int, most: int, at_least: int = 1) -> tuple[int, int]:
    """Number of batches and their common size, such that none has more than `most` and there are `at_least` so many."""
    count = max(math.ceil(cells / most), min(at_least, cells))
    return count, math.ceil(cells / count)


def plan(
    cells: Iterable[Cell],
    saved: Sequence[Saved],
    size_of: SizeOf,
    *,
    probes: Mapping[str, Probe] | None = None,
    devices: int = 1,
    ended: Callable[[], bool] = _never,
) -> list[Task]:
    """Tasks for the cells: those in flight first, then the longest first, so that none is left alone at the end.

    Args:
        cells: to be run, without those in flight.
        saved: batches in flight.
        size_of: how many cells of a group may be one batch.
        probes: by the name of the world in which they measure.
        devices: that share the work of each group, if it is more than one batch for one of them.
        ended: whether there is no time to measure anything.
    """
    probes = probes or {}
    tasks = [Task(each.batch, len(each.batch), each, probes.get(each.batch.first.world)) for each in saved]
    new = []
    for group in by_shape(cells).values():
        # Runs of equal length end together, and do not wait for each other.
        group = sorted(group, key=lambda cell: -cell.settings.steps)
        most = size_of(group, ended)
        count, size = even_sizes(len(group), most, devices if len(group) > most else 1)
        probe = probes.get(group[0].settings.world)
        new += [
            Task(batch_of(part), size, None, probe) for i in range(count) if (part := group[i * size : (i + 1) * size])
        ]
    new.sort(key=_work, reverse=True)
    return tasks + new


def _work(task: Task) -> tuple[int, int]:
    """Orders tasks by how long they take: by the steps of a run, then by how much the critic has to read."""
    return max(settings.steps for settings in task.batch.settings), len(task.batch.first.how.reads)


class Sizes:
    """Batch sizes for groups of cells, measured on a device of this machine."""

    def __init__(self, cache: CompiledCache, device: Any, at_once: int, say: Callable[[str], None]):
        """`at_once`: batches that share the memory of the device."""
        self._cache, self._device, self._at_once, self._say = cache, device, at_once, say

    def __call__(self, group: Sequence[Cell], ended: Callable[[], bool]) -> int:
        if self._device.platform == "cpu":
            return RUNS_PER_CORE * (os.cpu_count() or 1)

        def measure(size: int) -> Measured:
            found = measure_batch(group[:size], self._cache, self._device)
            memory = "" if found.bytes_needed is None else f", {found.bytes_needed / 2**20:.0f} MiB"
            name = f"{group[0].settings.world} {group[0].settings.method}"
            self._say(f"{name}: {size} runs at once make {found.steps_per_second:,.0f} steps/s{memory}")
            return found

        return choose_size(len(group), measure, free_memory(self._device) / self._at_once, UNMEASURED, ended)


def measure_batch(cells: Sequence[Cell], cache: CompiledCache, device: Any) -> Measured:
    """Trains the beginning of a batch for a few seconds, for its speed only."""
    compiled = cache.get(cells[0].settings, len(cells), device)
    training = BatchTraining(Task(batch_of(cells), len(cells)), compiled)
    training.advance()  # the first call is always slower
    begin, before = time.monotonic(), int(training.snapshot.timesteps.sum())
    while training.is_active() and time.monotonic() - begin < PROBE_SECONDS:
        training.advance()
    steps = int(training.snapshot.timesteps.sum()) - before
    return Measured(steps / max(time.monotonic() - begin, 1e-9), compiled.bytes_needed())


def free_memory(device: Any) -> float:
    """Bytes that a sweep may plan for on an accelerator."""
    stats = device.memory_stats()
    if stats and "bytes_limit" in stats:
        return MEMORY_SHARE * (stats["bytes_limit"] - stats.get("bytes_in_use", 0))
    return MEMORY_SHARE * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def fixed_size(size: int) -> SizeOf:
    """Always this many."""
    if size < 1:
        raise ValueError(f"batch {size}: a batch needs at least one run")
    return lambda group, ended: size
