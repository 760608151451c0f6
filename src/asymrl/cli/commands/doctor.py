"""`asymrl doctor`: what this machine has for training, how fast it is, and what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asymrl.cli.output import print_json
from asymrl.cli.usage import AsJson, Flag, Quiet
from asymrl.runs.cache import SWITCH, cache_folder
from asymrl.runs.wording import thousands

if TYPE_CHECKING:
    from asymrl.runs.progress import Progress

PACKAGES = ("asymrl", "jax", "jaxlib", "equinox", "numpy", "gymnasium")
# Extra -> the modules that it brings, and what they are for.
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "onnx": (("onnx", "onnxruntime"), "policies as .onnx files"),
    "ray": (("ray",), "sweeps on a cluster"),
    "tensorboard": (("tensorboardX",), "curves in TensorBoard"),
    "wandb": (("wandb",), "curves in Weights & Biases"),
    "gymnax": (("gymnax", "six"), "gymnax environments"),
    "tune": (("optuna",), "asymrl tune"),
    "minigrid": (("minigrid",), "MiniGrid environments"),
    "video": (("imageio_ffmpeg",), "films as .mp4 files"),
}
SIZE = 1024  # of the matrices
SECONDS = 2.0  # for which a training is measured
TRAINED: dict[str, Any] = {"memory_size": 32, "hidden": (32,), "time_limit": 20, "steps": 10_000_000}
RUNS = 8
OLDEST_DRIVER = 525  # of NVIDIA's, for CUDA 12
CUDA_13_DRIVER = 580


@dataclass(frozen=True)
class Doctor:
    """Show this machine's devices, versions and speed, and what is missing; exit status 1 means a problem.

    asymrl doctor
    asymrl doctor --quick --json
    """

    quick: Flag = False
    """Measure no speeds."""
    training: Flag = False
    """Also measure a small training run; compiling it takes up to a minute the first time."""
    quiet: Quiet = False
    json: AsJson = False

    def run(self) -> int:
        answer = examined(quick=self.quick, training=self.training)
        if self.json:
            print_json(answer)
        else:
            _print(answer)
            for problem in answer["problems"]:
                print(f"problem: {problem}", file=sys.stderr if self.quiet else None)
            if not answer["problems"]:
                print("no problems")
        return 1 if answer["problems"] else 0


def examined(*, quick: bool = False, training: bool = False) -> dict[str, Any]:
    """What was found; the fields are described in docs/reference/json.md."""
    import jax

    speed = {} if quick and not training else {"matrix_product_flops": matrix_speed()}
    if training:
        speed |= dict(zip(("compilation_seconds", "training_steps_per_second"), training_speed(), strict=True))
    folder = cache_folder()
    return {
        "versions": versions(),
        "devices": [{"platform": each.platform, "id": each.id, "kind": each.device_kind} for each in jax.devices()],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "compilation_cache": None if folder is None else str(folder),
        "speed": speed,
        "optional_packages": {
            extra: all(importlib.util.find_spec(name) is not None for name in modules)
            for extra, (modules, _) in EXTRAS.items()
        },
        "problems": problems(nvidia_gpus()),
    }


def _print(answer: Mapping[str, Any]) -> None:
    """The same for people."""
    _section("versions", {name: version or "missing" for name, version in answer["versions"].items()})
    devices = {f"{each['platform']} {each['id']}": each["kind"] for each in answer["devices"]}
    _section("devices", devices | {"cores": str(answer["cores"])})
    none = f"none: every process compiles anew (is {SWITCH} off, or the home not writable?)"
    _section("compilation cache", {"folder": answer["compilation_cache"] or none})
    if speed := answer["speed"]:
        product = f"{thousands(speed['matrix_product_flops'] / 1e9)} GFLOP/s ({SIZE} x {SIZE}, float32)"
        lines = {"matrix product": product, "training": "not measured; asymrl doctor --training does"}
        if "training_steps_per_second" in speed:
            lines["compilation"] = f"{speed['compilation_seconds']:.1f} s until the first steps were done"
            lines["training"] = (
                f"{thousands(speed['training_steps_per_second'])} steps/s (tiger, a2c, {RUNS} small runs)"
            )
        _section("speed", lines)
    states = {
        extra: f"{purpose}: " + ("installed" if is_there else f'missing: pip install "asymrl[{extra}]"')
        for (extra, is_there), (_, purpose) in zip(answer["optional_packages"].items(), EXTRAS.values(), strict=True)
    }
    _section("optional packages", states)


def _section(title: str, lines: Mapping[str, str]) -> None:
    width = max(map(len, lines))
    print(title, *(f"  {name:<{width}}  {value}" for name, value in lines.items()), "", sep="\n")


def versions() -> dict[str, str | None]:
    """The versions of Python and of the packages that everything else needs; None for those that pip does not find."""
    listed: dict[str, str | None] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            listed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            listed[name] = None
    return listed


def nvidia_gpus() -> list[tuple[str, str]]:
    """Name and driver of the NVIDIA GPUs that the driver shows, whether JAX can use them or not."""
    if (program := shutil.which("nvidia-smi")) is None:
        return []
    query = [program, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in answer.strip().splitlines()]
    return [(row[0], row[1]) for row in rows if len(row) == 2]


def problems(gpus: Sequence[tuple[str, str]]) -> list[str]:
    """What keeps this machine from being used well, each with a remedy."""
    import jax

    faults = []
    if gpus and not {each.platform for each in jax.devices()} & {"gpu", "cuda"}:
        faults.append(_unused(*gpus[0]))
    installed = versions()
    if missing := [name for name, version in installed.items() if version is None]:
        faults.append(f"{', '.join(missing)} cannot be found by pip; install asymrl again")
    numbers = [installed[name] for name in ("jax", "jaxlib")]
    if len({number.rpartition(".")[0] for number in numbers if number}) > 1:
        faults.append(f"jax {numbers[0]} and jaxlib {numbers[1]} do not match; pip install -U jax")
    return faults


def _unused(name: str, driver: str) -> str:
    """Why a GPU is there and JAX computes on the CPU."""
    major = driver.partition(".")[0]
    number = int(major) if major.isdigit() else 0
    if number < OLDEST_DRIVER:
        older = f"its driver {driver} is older than {OLDEST_DRIVER}, which JAX needs"
        return f"{name} cannot be used: {older}; install a newer driver"
    if platforms := os.environ.get("JAX_PLATFORMS"):
        return f"{name} is not used: the environment variable JAX_PLATFORMS is {platforms!r}; unset it"
    cuda = "cuda13" if number >= CUDA_13_DRIVER else "cuda12"
    return f'{name} is not used: this JAX computes on the CPU only; pip install -U "jax[{cuda}]"'


def matrix_speed() -> float:
    """Floating-point operations per second of a compiled product of two square matrices."""
    import jax
    import jax.numpy as jnp

    x = jnp.ones((SIZE, SIZE))
    product = jax.jit(lambda a, b: a @ b)
    product(x, x).block_until_ready()
    count, begin = 0, time.perf_counter()
    while (took := time.perf_counter() - begin) < 0.5:
        product(x, x).block_until_ready()
        count += 1
    return 2 * SIZE**3 * count / took


def training_speed() -> tuple[float, float]:
    """Seconds until the first steps are done, and steps per second after that."""
    import asymrl

    begin = time.perf_counter()
    measured: list[tuple[float, int]] = []

    class Stopwatch(asymrl.runs.Callback):
        def progress(self, progress: Progress) -> None:
            steps = sum(result.timesteps for result in progress.results.values())
            if steps > (measured[-1][1] if measured else 0):
                measured.append((time.perf_counter() - begin, steps))
            if measured and measured[-1][0] - measured[0][0] > SECONDS:
                raise asymrl.runs.StopRuns

    with tempfile.TemporaryDirectory() as folder:
        pace = asymrl.runs.Pace(refresh_seconds=0.5, checkpoint_seconds=None)
        asymrl.train("tiger", "a2c", seeds=RUNS, out=f"{folder}/runs", display=Stopwatch(), pace=pace, **TRAINED)
    (first, steps), (last, all_steps) = measured[0], measured[-1]
    return first, (all_steps - steps) / (last - first)
