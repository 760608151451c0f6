"""Runs shared out over devices. The devices are virtual, so this happens in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

COUNT = """
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from asymrl.learning.settings import Settings
from asymrl.learning.program import stack_numbers
from asymrl.learning.sharding import spread


class Runs(eqx.Module):
    updates: jax.Array
    name: str = eqx.field(static=True)


class Counting:
    '''Stands in for a program: a run counts its updates, and is complete after as many as it has steps.'''

    def _train_batch(self, arrays, numbers, updates):
        def go_on(loop):
            return (loop[0] < updates) & jnp.any(loop[1].updates < numbers.steps)

        def once(loop):
            done, runs = loop
            return done + 1, Runs(runs.updates + (runs.updates < numbers.steps), runs.name)

        return jax.lax.while_loop(go_on, once, (jnp.int32(0), arrays))[1]


def counted(steps, updates):
    numbers = stack_numbers([Settings(steps=n) for n in steps])
    runs = Runs(jnp.zeros(len(steps), jnp.int32), "counting")
    program, runs, numbers = spread(Counting(), runs, numbers)
    for n in updates:
        runs = program.train(runs, numbers, n)
    return runs

runs = counted([3, 9, 5, 2, 20], [4, 4])
assert np.asarray(runs.updates).tolist() == [3, 8, 5, 2, 8, 0], runs.updates
assert runs.name == "counting"
assert len(runs.updates.sharding.device_set) == 2
assert np.asarray(counted([5, 1], [9]).updates).tolist() == [5, 1]
assert isinstance(spread(Counting(), Runs(jnp.zeros(1), ""), stack_numbers([Settings()]))[0], Counting)
print("as expected")
"""


def test_each_device_trains_its_share_and_the_rest_stands_still():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", COUNT], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "as expected\n"), done.stderr
