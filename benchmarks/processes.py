"""Trained steps per second of several processes that share a GPU, in each world, and what a whole grid search needs.

    python benchmarks/processes.py [--worlds heaven-hell-3] [--processes 3] [--runs 300] [--precision tf32]

All processes compile at the same time, in groups of one world each; then the groups train new runs one after the other.
The last line extrapolates the paper's grids: 900 runs of 2 million steps for each world and method.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import numpy as np
import tyro

from asymrl.learners.compiled import CompiledProgram
from asymrl.learners.numbers import stack_numbers
from asymrl.runs.process_workers import shared_device
from asymrl.settings import new_settings
from asymrl.settings.hyperparameters import PAPER_WORLDS
from worlds import human

GRID_STEPS = 900 * 2_000_000  # of each world and method
METHODS = 5  # of the paper
PATIENCE_SECONDS = 420.0  # for the next process to have compiled its program, or to have measured


@dataclass(frozen=True)
class Options:
    """What to measure."""

    worlds: list[str] = field(default_factory=lambda: list(PAPER_WORLDS))
    method: str = "a2c-asym-hs"
    processes: int = 3
    """Processes that train at the same time."""
    runs: int = 300
    """Runs of each process."""
    seconds: float = 5.0
    """How long to measure each world."""
    precision: Literal["float32", "tf32"] = "float32"


def train(options: Options, world: str, is_ready: Any, turn: Any, together: Any, results: Any) -> None:
    """The main function of a process: compiles, waits for its turn, trains, and reports its steps per second."""
    settings = new_settings(world=world, method=options.method, steps=10**9, precision=options.precision)
    program, numbers = CompiledProgram(settings), stack_numbers([settings] * options.runs)
    program.open(options.runs, jax.local_devices()[0])
    is_ready.release()
    turn.wait()
    runs = jax.block_until_ready(program.train(program.start(range(options.runs)), numbers, 4))
    begin = time.perf_counter()
    runs = jax.block_until_ready(program.train(runs, numbers, 4))
    updates = max(1, int(options.seconds / 8 / ((time.perf_counter() - begin) / 4)))
    together.wait()
    begin = time.perf_counter()
    steps = int(np.asarray(runs.timesteps, np.int64).sum())
    while time.perf_counter() - begin < options.seconds:
        runs = jax.block_until_ready(program.train(runs, numbers, updates))
    passed = time.perf_counter() - begin
    results.put((int(np.asarray(runs.timesteps, np.int64).sum()) - steps) / passed)
    together.wait()  # a process that ended early would leave more of the GPU to the others


def main(options: Options) -> None:
    context = multiprocessing.get_context("spawn")
    with shared_device() as environment:
        os.environ.update(environment)
        is_ready, turns, groups = context.Semaphore(0), {}, {}
        begin = time.perf_counter()
        for world in options.worlds:
            turn, together, results = context.Event(), context.Barrier(options.processes), context.Queue()
            turns[world] = turn, together, results  # kept: a barrier that is collected here is gone for its processes
            arguments = (options, world, is_ready, turn, together, results)
            groups[world] = [
                context.Process(target=train, args=arguments, daemon=True) for _ in range(options.processes)
            ]
            for process in groups[world]:
                process.start()
        for _ in range(len(options.worlds) * options.processes):
            if not is_ready.acquire(timeout=PATIENCE_SECONDS):
                raise SystemExit("a process did not compile its program in time")
        print(f"compiled after {time.perf_counter() - begin:.0f} s", flush=True)
        print("| world | processes x runs | steps/s together | one grid, minutes |\n|---|---:|---:|---:|", flush=True)
        seconds = 0.0
        for world in options.worlds:
            turn, _, results = turns[world]
            turn.set()
            rate = sum(results.get(timeout=PATIENCE_SECONDS) for _ in groups[world])
            for process in groups[world]:
                process.join()
            seconds += GRID_STEPS / rate
            size = f"{options.processes} x {options.runs}"
            print(f"| {world} | {size} | {human(rate)} | {GRID_STEPS / rate / 60:.1f} |", flush=True)
    runs = 900 * METHODS * len(options.worlds)
    print(f"{runs:,} runs with five methods at these rates: {METHODS * seconds / 3600:.1f} hours".replace(",", " "))


if __name__ == "__main__":
    main(tyro.cli(Options))
