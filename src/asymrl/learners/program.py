"""Programs: training for all runs whose settings have one shape.

An update of all runs collects a batch for each, then learns from it with the learner's function of one run, vectorised.
In a compiled world the whole loop over updates runs on the device; a world that runs in Python is stepped on the host,
and learning is compiled.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asymrl.learners.collector import Collector, CompiledActor
from asymrl.learners.compiling import bytes_of, compile_lowered, compiler_options, placed, precision
from asymrl.learners.curve import count, count_ended, evaluate_if_due, evaluation_keys, mean_outcomes, write_point
from asymrl.learners.episodes import RUN_AXIS, Episodes
from asymrl.learners.learner import Learner, learner
from asymrl.learners.numbers import Numbers, numbers_of, stack_numbers
from asymrl.learners.rollout import collect
from asymrl.learners.state import RunState, is_active, keys_of, named_world, training_world, where_on
from asymrl.learners.streams import SEGMENT_AXES, Segment, Streams
from asymrl.settings import Settings
from asymrl.worlds.registry import version_of
from asymrl.worlds.stepped_world import SteppedWorld, UserCodeError
from asymrl.worlds.world import World

T = TypeVar("T")
Collected = tuple[Streams | None, Episodes | Segment]
"""The streams after a batch, if there are any, and the batch."""


class Trainer(Protocol):
    """A program with its lanes on one device."""

    def train(self, states: RunState, numbers: Numbers, updates: int) -> RunState:
        """At most `updates` further updates of each run `[lane, ...]`; none where a run is over. Consumes `states`.

        Raises:
            LaneError: if the environment of a run fails.
        """
        ...

    def bytes_needed(self) -> int | None:
        """Memory for the runs and for training them, or None if the compiler does not say."""
        ...

    def close(self) -> None:
        """Releases what the trainer holds, such as environments."""
        ...


class LaneError(Exception):
    """The run in a lane cannot go on; the others can.

    `states` are those of all lanes before the update that failed.
    """

    def __init__(self, lane: int, reason: str, states: RunState):
        super().__init__(reason)
        self.lane, self.reason, self.states = lane, reason, states


class Program:
    """Training for all runs whose settings have one shape. Safe to use from several threads."""

    def __init__(self, settings: Settings, world: World | None = None):
        """`world`: instead of the one that the settings name."""
        self.settings = settings.shape()
        self.world = training_world(settings, world)
        self.learner = learner(self.world, self.settings)
        init = self.learner.init
        self._template = eqx.filter_eval_shape(lambda: init(0))
        # What is not an array is the same in all runs of a program.
        self.shapes, self.static = eqx.partition(self._template, _is_shape)
        self._start = jax.jit(
            jax.vmap(lambda seed: eqx.filter(init(seed), eqx.is_array)),
            # This runs once and need not be fast: optimised, it takes twice as long to compile and just as long to run.
            compiler_options={"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else {},
        )
        self._cache: dict[Any, Any] = {}
        self._locks: dict[Any, threading.Lock] = {}
        self._lock = threading.Lock()

    def start(self, seeds: Sequence[int] | np.ndarray) -> RunState:
        """New runs `[lane, ...]`, one per seed. Compiled once per number of seeds."""
        with self._lock_of(("start", len(seeds))):
            return eqx.combine(self._start(np.asarray(seeds, np.uint32)), self.static)

    def template(self) -> RunState:
        """One run with a ShapeDtypeStruct in place of each array. Computes nothing."""
        return self._template

    def open(self, lanes: int, device: Any) -> Trainer:
        """A trainer of `lanes` lanes on a device; those with equally many lanes there share the compiled code.

        Compiling happens here, not at the first call.
        """
        if isinstance(self.world, SteppedWorld):
            return HostTrainer(self, lanes, device)
        return DeviceTrainer(self, lanes, device)

    def train(self, states: RunState, numbers: Numbers, updates: int) -> RunState:
        """`Trainer.train` on the default device."""
        lanes, device = states.updates.shape[0], jax.local_devices()[0]
        trainer = self.once(("default", lanes), lambda: self.open(lanes, device))
        return trainer.train(states, numbers, updates)

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """What `make` gives for this key, made at the first call; other threads wait for it."""
        with self._lock_of(key):
            if key not in self._cache:
                self._cache[key] = make()
            return self._cache[key]

    def _lock_of(self, key: Any) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(key, threading.Lock())

    def collector(self) -> Collector:
        """Environments of a world that runs in Python, with compiled acting that all of them share."""
        assert isinstance(self.world, SteppedWorld)
        horizon = self.settings.horizon
        return Collector(self.world, self.once("actor", lambda: CompiledActor(self.template().actor, horizon)))

    def compile_loop(self, lanes: int, device: Any) -> Any:
        """The loop over updates in a compiled world, for lanes on a device."""
        options = compiler_options(device.platform, self.settings)
        inputs = placed((self.shapes, jax.eval_shape(lambda: numbers_of(self.settings))), lanes, device)
        lowered = jax.jit(self.train_lanes, donate_argnums=0).lower(*inputs, jnp.int32(0))
        return compile_lowered(lowered, options)

    def train_lanes(self, arrays: RunState, numbers: Numbers, updates: Int[Array, ""]) -> RunState:
        """`Trainer.train` as it is compiled in a compiled world, for the arrays of the runs alone."""

        def go_on(loop: tuple[Array, RunState]) -> Bool[Array, ""]:
            iteration, arrays = loop
            return (iteration < updates) & jnp.any(is_active(arrays, numbers))

        def once(loop: tuple[Array, RunState]) -> tuple[Array, RunState]:
            iteration, arrays = loop
            runs = train_once(self.learner, eqx.combine(arrays, self.static), numbers)
            return iteration + 1, eqx.filter(runs, eqx.is_array)

        with precision(self.settings):
            return jax.lax.while_loop(go_on, once, (jnp.int32(0), arrays))[1]


def train_once(learner: Learner, runs: Any, numbers: Numbers) -> Any:
    """At most one update of each run `[run, ...]` that still trains, in a compiled world."""
    world, settings = learner.world, learner.settings
    keys, acting, due, epsilon = plan(learner, runs, numbers)
    collected = collect(world, learner.rollout, runs, keys, acting, epsilon)
    evaluated = evaluate_if_due(world, settings, runs, keys, due)
    return update(learner, runs, numbers, collected, evaluated)


def plan(
    learner: Learner, runs: Any, numbers: Numbers
) -> tuple[Any, Bool[Array, "run"], Bool[Array, "run"], Float[Array, "run"] | None]:
    """The keys of the next update, which runs act in it, which write a point of their curve, and their exploration."""

    def one(run: Any, numbers: Numbers) -> tuple[Array, Array, Array | None]:
        acting = is_active(run, numbers) & learner.ready(run)
        return acting, acting & (run.timesteps >= run.next_log), learner.exploration(run, numbers)

    return (keys_of(runs), *eqx.filter_vmap(one)(runs, numbers))


def update(
    learner: Learner, runs: Any, numbers: Numbers, collected: Collected, evaluated: Float[Array, "run 2"]
) -> RunState:
    """The runs after they have counted what was collected and learned from it, with points of curves that are due."""
    streams, batch = collected

    def one(run: Any, numbers: Numbers, streams: Any, batch: Any, evaluated: Array) -> Any:
        key, steps, on = jax.random.fold_in(run.key, run.updates), run.timesteps, is_active(run, numbers)
        acting = on & learner.ready(run)
        due = acting & (steps >= run.next_log)
        if isinstance(batch, Segment):
            run = eqx.tree_at(lambda r: r.streams, run, where_on(acting, streams, run.streams))
            run = count_ended(run, batch.piece, acting)
        else:
            run = count(run, batch, acting)
        run, losses = learner.update(key, run, numbers, steps, batch, on)
        return write_point(run, steps, losses, evaluated, due, numbers)

    axes = SEGMENT_AXES if isinstance(batch, Segment) else RUN_AXIS
    over_runs = eqx.filter_vmap(one, in_axes=(eqx.if_array(0), 0, eqx.if_array(0), axes, 0))
    return over_runs(runs, numbers, streams, batch, evaluated)


class DeviceTrainer:
    """Lanes of a program in a compiled world, on one device; see `Trainer`."""

    def __init__(self, program: Program, lanes: int, device: Any):
        self._executable = program.once((lanes, device), lambda: program.compile_loop(lanes, device))
        self._static, self._device = program.static, device

    def train(self, states: RunState, numbers: Numbers, updates: int) -> RunState:
        """See `Trainer`."""
        inputs = jax.device_put((eqx.filter(states, eqx.is_array), numbers, np.int32(updates)), self._device)
        return eqx.combine(self._executable(*inputs), self._static)

    def bytes_needed(self) -> int | None:
        """See `Trainer`."""
        return bytes_of(self._executable)

    def close(self) -> None:
        """Everything that it holds is shared, so nothing is released."""


class HostTrainer:
    """Lanes of a program with environments of their own, in a world that runs in Python; see `Trainer`."""

    def __init__(self, program: Program, lanes: int, device: Any):
        self._program, self._device, self._collector = program, device, program.collector()
        self._plan = program.once("plan", lambda: jax.jit(self._planned))
        try:
            self._learn = program.once((lanes, device), lambda: self._compile(lanes))
        except BaseException:
            self.close()
            raise

    def train(self, states: RunState, numbers: Numbers, updates: int) -> RunState:
        """See `Trainer`."""
        # Splitting modules and joining them again takes as long as some steps: once is enough.
        arrays, numbers = jax.device_put((eqx.filter(states, eqx.is_array), numbers), self._device)
        for _ in range(updates):
            if not np.any(is_active(arrays, numbers)):
                break
            try:
                collected, evaluated = self._collect(arrays, numbers)
            except UserCodeError as mistake:
                self.close()  # its environments may be in any state
                lanes, states = arrays.updates.shape[0], eqx.combine(arrays, self._program.static)
                raise LaneError(mistake.environment * lanes // mistake.of, mistake.report, states) from mistake
            arrays = self._learn(arrays, numbers, collected, evaluated)
        return eqx.combine(arrays, self._program.static)

    def bytes_needed(self) -> int | None:
        """See `Trainer`."""
        return bytes_of(self._learn)

    def close(self) -> None:
        """Closes the environments."""
        self._collector.close()

    def _planned(self, arrays: RunState, numbers: Numbers) -> Any:
        return plan(self._program.learner, eqx.combine(arrays, self._program.static), numbers)

    def _collect(self, arrays: RunState, numbers: Numbers) -> tuple[Collected, Any]:
        """What an update learns from, and evaluations where they are due; as `evaluate_if_due`."""
        keys, acting, due, epsilon = self._plan(arrays, numbers)
        acting, due, settings = np.asarray(acting), np.asarray(due), self._program.settings
        collected = self._collector.collect(self._program.learner.rollout, arrays, keys, acting, epsilon)
        if not settings.evaluation_episodes or not due.any():
            return collected, np.full((len(due), 2), np.nan, np.float32)
        how = {"episodes": settings.evaluation_episodes, "greedy": settings.evaluation_greedy}
        played = self._collector.play(arrays.actor, evaluation_keys(keys), due, **how)
        return collected, np.where(due[:, None], mean_outcomes(played), np.float32(np.nan))

    def _compile(self, lanes: int) -> Any:
        """Learning, compiled for the shapes and types of a first step in the environments."""
        program, device, settings = self._program, self._device, self._program.settings
        shapes = placed((program.shapes, jax.eval_shape(lambda: numbers_of(settings))), lanes, device)
        arrays = jax.device_put(eqx.filter(program.start([0] * lanes), eqx.is_array), device)
        numbers, all_lanes = jax.device_put(stack_numbers([settings] * lanes), device), np.ones(lanes, bool)
        keys, _, _, epsilon = self._plan(arrays, numbers)
        collected = self._collector.collect(program.learner.rollout, arrays, keys, all_lanes, epsilon, steps=1)
        if count := settings.evaluation_episodes:
            how = {"episodes": count, "greedy": settings.evaluation_greedy}
            self._collector.play(arrays.actor, keys, all_lanes, **how, steps=1)

        def learn(arrays: RunState, numbers: Numbers, collected: Collected, evaluated: Array) -> RunState:
            with precision(settings):
                runs = eqx.combine(arrays, program.static)
                return eqx.filter(update(program.learner, runs, numbers, collected, evaluated), eqx.is_array)

        lowered = jax.jit(learn, donate_argnums=0).lower(*shapes, collected, np.zeros((lanes, 2), np.float32))
        return compile_lowered(lowered, compiler_options(device.platform))


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


_lock = threading.Lock()


def program(settings: Settings) -> Program:
    """The program for these settings, one per shape and version of the code that they name; see `Program`."""
    with _lock:
        return _program(settings.shape(), tuple(map(version_of, settings.code_names)))


@functools.lru_cache(maxsize=16)
def _program(shape: Settings, version: Hashable) -> Program:
    del version  # part of the key
    return Program(shape, named_world(shape))
