"""The training program of a batch, compiled ahead of time for a number of runs on a device."""

from __future__ import annotations

import threading
from typing import Any

import equinox as eqx
import jax
import numpy as np

from asymrl.learning.factory import program
from asymrl.learning.numbers import Numbers, stack_numbers
from asymrl.learning.settings import Settings
from asymrl.learning.state import RunState


class Compiled:
    """Trains `count` runs of one shape on one device. Compiling happens here, not at the first call."""

    def __init__(self, shape: Settings, count: int, device: Any, others: CompiledCache | None = None):
        """`others`: where to look for the programs of fewer runs, and to keep them."""
        self.program, self.count, self.device = program(shape), count, device
        self._trainer = self.program.open(count, device)
        self._others = CompiledCache() if others is None else others

    def narrower(self, count: int) -> Compiled:
        """The same for fewer runs, compiled when it is first asked for."""
        return self._others.get(self.program.settings, count, self.device)

    def bytes_needed(self) -> int | None:
        """Memory of the runs and of what training them needs besides, or None if the compiler does not say."""
        return self._trainer.bytes_needed()

    def start(self, seeds: np.ndarray) -> RunState:
        """New runs on the device, one per seed."""
        with jax.default_device(self.device):
            return self.place(self.program.start(seeds))

    def place(self, tree: Any) -> Any:
        """A tree with its arrays moved to the device."""
        arrays, rest = eqx.partition(tree, eqx.is_array)
        return eqx.combine(jax.device_put(arrays, self.device), rest)

    def numbers(self, settings: list[Settings]) -> Numbers:
        return self.place(stack_numbers(settings))

    def train(self, runs: RunState, numbers: Numbers, updates: int) -> RunState:
        """As `Program.train`: at most so many further updates. Consumes `runs`."""
        return self._trainer.train(runs, numbers, updates)


class CompiledCache:
    """Compiled programs by shape, number of runs and device. Each is compiled once; several can be at a time."""

    def __init__(self) -> None:
        self._made: dict[Any, Compiled] = {}
        self._locks: dict[Any, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, settings: Settings, count: int, device: Any) -> Compiled:
        key = (settings.shape(), count, device.id)
        with self._lock:
            own = self._locks.setdefault(key, threading.Lock())
        with own:
            if key not in self._made:
                self._made[key] = Compiled(settings.shape(), count, device, self)
            return self._made[key]
