"""How fast one command trains figure 3: every world and method with 20 seeds, each run a share of its length.

    python benchmarks/figure.py --share 0.25 --processes 16 --lanes 20 --precision tf32

The lengths are those of the authors' scripts, so that the whole figure has 3.2 G steps. The time includes compilation,
which a shorter figure does not make shorter; the last line says how long the whole would take at the same rate. Runs
that have learned may have other lengths of episodes than runs at their beginning: what a share says about the whole is
an estimate.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import jax
import tyro

from asymrl.api.run_folders import reproduction_store
from asymrl.engine.driver import train_store
from asymrl.engine.monitoring.listeners import Silent
from asymrl.engine.monitoring.progress import Progress
from asymrl.engine.placement import Pace, Placement
from asymrl.paper.parts import POINTS, WHOLE
from asymrl.settings.hyperparameters import PAPER_WORLDS, authors_budget
from asymrl.stores.store import Store


@dataclass(frozen=True)
class Options:
    """What to measure."""

    share: float = 0.25
    """Of the steps of each run."""
    processes: int = 16
    lanes: int = 20
    precision: Literal["float32", "tf32"] = "tf32"
    env: tuple[str, ...] = PAPER_WORLDS
    seeds: int = 20


class Pulse(Silent):
    """Prints how far the training is, every ten seconds, and remembers when it began to make steps."""

    def __init__(self, started: float):
        self.started, self.first, self.shown = started, float("nan"), 0.0

    def progress(self, progress: Progress) -> None:
        passed = time.monotonic() - self.started
        if progress.trained > 0 and not self.first <= passed:
            self.first = passed
        if passed - self.shown >= 10:
            self.shown = passed
            print(f"{passed:6.0f} s  {progress.trained / 1e6:8.1f} M steps", flush=True)


def show_groups(store: Store) -> None:
    """The steps per second of the runs of each world and method, over their whole training."""
    groups: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for number, result in store.results().items():
        settings = store.runs[number].settings
        groups.setdefault((settings.world, settings.method), []).append((result.timesteps, result.seconds))
    print("| world | method | runs | M steps | seconds in a lane | k steps/s |")
    print("|---|---|---:|---:|---:|---:|")
    for (world, method), runs in groups.items():
        steps, seconds = sum(run[0] for run in runs), max(run[1] for run in runs)
        print(f"| {world} | {method} | {len(runs)} | {steps / 1e6:.1f} | {seconds:.0f} | {steps / seconds / 1e3:.0f} |")


def main(options: Options) -> None:
    # A multiple of the points of a curve, as every length must be.
    steps = {world: POINTS * round(options.share * authors_budget(world) / POINTS) for world in PAPER_WORLDS}
    scope = WHOLE["curves"]._replace(worlds=options.env, seeds=options.seeds, steps=steps)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        store, only = reproduction_store(
            "curves", scope, Path(folder) / "runs", keep_networks=False, precision=options.precision
        )
        pulse = Pulse(begin)
        placement = Placement(lanes=options.lanes, processes=options.processes)
        train_store(store, pulse, placement=placement, pace=Pace(checkpoint_seconds=None), only=only)
        seconds = time.monotonic() - begin
        show_groups(store)
        total = sum(result.timesteps for result in store.results().values())
        store.release()
    rate = total / (seconds - pulse.first)
    print(f"jax {jax.__version__}, {len(only)} runs, {options.processes} processes of {options.lanes} lanes")
    first = f"the first {pulse.first:.0f} s without any"
    print(f"{total / 1e6:.0f} M steps in {seconds:.0f} s, {first}: {rate:,.0f} steps/s")
    whole = sum(authors_budget(run.settings.world) for run in store.runs)
    print(f"all {whole / 1e9:.2f} G steps at that rate: {(pulse.first + whole / rate) / 60:.0f} minutes")


if __name__ == "__main__":
    main(tyro.cli(Options))
