"""`asymrl doctor`: what this machine has for training, how fast it is, and what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from asymrl.cli.output import print_json
from asymrl.cli.usage import AsJson, Flag, Quiet
from asymrl.runs.cache import SWITCH, cache_folder
from asymrl.runs.wording import thousands
from asymrl.settings import A2CSettings

if TYPE_CHECKING:
    from asymrl.runs.pool import Pool

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
TRAINED: dict[str, Any] = {"world": "tiger", "method": "a2c", "memory_size": 32, "hidden": (32,), "time_limit": 20}
RUNS = 8
OLDEST_DRIVER = 525  # of NVIDIA's, for CUDA 12
CUDA_13_DRIVER = 580


@dataclass(frozen=True)
class Doctor:
    """Show this machine's devices, versions and speed, and what is missing; exit status 1 means a problem."""

    quick: Flag = False
    """Measure no speeds."""
    training: Flag = False
    """Also measure a small training run; compiling it takes up to a minute the first time."""
    quiet: Quiet = False
    json: AsJson = False

    def run(self) -> int:
        speed = measured(training=self.training) if not self.quick or self.training else {}
        faults = problems(nvidia_gpus())
        if self.json:
            print_json(_answer(speed, faults))
            return 1 if faults else 0
        _section("versions", versions())
        _section("devices", devices())
        _section("compilation cache", cache_size())
        if speed:
            _section("speed", speeds(speed))
        _section("optional packages", extras())
        for problem in faults:
            print(f"problem: {problem}", file=sys.stderr if self.quiet else None)
        if not faults:
            print("no problems")
        return 1 if faults else 0


def _answer(speed: dict[str, float], faults: list[str]) -> dict[str, Any]:
    """The same for other programs; the fields are described in docs/reference/json.md."""
    import jax

    folder = cache_folder()
    return {
        "versions": {name: None if text == "missing" else text for name, text in versions().items()},
        "devices": [{"platform": each.platform, "id": each.id, "kind": each.device_kind} for each in jax.devices()],
        "cores": core_count(),
        "compilation_cache": None if folder is None else str(folder),
        "speed": speed,
        "optional_packages": {extra: not missing_modules(extra) for extra in EXTRAS},
        "problems": faults,
    }


def _section(title: str, lines: dict[str, str]) -> None:
    print(title)
    width = max(map(len, lines))
    for name, value in lines.items():
        print(f"  {name:<{width}}  {value}")
    print()


class Gpu(NamedTuple):
    """A GPU as NVIDIA's driver knows it."""

    name: str
    driver: str

    @property
    def driver_number(self) -> int:
        major = self.driver.partition(".")[0]
        return int(major) if major.isdigit() else 0


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that everything else needs."""
    listed = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            listed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            listed[name] = "missing"
    return listed


def devices() -> dict[str, str]:
    """The devices that JAX uses, and the cores."""
    import jax

    listed = {f"{each.platform} {each.id}": each.device_kind for each in jax.devices()}
    return listed | {"cores": str(core_count())}


def core_count() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cache_size() -> dict[str, str]:
    """Where compiled programs are kept, and how large that is."""
    folder = cache_folder()
    if folder is None:
        return {"folder": f"none: every process compiles anew (is {SWITCH} off, or the home not writable?)"}
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    return {"folder": str(folder), "size": f"{len(files)} files, {size / 2**20:.1f} MiB"}


def extras() -> dict[str, str]:
    """Whether optional packages are installed, and how to install them."""
    states = {}
    for extra, (_, purpose) in EXTRAS.items():
        state = f'missing: pip install "asymrl[{extra}]"' if missing_modules(extra) else "installed"
        states[extra] = f"{purpose}: {state}"
    return states


def missing_modules(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [name for name in EXTRAS[extra][0] if importlib.util.find_spec(name) is None]


def nvidia_gpus() -> list[Gpu]:
    """The NVIDIA GPUs that the driver shows, whether JAX can use them or not."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    asked = [program, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in answer.strip().splitlines()]
    return [Gpu(row[0], row[1]) for row in rows if len(row) == 2]


def problems(gpus: Sequence[Gpu]) -> list[str]:
    """What keeps this machine from being used well, each with a remedy."""
    import jax

    faults = []
    platforms = {each.platform for each in jax.devices()}
    if gpus and not platforms & {"gpu", "cuda"}:
        faults.append(_unused(gpus[0]))
    if "missing" in (installed := versions()).values():
        names = ", ".join(name for name, version in installed.items() if version == "missing")
        faults.append(f"{names} cannot be found by pip; install asymrl again")
    if installed["jax"] != "missing" and installed["jax"].split(".")[:2] != installed["jaxlib"].split(".")[:2]:
        faults.append(f"jax {installed['jax']} and jaxlib {installed['jaxlib']} do not match; pip install -U jax")
    return faults


def _unused(gpu: Gpu) -> str:
    """Why a GPU is there and JAX computes on the CPU."""
    if gpu.driver_number < OLDEST_DRIVER:
        return (
            f"{gpu.name} cannot be used: its driver {gpu.driver} is older than {OLDEST_DRIVER}, which JAX needs; "
            "install a newer driver"
        )
    cuda = "cuda13" if gpu.driver_number >= CUDA_13_DRIVER else "cuda12"
    if platforms := os.environ.get("JAX_PLATFORMS"):
        return f"{gpu.name} is not used: the environment variable JAX_PLATFORMS is {platforms!r}; unset it"
    return f'{gpu.name} is not used: this JAX computes on the CPU only; pip install -U "jax[{cuda}]"'


def measured(*, training: bool) -> dict[str, float]:
    """How fast this machine multiplies matrices and, if wanted, compiles and trains."""
    speed = {"matrix_product_flops": matrix_speed()}
    if not training:
        return speed
    compiled, rate = training_speed()
    return speed | {"compilation_seconds": compiled, "training_steps_per_second": rate}


def speeds(speed: dict[str, float]) -> dict[str, str]:
    """What was measured, in words."""
    flops = speed["matrix_product_flops"]
    product = {"matrix product": f"{thousands(flops / 1e9)} GFLOP/s ({SIZE} x {SIZE}, float32)"}
    if "training_steps_per_second" not in speed:
        return product | {"training": "not measured; asymrl doctor --training does"}
    compiled, rate = speed["compilation_seconds"], speed["training_steps_per_second"]
    what = f"{TRAINED['world']}, {TRAINED['method']}, {RUNS} small runs"
    return product | {
        "compilation": f"{compiled:.1f} s until the first update was done ({what})",
        "training": f"{thousands(rate)} steps/s ({what})",
    }


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
    """Seconds until the first update is done, and steps per second after that."""
    import jax

    from asymrl.learners.factory import program
    from asymrl.runs.lanes import Assignment
    from asymrl.runs.pool import Pool
    from asymrl.runs.runs import Run

    begin = time.perf_counter()
    settings = A2CSettings(**TRAINED)
    pool = Pool(program(settings), RUNS, jax.local_devices()[0], call_seconds=0.5)
    pool.admit([Assignment(seed, Run(settings, seed)) for seed in range(RUNS)])
    pool.advance()
    compiled = time.perf_counter() - begin
    first_steps, begin = _steps(pool), time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        pool.advance()
    return compiled, (_steps(pool) - first_steps) / (time.perf_counter() - begin)


def _steps(pool: Pool) -> int:
    return sum(result.timesteps for result in pool.results().values())
