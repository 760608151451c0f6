"""What trains runs: the protocols that the engine uses, for compiled worlds and worlds that run in Python."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from asymrl.learners.learners import learner
from asymrl.learners.numbers import Numbers
from asymrl.learners.state import RunState, training_world
from asymrl.settings import Settings
from asymrl.worlds.world import World

T = TypeVar("T")

SCHEDULING = "xla_gpu_command_buffer_scheduling_mode"  # left as it is if XLA_FLAGS names it


class Program(Protocol):
    """Training for all runs whose settings have one shape. Safe to use from several threads."""

    @property
    def settings(self) -> Settings:
        """The shape."""
        ...

    @property
    def world(self) -> World: ...

    def start(self, seeds: Sequence[int] | np.ndarray) -> RunState:
        """New runs `[lane, ...]`, one per seed. Compiled once per number of seeds."""
        ...

    def template(self) -> RunState:
        """One run with a ShapeDtypeStruct in place of each array. Computes nothing."""
        ...

    def open(self, lanes: int, device: Any) -> Trainer:
        """A trainer of `lanes` lanes on a device. Compiling happens here, not at the first call."""
        ...


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


class ProgramBase:
    """What both kinds of programs share: new runs, templates, and what is compiled once for lanes on a device."""

    def __init__(self, settings: Settings, world: World | None = None):
        """`world`: instead of the one that the settings name."""
        self.settings = settings.shape()
        self.world, self.learner = training_world(settings, world), learner(settings)
        new_run = self.learner.new_run
        self._template = eqx.filter_eval_shape(lambda: new_run(self.world, self.settings, 0))
        # What is not an array is the same in all runs of a program.
        self.shapes, self.static = eqx.partition(self._template, _is_shape)
        self._start = jax.jit(
            jax.vmap(lambda seed: eqx.filter(new_run(self.world, self.settings, seed), eqx.is_array)),
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

    def once(self, lanes: int, device: Any, make: Callable[[], T]) -> T:
        """What `make` gives for `lanes` lanes on a device, made at the first call; other threads wait for it."""
        key = (lanes, device)
        with self._lock_of(key):
            if key not in self._cache:
                self._cache[key] = make()
            return self._cache[key]

    def _lock_of(self, key: Any) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(key, threading.Lock())


def placed(tree: Any, lanes: int, device: Any) -> Any:
    """Shapes with an axis of lanes in front, on a device, to compile for."""
    sharding = SingleDeviceSharding(device)
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((lanes, *leaf.shape), leaf.dtype, sharding=sharding), tree)


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def bytes_of(executable: Any) -> int | None:
    """Memory for the arguments, results and temporary arrays of a compiled function, if the compiler says."""
    analysis = executable.memory_analysis()
    if analysis is None:
        return None
    # Donated memory counts once: it is argument and output at the same time.
    own = analysis.argument_size_in_bytes + analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    return int(own + analysis.temp_size_in_bytes)


def compiler_options(platform: str, settings: Settings | None = None) -> dict[str, Any]:
    """Options of the compiler for training on a platform; with the settings of a program, those of its learner too."""
    if platform == "cpu":
        # The products are too small to share among threads; several lanes or pools use the cores better.
        return {"xla_cpu_multi_thread_eigen": False}
    if platform in ("gpu", "cuda"):
        # Searching for the best Triton product of every shape makes compilation ten times longer, training no faster.
        options: dict[str, Any] = {"xla_gpu_enable_triton_gemm": False}
        if settings is not None and _runs_concurrently(platform, settings):
            options[SCHEDULING] = "CONCURRENT"
        return options
    return {}


def _runs_concurrently(platform: str, settings: Settings) -> bool:
    """Whether independent kernels of a compiled program run at the same time."""
    # An update of 20 runs takes 0.89 of the time or less. Tried on 1 G steps of A2C in the memory rooms; of V(h, s)
    # only briefly since its head has inputs that are zero. A trial of DQN, and one of V(h, s) with a `lax.cond` inside
    # that for the length of episodes, stopped in their first updates for unknown reasons.
    is_gpu, flags = platform in ("gpu", "cuda"), os.environ.get("XLA_FLAGS", "")
    return is_gpu and settings.how.learner == "a2c" and SCHEDULING not in flags


def compile_lowered(lowered: Any, options: Mapping[str, Any]) -> Any:
    """A lowered function, compiled with the options that this version of XLA knows: they come and go."""
    known = dict(options)
    while True:
        try:
            return lowered.compile(compiler_options=known)
        except jax.errors.JaxRuntimeError as error:
            refused = [name for name in known if f"option: '{name}'" in str(error) or f"option {name}," in str(error)]
            if not refused:
                raise
            warnings.warn(f"this version of XLA refuses {', '.join(refused)}; training may be slower", stacklevel=2)
            known = {name: value for name, value in known.items() if name not in refused}


def precision(settings: Settings) -> Any:
    """A context in which matrix products are as exact as the settings require."""
    return jax.default_matmul_precision("tensorfloat32" if settings.precision == "tf32" else "highest")
