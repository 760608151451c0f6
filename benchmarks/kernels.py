"""What each fast path of `asymrl.kernels` is worth for a whole training, on an NVIDIA GPU.

    python benchmarks/kernels.py [--worlds heaven-hell-3 memory-four-rooms-7x7] [--runs 20 300] [--precision tf32]

Each row trains new runs with one fast path less, and the first with all of them. A path that a training does not use
changes nothing but noise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import tyro

from asymrl.kernels import attach
from asymrl.settings import new_settings
from training import measure
from worlds import human


@dataclass(frozen=True)
class Options:
    """What to measure."""

    worlds: list[str] = field(default_factory=lambda: ["heaven-hell-3", "memory-four-rooms-7x7"])
    method: str = "a2c-asym-hs"
    runs: list[int] = field(default_factory=lambda: [20, 300])
    precision: str = "tf32"
    time_limit: int = 100
    seconds: float = 5.0


def without(left_out: str | None, fast_path: Callable[[str], Callable[..., Any]]) -> Callable[[str], Any]:
    """The look-up of fast paths, where one of them is the plain function."""

    @functools.cache
    def look_up(name: str) -> Callable[..., Any]:
        if name == left_out:
            return lambda plain, *arguments, **named: plain(*arguments, **named)
        return fast_path(name)

    return look_up


def main(options: Options) -> None:
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}")
    print(
        "| world | runs | without | steps/s | with all, times | compile s |\n|---|---:|---|---:|---:|---:|", flush=True
    )
    fast_path = attach.fast_path
    for world in options.worlds:
        for runs in options.runs:
            given = {"time_limit": options.time_limit, "precision": options.precision, "steps": 10**9}
            settings, whole = new_settings(world=world, method=options.method, **given), 0.0
            for left_out in (None, *attach.FAST_PATHS):
                attach.fast_path = without(left_out, fast_path)
                jax.clear_caches()  # what was traced before has the other paths in it
                speed = measure(settings, runs, options.seconds)
                whole = whole or speed.steps_per_second
                name = "" if left_out is None else f"`{left_out.removeprefix('asymrl.')}`"
                print(
                    f"| {world} | {runs} | {name} | {human(speed.steps_per_second)} "
                    f"| {whole / speed.steps_per_second:.2f} | {speed.compile_seconds:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(tyro.cli(Options))
