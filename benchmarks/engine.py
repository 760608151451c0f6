"""How well the engine keeps a machine busy: `asymrl train` with several seeds, from its start to its end.

    python benchmarks/engine.py                                   # cold, then with a warm compilation cache
    python benchmarks/engine.py --against ../asymrl-0.1/src       # the same command of another version, in turns

The numbers come from what the command prints, so that any version can be measured. Runs of one version see the same
compilation cache, first empty, then warm.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import tyro

STEPS = re.compile(r"^\s*\d+%\s+(\d[\d ]*) steps")


@dataclass(frozen=True)
class Options:
    """What to measure."""

    world: str = "heaven-hell-3"
    seeds: int = 4
    steps: int = 150_000
    """Of each run."""
    against: Path | None = None
    """The folder `src` of another version."""
    repeat: int = 1
    """Measurements with a warm cache, of each version in turns."""


class Measured(NamedTuple):
    """One call of the command."""

    first: float
    """Seconds until the first progress is shown: the first update and at most a second more."""
    rate: float
    """Steps per second of all runs together, from a tenth to eight tenths of their steps."""
    tail: float
    """The same for the last tenth."""
    seconds: float
    """From start to end."""


def measure(source: Path, cache: Path, options: Options) -> Measured:
    """Runs the command of one version and follows what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-u", "-m", "asymrl", "train", options.world]
        command += ["--seeds", str(options.seeds), "--steps", str(options.steps), "--out", f"{folder}/runs"]
        environment = {**os.environ, "PYTHONPATH": str(source), "ASYMRL_CACHE": str(cache)}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        begin, points = time.monotonic(), [(0.0, 0)]
        command += ["--refresh-seconds", "0.5"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if match := STEPS.match(line.decode()):
                    now = time.monotonic() - begin  # when the line came
                    points.append((now, int(match[1].replace(" ", ""))))
        seconds = time.monotonic() - begin
    if process.returncode or len(points) < 4:
        raise SystemExit(f"{' '.join(command)} failed with status {process.returncode}")
    total = points[-1][1]
    return Measured(points[1][0], _rate(points, 0.1 * total, 0.8 * total), _rate(points, 0.9 * total, total), seconds)


def _rate(points: list[tuple[float, int]], low: float, high: float) -> float:
    """Steps per second between two numbers of steps, by the points nearest to them."""
    (t0, s0), (t1, s1) = (min(points[1:], key=lambda point: abs(point[1] - wanted)) for wanted in (low, high))
    return (s1 - s0) / (t1 - t0) if t1 > t0 else float("nan")


def main(options: Options) -> None:
    here = Path(__file__).parents[1] / "src"
    versions = {"here": here} | ({"there": options.against} if options.against else {})
    print(f"asymrl train {options.world} --seeds {options.seeds} --steps {options.steps}, {os.cpu_count()} cores")
    print(
        f"{'version':<8}{'cache':<6}{'first update, s':>16}{'steps/s':>10}{'last tenth':>12}{'ratio':>7}{'wall, s':>9}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for cache in ["cold", *["warm"] * options.repeat]:
            for name, source in versions.items():
                found = measure(source, Path(folder) / name, options)
                ratio = found.tail / found.rate
                print(
                    f"{name:<8}{cache:<6}{found.first:>16.1f}{found.rate:>10.0f}{found.tail:>12.0f}{ratio:>7.2f}"
                    f"{found.seconds:>9.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(tyro.cli(Options))
