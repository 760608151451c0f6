"""How long the episodes of an update take: step by step and, on an NVIDIA GPU, in one kernel.

    python benchmarks/acting.py [--worlds heaven-hell-3 memory-four-rooms-7x7] [--method a2c] [--runs 20]
        [--precision tf32]

Both ways play the same episodes from the same starts; it is also counted how many runs agree. Worlds that the kernel
does not know, as those that leave much to chance after their start, are played step by step only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro

from asymrl.learners.compiled import CompiledProgram
from asymrl.learners.episodes import Episodes
from asymrl.learners.kernel_rollout import kernel_world, roll_out_in_kernel
from asymrl.learners.program import compiler_options, precision
from asymrl.learners.rollout import begin_rollout, step_by_step, with_product_precision
from asymrl.learners.state import keys_of
from asymrl.nn.agent import Actor, ReadyActor
from asymrl.settings import A2CSettings


@dataclass(frozen=True)
class Options:
    """What to measure."""

    worlds: list[str] = field(default_factory=lambda: ["heaven-hell-3", "shopping-6", "memory-four-rooms-7x7"])
    method: str = "a2c"
    runs: int = 20
    precision: Literal["float32", "tf32"] = "float32"
    repeats: int = 20


def timed(play: Callable[[ReadyActor], Episodes], actors: ReadyActor, repeats: int) -> tuple[float, Episodes]:
    """Milliseconds of a call, compilation apart, and the episodes."""
    arrays, static = eqx.partition(actors, eqx.is_array)
    compiled = jax.jit(
        lambda arrays: play(eqx.combine(arrays, static)), compiler_options=compiler_options(jax.default_backend())
    )
    episodes = jax.block_until_ready(compiled(arrays))
    begin = time.perf_counter()
    for _ in range(repeats):
        episodes = compiled(arrays)
    jax.block_until_ready(episodes)
    return 1e3 * (time.perf_counter() - begin) / repeats, jax.device_get(episodes)


def measure(world: str, options: Options) -> str:
    """A row of the table."""
    settings = A2CSettings(world=world, method=options.method, steps=10**6, precision=options.precision)
    program = CompiledProgram(settings)
    env, runs = program.world, program.start(range(options.runs))
    rules, active = kernel_world(env), jnp.ones(options.runs, bool)
    with precision(settings):
        start = begin_rollout(env, runs.actor.distribution, keys_of(runs), settings.episodes, settings.time_limit)
        ready = eqx.filter_vmap(Actor.prepared)(runs.actor)
        read = with_product_precision(ready)
        plain, episodes = timed(lambda a: step_by_step(env, a, start, active), ready, options.repeats)
        row = f"| {world} | {episodes.lengths.max()} | {plain:.2f} |"
        if rules is None or jax.default_backend() != "gpu":
            return f"{row} | |"
        kernel, again = timed(lambda a: roll_out_in_kernel(a, rules, start, active), read, options.repeats)
    agree = int(np.sum((episodes.lengths == again.lengths).all(axis=1)))
    return f"{row} {kernel:.2f} | {agree} |"


def main(options: Options) -> None:
    what = f"{options.runs} runs of {options.method}, {options.precision}"
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}, {what}")
    print("| world | longest episode | step by step, ms | in one kernel, ms | runs that agree |")
    print("|---|---:|---:|---:|---:|", flush=True)
    for world in options.worlds:
        print(measure(world, options), flush=True)


if __name__ == "__main__":
    main(tyro.cli(Options))
