"""A batch of runs spread over several devices, which never talk to each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from asymrl.learning.compiled import CompiledProgram
from asymrl.learning.numbers import Numbers
from asymrl.learning.program import compiler_options
from asymrl.learning.state import RunState


class SpreadProgram:
    """The training of `program` with the runs of a batch shared out over devices.

    Each device trains its own share and stops when that is complete. Shares must be equal, so `place` fills up the
    batch with runs that are complete from the start; they come last.
    """

    def __init__(self, program: CompiledProgram, devices: Sequence[Any]):
        self.program = program
        mesh = Mesh(np.asarray(devices), ("run",))
        self._by_run = NamedSharding(mesh, P("run"))
        shares = jax.shard_map(
            program.train_lanes,
            mesh=mesh,
            in_specs=(P("run"), P("run"), P()),
            out_specs=P("run"),
            check_vma=False,
        )
        self._train = jax.jit(shares, donate_argnums=0, compiler_options=compiler_options(devices[0].platform))
        self._devices = len(devices)

    def place(self, runs: RunState, numbers: Numbers) -> tuple[RunState, Numbers]:
        """The runs and their numbers, filled up to equal shares and moved to the devices."""
        count = runs.updates.shape[0]
        missing = -count % self._devices
        rows = np.concatenate([np.arange(count), np.zeros(missing, int)])
        numbers = jax.tree.map(lambda leaf: leaf[rows], numbers)
        numbers = numbers._replace(steps=jnp.where(np.arange(len(rows)) < count, numbers.steps, 0))
        arrays, static = eqx.partition(runs, eqx.is_array)
        arrays = jax.tree.map(lambda leaf: leaf[rows], arrays)
        arrays, numbers = jax.device_put((arrays, numbers), self._by_run)
        return eqx.combine(arrays, static), numbers

    def train(self, runs: RunState, numbers: Numbers, updates: int) -> RunState:
        """As `Program.train`, for runs and numbers that `place` has prepared."""
        arrays, static = eqx.partition(runs, eqx.is_array)
        return eqx.combine(self._train(arrays, numbers, jnp.int32(updates)), static)


def spread(
    program: CompiledProgram, runs: RunState, numbers: Numbers
) -> tuple[CompiledProgram | SpreadProgram, RunState, Numbers]:
    """The program, runs and numbers to train with on all local devices, as many as there are runs at most."""
    devices = jax.local_devices()[: runs.updates.shape[0]]
    if len(devices) == 1:
        return program, runs, numbers
    wide = SpreadProgram(program, devices)
    return wide, *wide.place(runs, numbers)
