"""Steps per second of `ppo`, and of RecurrentPPO of Stable-Baselines3 with the same settings in the same process.

    python benchmarks/ppo.py                                                    # CartPole with hidden velocities
    python benchmarks/ppo.py --world heaven-hell-3 --defaults --runs 20 --set streams=256 precision=tf32  # ppo alone

Each step is simulated once and learned from in every epoch. One run per core is how `asymrl train` uses a CPU; a single
run uses one core, as RecurrentPPO does with one thread, the fastest for networks as small as these. Where others use
the machine too, compare steps per CPU second. RecurrentPPO is left out where sb3-contrib is not installed, or with
another world.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import jax
import tyro

from recurrent_ppo import Task, our_settings, recurrent_ppo

CART_POLE = "cart-pole"
FOREVER = 10**9  # steps


@dataclass(frozen=True)
class Options:
    """What to measure."""

    task: tyro.conf.OmitArgPrefixes[Task] = field(default_factory=Task)
    world: str = CART_POLE
    method: str = "ppo"
    defaults: bool = False
    """Train with the defaults of `ppo` instead of the settings of the task."""
    set: list[str] = field(default_factory=list)
    """Settings besides, such as streams=256 precision=tf32."""
    runs: list[int] = field(default_factory=list)
    """How many runs at once; by default one, and one per core."""
    threads: int = 1
    """Of torch."""
    seconds: float = 10.0
    """How long to measure each number, at least."""


@dataclass(frozen=True)
class Speed:
    """A measurement."""

    per_second: float
    per_cpu_second: float

    def __str__(self) -> str:
        return f"{self.per_second:>12,.0f} steps/s {self.per_cpu_second:>12,.0f} per CPU second"

    def times(self, other: Speed) -> str:
        wall, busy = self.per_second / other.per_second, self.per_cpu_second / other.per_cpu_second
        return f"; {wall:.1f} times as many, {busy:.1f} per CPU second"


def timed(train: Callable[[], int], seconds: float) -> Speed:
    """Calls `train`, which returns the steps it took, until the time is over."""
    steps, begin, busy = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        steps += train()
    return Speed(steps / (time.perf_counter() - begin), steps / (time.process_time() - busy))


def measure_ours(options: Options, runs: int) -> Speed:
    """New runs, spread over the devices, each of which has a thread of its own."""
    from asymrl.api.wanted import settings_for
    from asymrl.cli.commands.sweep import axis
    from asymrl.learners.compiled import CompiledProgram
    from asymrl.learners.numbers import stack_numbers

    chosen = {} if options.defaults else our_settings(options.task)
    given = {name: values[0] for name, values in map(axis, options.set)}
    settings = settings_for(options.world, options.method, **{**chosen, **given, "steps": FOREVER})
    program = CompiledProgram(settings.shape())
    devices = jax.local_devices()[:runs]
    lanes = [runs // len(devices) + (i < runs % len(devices)) for i in range(len(devices))]
    numbers = [stack_numbers([settings] * count) for count in lanes]
    trainers = [program.open(count, device) for count, device in zip(lanes, devices, strict=True)]
    batches = [program.start(range(100 * i, 100 * i + count)) for i, count in enumerate(lanes)]
    updates = 2

    def train(i: int) -> int:
        before = int(batches[i].timesteps.sum())
        batches[i] = jax.block_until_ready(trainers[i].train(batches[i], numbers[i], updates))
        return int(batches[i].timesteps.sum()) - before

    with ThreadPoolExecutor(len(devices)) as pool:
        all_devices = lambda: sum(pool.map(train, range(len(devices))))  # noqa: E731
        all_devices()
        begin = time.perf_counter()
        all_devices()
        updates = max(2, int(updates * options.seconds / 8 / (time.perf_counter() - begin)))
        return timed(all_devices, options.seconds)


def measure_recurrent_ppo(options: Options) -> Speed:
    """A new model, from the start of its second rollout to that of its last."""
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.callbacks import BaseCallback  # pyright: ignore[reportMissingImports]

    class Clock(BaseCallback):
        """Notes steps, time and CPU time whenever a rollout begins; ends training when the time is over."""

        def __init__(self):
            super().__init__()
            self.notes: list[tuple[int, float, float]] = []

        def _on_rollout_start(self) -> None:
            self.notes.append((self.num_timesteps, time.perf_counter(), time.process_time()))

        def _on_step(self) -> bool:
            return len(self.notes) < 3 or self.notes[-1][1] - self.notes[1][1] < options.seconds

    torch.set_num_threads(options.threads)
    clock = Clock()
    recurrent_ppo(options.task, seed=0).learn(FOREVER, callback=clock)
    begin, end = clock.notes[1], clock.notes[-1]
    steps = end[0] - begin[0]
    return Speed(steps / (end[1] - begin[1]), steps / (end[2] - begin[2]))


def main(options: Options) -> None:
    cores = len(os.sched_getaffinity(0))
    jax.config.update("jax_num_cpu_devices", cores)
    device = jax.local_devices()[0].device_kind
    print(f"jax {jax.__version__}, {len(jax.local_devices())} x {device}, {cores} cores; {options.world}")
    theirs = None
    if options.world == CART_POLE and not options.defaults and importlib.util.find_spec("sb3_contrib"):
        theirs = measure_recurrent_ppo(options)
        print(f"{'RecurrentPPO':<20}{theirs}", flush=True)
    for runs in options.runs or sorted({1, cores}):
        ours = measure_ours(options, runs)
        ratio = "" if theirs is None else ours.times(theirs)
        print(f"{f'{options.method}, {runs} runs':<20}{ours}{ratio}", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Options))
