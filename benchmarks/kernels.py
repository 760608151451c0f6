"""How many kernels an update of the training program is on a GPU, counted without one.

    python benchmarks/kernels.py [--world heaven-hell-3] [--method a2c-asym-hs] [--runs 20]

The program is compiled for an H200 that need not be there; only NVIDIA's plugin for JAX is needed, and its compiler:

    pip install --no-deps jax-cuda12-plugin jax-cuda12-pjrt nvidia-cuda-nvcc-cu12

the first two in the version of your JAX (or install `asymrl[cuda]`). Where a batch is small, kernels of two
microseconds each are what an update costs. Nothing is measured here: fewer kernels are a reason to measure
again on a real one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

# Before JAX looks for devices: there is neither a driver nor cuDNN to check.
os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu,cuda"

import jax
import jax.numpy as jnp
import tyro
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from asymrl.learners.compiled import CompiledProgram
from asymrl.learners.episodes import STEPS_PER_QUESTION
from asymrl.learners.lengths import lengths_compiled
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.program import compiler_options
from asymrl.settings import A2CSettings, Settings

H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  memory_bandwidth: 4800000000000 l2_cache_size: 52428800 device_memory_size: 150000000000
  cuda_compute_capability { major: 9 minor: 0 }
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 1 patch: 0 }
runtime_version { major: 12 minor: 9 patch: 0 }
device_description_str: "NVIDIA H200"
"""
NO_KERNEL = {"bitcast", "get-tuple-element", "tuple", "parameter", "constant", "after-all", "while", "conditional"}


@dataclass(frozen=True)
class Options:
    """What to count."""

    world: str = "heaven-hell-3"
    method: str = "a2c-asym-hs"
    runs: int = 20


def compiled_text(settings: Settings, runs: int) -> str:
    """The training program of a batch as the compiler leaves it, for an H200."""
    topology = topologies.get_topology_desc(platform="cuda", topology_name="one", target_config=H200, topology="1x1x1")
    place = SingleDeviceSharding(topology.devices[0])
    program = CompiledProgram(settings)
    numbers, one = jax.eval_shape(lambda: (stack_numbers([settings] * runs), jnp.int32(1)))
    states = jax.tree.map(lambda x: jax.ShapeDtypeStruct((runs, *x.shape), x.dtype), program.shapes)
    given = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), (states, numbers, one))
    lowered = jax.jit(program.train_lanes, donate_argnums=0).trace(*given).lower(lowering_platforms=("cuda",))
    # There is no device to try alternatives on.
    options = {**compiler_options("gpu", settings), "xla_gpu_autotune_level": 0}
    return lowered.compile(compiler_options=options).as_text() or ""


class Module:
    """The computations of a compiled program, each a list of instructions."""

    def __init__(self, text: str):
        self.bodies: dict[str, list[str]] = {}
        self.entry, name = "", ""
        for line in re.sub(r"/\*.*?\*/", "", text).splitlines():
            if line.endswith("{") and not line.startswith((" ", "HloModule")):
                name = re.sub(r"^ENTRY ", "", line).split()[0].lstrip("%")
                self.bodies[name] = []
                self.entry = name if line.startswith("ENTRY") else self.entry
            elif line.startswith("  ") and " = " in line:
                self.bodies[name].append(line)

    def kernels(self, name: str) -> int:
        return sum(operation(line) not in NO_KERNEL for line in self.bodies[name])

    def inner(self, name: str, kind: str) -> Iterator[list[str]]:
        """The computations of each loop (`while`: its body) or choice (`conditional`: its branches), in order."""
        for line in self.bodies[name]:
            if operation(line) != kind:
                continue
            if kind == "while":
                yield re.findall(r"body=%?([\w.\-]+)", line)
            else:
                (branches,) = re.findall(r"branch_computations=\{([^}]*)\}", line)
                yield [branch.strip().lstrip("%") for branch in branches.split(",")]


def operation(line: str) -> str:
    """What an instruction does, such as `fusion`. Its type comes first, and may be a tuple."""
    rest = line.split(" = ", 1)[1]
    depth, end = 0, rest.find(" ")
    if rest.startswith("("):
        for end, letter in enumerate(rest):  # noqa: B007
            depth += (letter == "(") - (letter == ")")
            if depth == 0:
                break
    return rest[end + 1 :].strip().split("(", 1)[0]


def main(options: Options) -> None:
    settings = A2CSettings(world=options.world, method=options.method, steps=10**6)
    module = Module(compiled_text(settings, options.runs))
    ((update,),) = module.inner(module.entry, "while")
    loops = [body for (body,) in module.inner(update, "while")]
    *loops, _ = loops  # the last copies targets, at most updates of none
    if len(loops) > 1:
        sys.exit(f"{len(loops)} more loops in an update, where at most that of acting was expected; look at them")
    lengths = lengths_compiled(settings.time_limit)
    critic, actor = (
        [module.kernels(branch) for branch in branches] for branches in module.inner(update, "conditional")
    )
    # Where whole episodes are one kernel, that is one of the rest.
    rest = module.kernels(update)
    print(f"{options.world}, {options.method}, {options.runs} runs; jax {jax.__version__}")
    print("| episodes of | acting | critic | actor | the rest | an update |")
    print("|---:|---:|---:|---:|---:|---:|")
    for length, for_critic, for_actor in zip(lengths, critic, actor, strict=True):
        # One more kernel and a question to the device for every few steps.
        acted = sum(-(-length // STEPS_PER_QUESTION) * (module.kernels(body) + 1) for body in loops)
        print(f"| {length} | {acted} | {for_critic} | {for_actor} | {rest} | {acted + for_critic + for_actor + rest} |")


if __name__ == "__main__":
    main(tyro.cli(Options))
