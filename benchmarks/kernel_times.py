"""Where the time of an update goes on a device: its kernels, by their names, from JAX's profiler.

    python benchmarks/kernel_times.py [--world heaven-hell-3] [--method a2c-asym-hs] [--time-limit 100] [--runs 20]

On a GPU the kernels of ours are called `kernel`; those of the library say what they multiply.
"""

from __future__ import annotations

import collections
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import tyro

from asymrl.learners.compiled import CompiledProgram
from asymrl.learners.numbers import stack_numbers
from asymrl.settings import new_settings
from asymrl.settings.methods import method


@dataclass(frozen=True)
class Options:
    """What to measure."""

    world: str = "heaven-hell-3"
    method: str = "a2c-asym-hs"
    time_limit: int = 100
    runs: int = 20
    precision: Literal["float32", "tf32"] = "float32"
    updates: int = 20
    shown: int = 20
    """Kernels of each stream, the slowest first."""


def main(options: Options) -> None:
    how: dict[str, Any] = {"time_limit": options.time_limit, "precision": options.precision}
    if method(options.method).learner == "dqn":
        how |= {"prefill": 200, "replay_steps": 600_000}  # learning begins at once
    settings = new_settings(world=options.world, method=options.method, steps=10**8, **how)
    program, numbers = CompiledProgram(settings), stack_numbers([settings] * options.runs)
    runs = jax.block_until_ready(program.train(program.start(range(options.runs)), numbers, options.updates))
    updates, steps, begin = runs.updates.mean(), runs.timesteps.sum(), time.perf_counter()
    runs = jax.block_until_ready(program.train(runs, numbers, options.updates))
    seconds = time.perf_counter() - begin
    # A run of DQN may need several calls for an update.
    alone, rate = 1e3 * seconds / (runs.updates.mean() - updates), (runs.timesteps.sum() - steps) / seconds
    what = f"{options.world}, {options.method}, {options.runs} runs"
    print(f"{what}: {alone:.3f} ms per update, {rate:,.0f} steps/s, without the profiler")
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(program.train(runs, numbers, options.updates))
        (trace,) = Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(trace))
        for plane in data.planes:
            if plane.name.startswith("/device"):
                for line in plane.lines:
                    show(f"{plane.name} {line.name}", list(line.events), options)


def show(name: str, events: list, options: Options) -> None:
    """A stream's kernels, in milliseconds and calls per update."""
    times, calls = collections.Counter(), collections.Counter()
    for event in events:
        times[event.name] += event.duration_ns / 1e6 / options.updates
        calls[event.name] += 1
    print(f"{name}: {sum(times.values()):.3f} ms per update")
    for kernel, milliseconds in times.most_common(options.shown):
        print(f"  {milliseconds:8.4f} ms  x {calls[kernel] / options.updates:6.1f}  {kernel[:90]}")


if __name__ == "__main__":
    main(tyro.cli(Options))
