"""Programs for worlds that are compiled: the whole loop over updates runs on the device."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from asymrl.learners.numbers import Numbers, numbers_of
from asymrl.learners.program import (
    ProgramBase,
    bytes_of,
    compile_lowered,
    compiler_options,
    placed,
    precision,
)
from asymrl.learners.state import RunState, is_active
from asymrl.settings import Settings
from asymrl.worlds.world import World


class CompiledProgram(ProgramBase):
    """Training for all runs whose settings have one shape, in a world that is compiled."""

    def __init__(self, settings: Settings, world: World | None = None):
        super().__init__(settings, world)

    def open(self, lanes: int, device: Any) -> CompiledTrainer:
        """A trainer of `lanes` lanes on a device. Trainers with equally many lanes there share the compiled code."""
        return CompiledTrainer(self.once(lanes, device, lambda: self._compile(lanes, device)), self.static, device)

    def train(self, states: RunState, numbers: Numbers, updates: int) -> RunState:
        """`Trainer.train` on the default device."""
        return self.open(states.updates.shape[0], jax.local_devices()[0]).train(states, numbers, updates)

    def _compile(self, lanes: int, device: Any) -> Any:
        train = jax.jit(self.train_lanes, donate_argnums=0)
        arrays, numbers, updates = self.shapes, jax.eval_shape(lambda: numbers_of(self.settings)), jnp.int32(0)
        lowered = train.lower(*placed((arrays, numbers), lanes, device), updates)
        return compile_lowered(lowered, compiler_options(device.platform, self.settings))

    def train_lanes(self, arrays: RunState, numbers: Numbers, updates: Int[Array, ""]) -> RunState:
        """`Trainer.train` as it is compiled, for the arrays of the runs alone."""

        def go_on(loop: tuple[Array, RunState]) -> Bool[Array, ""]:
            iteration, arrays = loop
            return (iteration < updates) & jnp.any(is_active(arrays, numbers))

        def once(loop: tuple[Array, RunState]) -> tuple[Array, RunState]:
            iteration, arrays = loop
            runs = self.learner.update(self.world, self.settings, numbers, eqx.combine(arrays, self.static))
            return iteration + 1, eqx.filter(runs, eqx.is_array)

        with precision(self.settings):
            return jax.lax.while_loop(go_on, once, (jnp.int32(0), arrays))[1]


class CompiledTrainer:
    """Lanes of a compiled program on one device; see `Trainer`."""

    def __init__(self, executable: Any, static: RunState, device: Any):
        self._executable, self._static, self._device = executable, static, device

    def train(self, states: RunState, numbers: Numbers, updates: int) -> RunState:
        """At most `updates` further updates of each run `[lane, ...]`; none where a run is over. Consumes `states`."""
        inputs = jax.device_put((eqx.filter(states, eqx.is_array), numbers, np.int32(updates)), self._device)
        return eqx.combine(self._executable(*inputs), self._static)

    def bytes_needed(self) -> int | None:
        """Memory for the runs and for training them, or None if the compiler does not say."""
        return bytes_of(self._executable)

    def close(self) -> None:
        """Everything that it holds is shared, so nothing is released."""
