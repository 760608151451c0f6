"""Trained environment steps per second, for every world and method, with compilation apart.

    python benchmarks/training.py [--worlds heaven-hell-3] [--methods a2c-asym-hs] [--runs 1 20 100 900]

A step counts when it was simulated and learned from. Speed depends on how long episodes are: `heaven-hell-3` under a
new policy has episodes of some 70 steps; `--time-limit 16` shows what a solved task costs, and `heaven-hell-25`, which
nobody leaves by chance, what full episodes of 100 steps cost. On a machine that others use too, compare steps per CPU
second, of programs that are measured in turns.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro

from asymrl.learners.compiled import CompiledProgram
from asymrl.learners.curve import recent_means
from asymrl.learners.learners import new_run
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.state import RunState, parameters, training_world
from asymrl.nn.layers import Embedding
from asymrl.settings import DQNSettings, Settings, new_settings, settings_type
from asymrl.settings.hyperparameters import PAPER_WORLDS
from asymrl.settings.methods import METHODS
from worlds import human


@dataclass(frozen=True)
class Options:
    """What to measure."""

    worlds: list[str] = field(default_factory=lambda: list(PAPER_WORLDS))
    methods: list[str] = field(default_factory=lambda: list(METHODS))
    runs: list[int] = field(default_factory=lambda: [1, 20])
    """How many runs at once."""
    seconds: float = 3.0
    """How long to measure each number, at least."""
    time_limit: int = 100
    """Steps after which an episode is cut off."""
    precision: str = "float32"
    """float32 or tf32."""


@dataclass(frozen=True)
class Speed:
    """A measurement."""

    steps_per_second: float
    steps_per_cpu_second: float
    updates_per_second: float
    mean_length: float
    compile_seconds: float


def measure(settings: Settings, runs: int, seconds: float) -> Speed:
    """Trains new runs for some seconds, after compiling and a first few updates."""
    program = CompiledProgram(settings)
    numbers = stack_numbers([settings] * runs)
    start = time.perf_counter()
    batch = program.start(range(runs))
    batch = _finished(program.train(batch, numbers, 1))
    compile_seconds = time.perf_counter() - start
    begin = time.perf_counter()
    batch = _finished(program.train(batch, numbers, 4))
    chunk = int(np.clip(seconds / 4 / ((time.perf_counter() - begin) / 4), 1, 10_000))
    steps, updates = int(batch.timesteps.sum()), int(batch.updates.max())
    begin, busy = time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        batch = _finished(program.train(batch, numbers, chunk))
    passed, busy = time.perf_counter() - begin, time.process_time() - busy
    steps, updates = int(batch.timesteps.sum()) - steps, int(batch.updates.max()) - updates
    length = float(np.mean(recent_means(batch)[1]))
    return Speed(steps / passed, steps / busy, updates / passed, length, compile_seconds)


def _finished(batch: RunState) -> RunState:
    return jax.block_until_ready(batch)


def bandwidth() -> float:
    """Bytes per second of a large copy, read and written."""
    size = 2**28 if jax.default_backend() != "cpu" else 2**25
    copy = jax.jit(lambda x: x + 1)
    x = _finished(copy(jnp.zeros(size)))  # pyright: ignore[reportArgumentType]
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        x = jax.block_until_ready(copy(x))
        times.append(time.perf_counter() - begin)
    return 8 * size / float(np.median(times))


def arithmetic() -> float:
    """Floating-point operations per second of a large product in float32."""
    n = 8192 if jax.default_backend() != "cpu" else 2048
    product = jax.jit(lambda a, b: jnp.dot(a, b, precision="highest"))
    a, b = jax.random.normal(jax.random.key(0), (2, n, n))
    jax.block_until_ready(product(a, b))
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        jax.block_until_ready(product(a, b))
        times.append(time.perf_counter() - begin)
    return 2 * n**3 / float(np.median(times))


def weights_read(settings: Settings) -> tuple[int, int, int]:
    """Weights of the actor and of the critic, without embeddings (which are looked up), and all parameters."""
    env = training_world(settings)
    run = jax.eval_shape(lambda: new_run(env, settings, 0))

    def weights(model: eqx.Module) -> int:
        parts = jax.tree.leaves(model, is_leaf=lambda part: isinstance(part, Embedding))
        return sum(parameters(part) for part in parts if not isinstance(part, Embedding))

    return weights(run.actor), weights(run.critic), parameters(run.actor) + parameters(run.critic)


def operations_per_step(settings: Settings) -> float:
    """Floating-point operations that one trained step needs, at least: two per weight in every pass over it.

    The actor acts and learns (forward and backward: three passes); the critic learns (three), is asked for advantages
    (one), and its target for targets (one). In the DQN family both networks learn and are asked for targets, several
    times for each step.
    """
    actor, critic, _ = weights_read(settings)
    if isinstance(settings, DQNSettings):
        return 2.0 * (actor + settings.train_ratio * 4 * (actor + critic))
    return 2.0 * (4 * actor + 5 * critic)


def bytes_per_step(settings: Settings, mean_length: float) -> float:
    """Bytes that one trained step must move, at least: the actor's weights once for the step of all episodes of a run,
    and for the update seven passes of Adam over all parameters, shared by the steps of the episodes.
    """
    actor, _, everything = weights_read(settings)
    of_updates = 7 * everything / (settings.episodes * mean_length)
    if isinstance(settings, DQNSettings):
        return 4.0 * (actor + settings.train_ratio * of_updates)
    return 4.0 * (actor / settings.episodes + of_updates)


def main(options: Options) -> None:
    device = jax.devices()[0]
    bytes_rate, flop_rate = bandwidth(), arithmetic()
    print(f"jax {jax.__version__}, {len(jax.devices())} x {device.device_kind}, {os.cpu_count()} CPU cores")
    print(f"copy {human(bytes_rate)}B/s, float32 product {human(flop_rate)}FLOP/s")
    columns = ("world", "method", "runs", "steps/s", "per CPU second", "updates/s of a run", "mean length",
               "arithmetic", "bandwidth", "compile s")  # fmt: skip
    print(f"| {' | '.join(columns)} |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    for world in options.worlds:
        for method in options.methods:
            for runs in options.runs:
                given = {"world": world, "method": method, "steps": 10**9, "time_limit": options.time_limit}
                if settings_type(method) is DQNSettings:
                    given["prefill"] = 0  # what is measured is learning
                settings = new_settings(**given, precision=options.precision)
                speed = measure(settings, runs, options.seconds)
                busy = speed.steps_per_second * operations_per_step(settings) / flop_rate
                moved = speed.steps_per_second * bytes_per_step(settings, speed.mean_length) / bytes_rate
                print(
                    f"| {world} | {method} | {runs} | {human(speed.steps_per_second)} "
                    f"| {human(speed.steps_per_cpu_second)} | {speed.updates_per_second:.1f} "
                    f"| {speed.mean_length:.0f} | {100 * busy:.0f} % | {100 * moved:.0f} % "
                    f"| {speed.compile_seconds:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(tyro.cli(Options))
