"""The training program of a batch, compiled ahead of time for a number of runs on a device."""

from __future__ import annotations

import threading
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from asymrl.learning.numbers import Numbers
from asymrl.learning.program import compiler_options, program, stack_numbers
from asymrl.learning.run import Run, new_run
from asymrl.learning.settings import Settings


class Compiled:
    """Trains `count` runs of one shape on one device. Compiling happens here, not at the first call."""

    def __init__(self, shape: Settings, count: int, device: Any, others: CompiledCache | None = None):
        """`others`: where to look for the programs of fewer runs, and to keep them."""
        self.program, self.count, self.device = program(shape), count, device
        sharding = SingleDeviceSharding(device)

        def batched(leaf: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((count, *leaf.shape), leaf.dtype, sharding=sharding)

        template = eqx.filter_eval_shape(lambda: new_run(self.program.env, self.program.settings, 0))
        shapes, self._static = eqx.partition(template, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
        numbers = jax.eval_shape(shape.numbers)
        train = jax.jit(self.program._train_batch, donate_argnums=0, compiler_options=compiler_options())
        updates = jax.ShapeDtypeStruct((), jnp.int32, sharding=sharding)
        lowered = train.lower(jax.tree.map(batched, shapes), jax.tree.map(batched, numbers), updates)
        self._train = lowered.compile()
        env, settings = self.program.env, self.program.settings
        self._start = eqx.filter_jit(eqx.filter_vmap(lambda seed: new_run(env, settings, seed)))
        self._others = CompiledCache() if others is None else others

    def narrower(self, count: int) -> Compiled:
        """The same for fewer runs, compiled when it is first asked for."""
        return self._others.get(self.program.settings, count, self.device)

    def bytes_needed(self) -> int | None:
        """Memory of the runs and of what training them needs besides, or None if the compiler does not say."""
        analysis = self._train.memory_analysis()
        if analysis is None:
            return None
        # What is donated counts once: it is argument and output in the same place.
        own = analysis.argument_size_in_bytes + analysis.output_size_in_bytes - analysis.alias_size_in_bytes
        return int(own + analysis.temp_size_in_bytes)

    def start(self, seeds: np.ndarray) -> Run:
        """New runs on the device, one per seed. Compiled once, unlike `Program.start`, for the batches that follow."""
        with jax.default_device(self.device):
            return self.place(self._start(jnp.asarray(seeds, jnp.uint32)))

    def place(self, tree: Any) -> Any:
        """A tree with its arrays moved to the device."""
        arrays, rest = eqx.partition(tree, eqx.is_array)
        return eqx.combine(jax.device_put(arrays, self.device), rest)

    def numbers(self, settings: list[Settings]) -> Numbers:
        return self.place(stack_numbers(settings))

    def train(self, runs: Run, numbers: Numbers, updates: int) -> Run:
        """As `Program.train`: at most so many further updates. Consumes `runs`."""
        limit = jax.device_put(np.int32(updates), self.device)
        return eqx.combine(self._train(eqx.filter(runs, eqx.is_array), numbers, limit), self._static)


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
