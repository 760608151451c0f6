"""How fast this machine is: a matrix product, and a short training."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp

from asymrl.learning.settings import Settings
from asymrl.runs.batch import Batch

SIZE = 1024  # of the matrices
SECONDS = 2.0  # for which a training is measured
TRAINED = Settings(world="tiger", method="a2c", memory_size=32, hidden=(32,), time_limit=20)
RUNS = 8


def speeds(*, training: bool) -> dict[str, str]:
    """What was measured, in words."""
    product = {"matrix product": f"{matrix_speed() / 1e9:,.0f} GFLOP/s ({SIZE} x {SIZE}, float32)"}
    if not training:
        return product | {"training": "not measured; asymrl doctor --training does"}
    compiled, rate = training_speed()
    what = f"{TRAINED.world}, {TRAINED.method}, {RUNS} small runs"
    return product | {
        "compilation": f"{compiled:.1f} s until the first update was done ({what})",
        "training": f"{rate:,.0f} steps/s ({what})",
    }


def matrix_speed() -> float:
    """Floating-point operations per second of a compiled product of two square matrices."""
    x = jnp.ones((SIZE, SIZE))
    product = jax.jit(lambda a, b: a @ b)
    product(x, x).block_until_ready()
    count, begin = 0, time.perf_counter()
    while (took := time.perf_counter() - begin) < 0.5:
        product(x, x).block_until_ready()
        count += 1
    return 2 * SIZE**3 * count / took


def training_speed() -> tuple[float, float]:
    """Seconds until the first update is done, and steps per second after that."""
    batch = Batch.product([TRAINED], range(RUNS))
    begin = time.perf_counter()
    program, numbers = batch.program(), batch.numbers()
    runs = jax.block_until_ready(program.train(program.start(batch.seeds), numbers, 1))
    compiled = time.perf_counter() - begin
    before, begin = int(runs.timesteps.sum()), time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        runs = jax.block_until_ready(program.train(runs, numbers, 2))
    return compiled, (int(runs.timesteps.sum()) - before) / (time.perf_counter() - begin)
