"""Real processes that train tiny runs, and one such training from start to end to compare with."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from asymrl.runs.batch import Batch

from asymrl.learning.settings import Settings

WORLD = "tiger:episodic=true"
TINY = {"method": "a2c-asym-s", "memory_size": 4, "hidden": (4,), "time_limit": 4, "steps": 12_000, "log_points": 30}
OPTIONS = [
    *("--method", "a2c-asym-s", "--memory-size", "4", "--hidden", "4", "--time-limit", "4"),
    *("--steps", "12000", "--log-points", "30", "--seeds", "2"),
    *("--refresh-seconds", "0.02", "--checkpoint-seconds", "0"),
]


def tiny(**changes: object) -> Settings:
    return Settings(world=WORLD, **{**TINY, **changes})  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """For processes that share what they compile, which is made quickly rather than fast."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compiled"
    return {
        **os.environ,
        "ASYMRL_CACHE": str(shared),
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "COLUMNS": "200",
    }


@dataclass(frozen=True)
class Commands:
    """The command line of asymrl, in processes of their own."""

    environment: dict[str, str]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "asymrl", *arguments]
        return subprocess.Popen(
            command, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def train(self, folder: Path, *more: str) -> tuple[int, str, str]:
        return self("train", WORLD, *OPTIONS, "--out", str(folder), *more)

    def python(self, script: str, *arguments: str, **more: str) -> str:
        """Runs a script, which must succeed, and returns what it printed."""
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            env={**self.environment, **more},
            text=True,
            capture_output=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def asymrl(environment: dict[str, str]) -> Commands:
    return Commands(environment)


@dataclass(frozen=True)
class Uninterrupted:
    folder: Path
    out: str


@pytest.fixture(scope="session")
def uninterrupted(asymrl: Commands, tmp_path_factory: pytest.TempPathFactory) -> Uninterrupted:
    """A training that nothing disturbed."""
    folder = tmp_path_factory.mktemp("runs") / "uninterrupted"
    tracker = ["--tensorboard"] if importlib.util.find_spec("tensorboardX") else []
    status, out, err = asymrl.train(folder, *tracker)
    assert (status, err) == (0, "")
    return Uninterrupted(folder, out)


def last_arrays(folder: Path) -> dict[str, np.ndarray]:
    """What the newest checkpoint holds."""
    newest = max((folder / "checkpoint").glob("*.safetensors"))
    return safetensors.numpy.load_file(newest)


def assert_same_result(folder: Path, other: Path) -> None:
    """Bit for bit the same metrics and the same final state."""
    assert (folder / "metrics.parquet").read_bytes() == (other / "metrics.parquet").read_bytes()
    found, expected = last_arrays(folder), last_arrays(other)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.fixture
def batch() -> Batch:
    return Batch.product([tiny()], [3, 5])


def random_arrays(batch: Batch, seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays of the shapes that a checkpoint of the batch has, made without compiling anything."""
    import equinox as eqx
    import jax

    from asymrl.learning.state import new_run, training_world

    generator = np.random.default_rng(seed)
    shapes = eqx.filter_eval_shape(lambda: new_run(training_world(batch.first), batch.first, 0))
    arrays = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(eqx.filter(shapes, lambda x: hasattr(x, "dtype"))):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if name == "key":
            arrays[name] = generator.integers(2**32, size=(len(batch), 2), dtype=np.uint32)
        else:
            values = generator.integers(2, size=(len(batch), *leaf.shape)) * generator.random()
            arrays[name] = values.astype(leaf.dtype)
    return arrays
