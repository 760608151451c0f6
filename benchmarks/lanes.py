"""What it saves that runs which still train go on without those that are over, in a narrower program.

    python benchmarks/lanes.py [--runs 4] [--short 20000] [--long 200000]

One batch of heaven-hell-3, all but one of whose runs are short, is trained twice: in lanes that stay as many as they
were, and in lanes that become fewer. To compile the narrower programs counts, to compile the first one does not.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import jax
import tyro
from asymrl.runs.batch import Batch
from asymrl.sweeps import training
from asymrl.sweeps.compiled import Compiled

from asymrl.learning.settings import Settings


@dataclass(frozen=True)
class Options:
    """What to measure."""

    runs: int = 4
    short: int = 20_000
    """Steps of all runs but one."""
    long: int = 200_000
    """Steps of that one."""


def main(options: Options) -> None:
    """Prints a table."""
    steps = [options.short] * (options.runs - 1) + [options.long]
    settings = tuple(Settings("heaven-hell-3", "a2c-asym-hs", steps=each) for each in steps)
    task = training.Task(Batch(settings, tuple(range(options.runs))), options.runs)
    device = jax.local_devices()[0]
    print(f"jax {jax.__version__}, {device.device_kind}, {options.runs - 1} runs of {options.short:,} steps", end=", ")
    print(f"one of {options.long:,}")
    print("| lanes | seconds | lanes in the end |\n|---|---:|---:|")
    compiled = Compiled(settings[0].shape(), options.runs, device)
    for name, worth in (("as many as before", math.inf), ("fewer", training.WORTH_SECONDS)):
        training.WORTH_SECONDS = worth
        under_way, begin = training.BatchTraining(task, compiled), time.monotonic()
        while under_way.is_active():
            under_way.advance()
        print(f"| {name} | {time.monotonic() - begin:.0f} | {under_way.lanes} |", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
