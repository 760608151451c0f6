"""Programs and their trainers: what is compiled is shared, and every trainer trains on its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import equinox as eqx
import jax
import numpy as np
import pytest

from asymrl.learners.compiling import SCHEDULING, compile_lowered, compiler_options
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import DeviceTrainer, Program, program
from asymrl.settings import new_settings
from tests.learners.small import assert_same, member, start, tiny

SETTINGS = tiny(world="heaven-hell-1")


def test_there_is_one_program_per_shape_whoever_asks_first():
    together = threading.Barrier(4)

    def ask(i: int) -> object:
        together.wait()
        return program(tiny(world="heaven-hell-1", steps=100 + i, discount=0.5))

    with ThreadPoolExecutor(4) as pool:
        assert len({id(each) for each in pool.map(ask, range(4))}) == 1


def test_the_template_has_the_form_of_a_run():
    made = Program(SETTINGS)
    shapes = jax.tree.map(lambda leaf: leaf.shape, eqx.filter(member(made.start([0]), 0), eqx.is_array))
    assert shapes == jax.tree.map(lambda leaf: leaf.shape, made.shapes)
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(made.template()))


def test_trainers_in_threads_share_what_is_compiled_and_nothing_else():
    made, device, numbers = Program(SETTINGS), jax.devices()[0], stack_numbers([SETTINGS] * 2)
    with ThreadPoolExecutor(2) as pool:
        trainers = list(pool.map(lambda _: made.open(2, device), range(2)))
        first, second = (cast(DeviceTrainer, trainer) for trainer in trainers)
        assert first._executable is second._executable
        seeds = [[1, 2], [3, 4]]
        begun = [start(made.world, SETTINGS, each) for each in seeds]
        together = list(pool.map(lambda t, states: t.train(states, numbers, 5), trainers, begun))
    for each, states in zip(seeds, together, strict=True):
        assert_same(states, trainers[0].train(start(made.world, SETTINGS, each), numbers, 5))
    needed, own = trainers[0].bytes_needed(), sum(leaf.nbytes for leaf in jax.tree.leaves(begun[0].actor))
    assert needed is not None
    assert needed > 2 * own


def test_a_lane_without_steps_is_left_alone():
    """An empty lane of a pool: what stands in it stays, and the others train as if it were not there."""
    made = Program(SETTINGS)
    trainer, begun = made.open(2, jax.devices()[0]), start(made.world, SETTINGS, [1, 2])
    empty = jax.device_get(eqx.filter(member(begun, 1), eqx.is_array))
    numbers = stack_numbers([SETTINGS] * 2)
    states = trainer.train(begun, numbers.replaced(steps=np.array([SETTINGS.steps, 0], np.int32)), 4)
    assert_same(member(states, 1), empty)
    full = trainer.train(start(made.world, SETTINGS, [1, 2]), numbers, 4)
    assert_same(member(states, 0), member(full, 0))


ON_TWO_DEVICES = """
import jax, numpy as np
from asymrl.envs.gymnasium_world import from_gymnasium
from asymrl.learners.program import Program
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import Program
from tests.envs.gym.foreign_envs import Guess
from tests.learners.small import tiny

compiled = tiny(world="heaven-hell-1")
stepped = tiny(world="guess", time_limit=5)
for settings, program in (
    (compiled, Program(compiled)),
    (stepped, Program(stepped, from_gymnasium(Guess, time_limit=5))),
):
    reached = []
    for device in jax.devices():
        trainer = program.open(1, device)
        states = trainer.train(program.start([3]), stack_numbers([settings]), 3)
        states = trainer.train(states, stack_numbers([settings]), 2)
        assert states.updates.devices() == {device}, (device, states.updates.devices())
        reached.append((states.updates.tolist(), np.asarray(states.actor.head.layers[0].weight)))
        trainer.close()
    assert reached[0][0] == reached[1][0] == [5]
    np.testing.assert_array_equal(reached[0][1], reached[1][1])
print("as expected")
"""


@pytest.mark.slow
def test_a_trainer_stays_on_its_device():
    """Two virtual devices, in a process of its own; everyday, the engine's tests train on two."""
    flags = os.environ["XLA_FLAGS"] + " --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", ON_TWO_DEVICES], env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "as expected\n"), done.stderr


def test_options_that_the_compiler_does_not_know_are_left_out():
    """They come and go with its versions, and training must not end with them."""
    lowered = jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((), np.float32))
    options = {
        "xla_gpu_no_such_option": True,
        "xla_gpu_command_buffer_scheduling_mode": "no such mode",
        "xla_cpu_multi_thread_eigen": False,
    }
    with pytest.warns(UserWarning, match="this version of XLA refuses"):
        compiled = compile_lowered(lowered, options)
    assert compiled(np.float32(1)) == 2
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_gpu_no_such_option"):
        lowered.compile(compiler_options=options)


def test_only_kernels_of_a_learner_that_was_trained_like_that_run_concurrently(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    methods = ("a2c", "a2c-asym-hs", "ppo-asym-hs", "adqn")

    def modes() -> list[str | None]:
        return [compiler_options("gpu", new_settings(world="tiger", method=name)).get(SCHEDULING) for name in methods]

    assert modes() == ["CONCURRENT", "CONCURRENT", None, None]
    for options in (compiler_options("gpu"), compiler_options("gpu", SETTINGS)):
        jax.jit(lambda x: x).lower(np.float32(0)).compile(compiler_options=options)  # all are known to this version
    monkeypatch.setenv("XLA_FLAGS", f"--{SCHEDULING}=LHS")
    assert modes() == [None] * 4
