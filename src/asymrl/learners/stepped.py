"""Training in worlds that run in Python: they are stepped on the host, everything else is compiled as usual."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from asymrl.learners.collector import Collector, CompiledActor
from asymrl.learners.curve import evaluation_keys, means
from asymrl.learners.numbers import Numbers, numbers_of, stack_numbers
from asymrl.learners.program import (
    LaneError,
    ProgramBase,
    bytes_of,
    compile_lowered,
    compiler_options,
    placed,
    precision,
)
from asymrl.learners.state import RunState, is_active, is_due, keys_of
from asymrl.settings import Settings
from asymrl.worlds.stepped_world import SteppedWorld, UserCodeError


class SteppedProgram(ProgramBase):
    """Training for all runs whose settings have one shape, in a world that runs in Python."""

    world: SteppedWorld  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, settings: Settings, world: SteppedWorld):
        super().__init__(settings, world)
        self.compiled_actor = CompiledActor(self.template().actor, self.settings.horizon)
        self.look = jax.jit(lambda runs, numbers: (keys_of(runs), is_active(runs, numbers), is_due(runs, numbers)))
        self._default: SteppedTrainer | None = None

    def open(self, lanes: int, device: Any) -> SteppedTrainer:
        """A trainer of `lanes` lanes on a device, with environments of its own."""
        collector = Collector(self.world, self.compiled_actor)
        try:
            learn_from = self.once(lanes, device, lambda: self._compile(collector, lanes, device))
        except BaseException:
            collector.close()
            raise
        return SteppedTrainer(self, collector, learn_from, device)

    def train(self, states: RunState, numbers: Numbers, updates: int) -> RunState:
        """`Trainer.train` on the default device."""
        if self._default is None:
            self._default = self.open(states.updates.shape[0], jax.local_devices()[0])
        return self._default.train(states, numbers, updates)

    def _compile(self, collector: Collector, lanes: int, device: Any) -> Any:
        """Learning, compiled for the shapes and types of a first step in the environments."""
        shapes = placed((self.shapes, jax.eval_shape(lambda: numbers_of(self.settings))), lanes, device)
        runs = jax.device_put(eqx.filter(self.start([0] * lanes), eqx.is_array), device)
        numbers = jax.device_put(stack_numbers([self.settings] * lanes), device)
        settings, all_lanes, keys = self.settings, np.ones(lanes, bool), keys_of(runs)
        collected = self.learner.collect(collector, settings, numbers, runs, keys, all_lanes, steps=1)
        if count := settings.evaluation_episodes:
            collector.collect(runs.actor, keys, all_lanes, episodes=count, greedy=settings.evaluation_greedy, steps=1)
        learn_from = jax.jit(self._learn_from, donate_argnums=0)
        lowered = learn_from.lower(*shapes, collected, np.zeros((lanes, 2), np.float32))
        return compile_lowered(lowered, compiler_options(device.platform))

    def _learn_from(self, arrays: RunState, numbers: Numbers, collected: Any, evaluated: Array) -> RunState:
        with precision(self.settings):
            runs = eqx.combine(arrays, self.static)
            learned = self.learner.update_from(self.world, self.settings, numbers, runs, collected, evaluated)
            return eqx.filter(learned, eqx.is_array)


class SteppedTrainer:
    """Lanes of a stepped program with their environments; see `Trainer`."""

    def __init__(self, program: SteppedProgram, collector: Collector, learn_from: Any, device: Any):
        self._program, self._collector, self._learn, self._device = program, collector, learn_from, device

    def train(self, states: RunState, numbers: Numbers, updates: int) -> RunState:
        """At most `updates` further updates of each run `[lane, ...]`; none where a run is over. Consumes `states`."""
        # Splitting modules and joining them again takes as long as some steps: once is enough.
        arrays, numbers = jax.device_put((eqx.filter(states, eqx.is_array), numbers), self._device)
        settings, learner = self._program.settings, self._program.learner
        for _ in range(updates):
            keys, active, due = self._program.look(arrays, numbers)
            if not np.any(active):
                break
            try:
                collected = learner.collect(self._collector, settings, numbers, arrays, keys, np.asarray(active))
                evaluated = self._evaluated(arrays, keys, np.asarray(due))
            except UserCodeError as mistake:
                self._collector.close()  # its environments may be in any state
                lane = mistake.environment * len(active) // mistake.of
                states = eqx.combine(arrays, self._program.static)
                raise LaneError(lane, mistake.report, states) from mistake
            arrays = self._learn(arrays, numbers, collected, evaluated)
        return eqx.combine(arrays, self._program.static)

    def _evaluated(self, arrays: RunState, keys: PRNGKeyArray, due: np.ndarray) -> Any:
        """As `evaluate_if_due`."""
        settings = self._program.settings
        if not settings.evaluation_episodes or not due.any():
            return np.full((len(due), 2), np.nan, np.float32)
        how = {"episodes": settings.evaluation_episodes, "greedy": settings.evaluation_greedy}
        played = self._collector.collect(arrays.actor, evaluation_keys(keys), due, **how)
        return np.where(due[:, None], means(played), np.float32(np.nan))

    def bytes_needed(self) -> int | None:
        """Memory for the runs and for learning, or None if the compiler does not say."""
        return bytes_of(self._learn)

    def close(self) -> None:
        """Closes the environments."""
        self._collector.close()
