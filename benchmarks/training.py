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
from typing import Any

import equinox as eqx
import jax
import numpy as np
import tyro

from asymrl.learners.curve import recent_means
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import Program
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
    set: list[str] = field(default_factory=list)
    """Other settings, such as streams=256."""


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
    program, numbers = Program(settings), stack_numbers([settings] * runs)

    def train(batch: Any, updates: int) -> Any:
        return jax.block_until_ready(program.train(batch, numbers, updates))

    start = time.perf_counter()
    batch = train(program.start(range(runs)), 1)
    begin = time.perf_counter()
    batch = train(batch, 4)
    chunk = int(np.clip(seconds / (time.perf_counter() - begin), 1, 10_000))
    steps, updates = int(batch.timesteps.sum()), int(batch.updates.max())
    compiled, begin, busy = begin - start, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        batch = train(batch, chunk)
    passed, busy = time.perf_counter() - begin, time.process_time() - busy
    steps, updates = int(batch.timesteps.sum()) - steps, int(batch.updates.max()) - updates
    _, length = eqx.filter_vmap(recent_means)(batch)
    return Speed(steps / passed, steps / busy, updates / passed, float(np.mean(length)), compiled)


def main(options: Options) -> None:
    print(f"jax {jax.__version__}, {len(jax.devices())} x {jax.devices()[0].device_kind}, {os.cpu_count()} CPU cores")
    columns = ("world", "method", "runs", "steps/s", "per CPU second", "updates/s of a run", "mean length", "compile s")
    print(f"| {' | '.join(columns)} |")
    print("|---|---|---:|---:|---:|---:|---:|---:|", flush=True)
    for world in options.worlds:
        for method in options.methods:
            given: dict[str, Any] = {"time_limit": options.time_limit, "precision": options.precision}
            if settings_type(method) is DQNSettings:
                given["prefill"] = 0  # what is measured is learning
            for each in options.set:
                name, _, value = each.partition("=")
                given[name] = int(value) if value.isdigit() else value
            settings = new_settings(world=world, method=method, steps=10**9, **given)
            for runs in options.runs:
                speed = measure(settings, runs, options.seconds)
                print(
                    f"| {world} | {method} | {runs} | {human(speed.steps_per_second)} "
                    f"| {human(speed.steps_per_cpu_second)} | {speed.updates_per_second:.1f} "
                    f"| {speed.mean_length:.0f} | {speed.compile_seconds:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(tyro.cli(Options))
