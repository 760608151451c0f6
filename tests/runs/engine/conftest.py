"""Tiny runs, real processes that train them, and one such training from start to end to compare with."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asymrl.runs.arrays import SavedRuns
from asymrl.runs.callback import Callback
from asymrl.runs.progress import Progress
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.settings import A2CSettings, Settings

WORLD = "tiger:episodic=true"
TINY = {"method": "a2c-asym-s", "memory_size": 4, "hidden": (4,), "time_limit": 4, "steps": 12_000, "log_points": 30}
PACE = ["--refresh-seconds", "0.02", "--checkpoint-seconds", "0"]
OPTIONS = [
    *("--method", "a2c-asym-s", "--memory-size", "4", "--hidden", "4", "--time-limit", "4"),
    *("--steps", "12000", "--log-points", "30", "--seeds", "2", *PACE),
]


def tiny(**changes: Any) -> Settings:
    return A2CSettings(world=WORLD, **{**TINY, **changes})


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """For processes, which share what they compile with the tests."""
    inherited = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    return {**inherited, "COLUMNS": "200"}


@dataclass(frozen=True)
class Commands:
    """The command line of asymrl, in processes of their own."""

    environment: dict[str, str]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        trains = arguments[0] in ("train", "sweep", "compare", "resume")
        command = [sys.executable, "-m", "asymrl", *arguments, *(["--no-report"] if trains else [])]
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


@dataclass
class Recorder(Callback):
    """A callback that remembers what it was told."""

    compiled: list[tuple[Settings, int]] = field(default_factory=list)
    seen: list[Progress] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def compiling(self, shape: Settings, lanes: int) -> None:
        self.compiled.append((shape, lanes))

    def progress(self, progress: Progress) -> None:
        self.seen.append(progress._replace(results=dict(progress.results)))

    def say(self, message: str) -> None:
        self.said.append(message)


def final_states(folder: Path) -> dict[Run, dict[str, np.ndarray]]:
    """The newest state of each run of a store, all arrays without the axis of runs."""
    store = Store.open(folder)
    states = {}
    for _, saved in store.saved(range(len(store))):
        for row, run in enumerate(saved.runs):
            states[run] = {name: array[row] for name, array in saved.arrays.items()}
    return states


def curves(folder: Path) -> dict[Run, np.ndarray]:
    """The learning curve of each finished run of a store."""
    store = Store.open(folder)
    results = {store.runs[number]: result for number, result in store.results().items()}
    return {run: result.curve for run, result in results.items() if result.is_over and result.curve is not None}


def assert_same_curves(found: dict[Run, np.ndarray], expected: dict[Run, np.ndarray]) -> None:
    """Bit for bit."""
    assert found.keys() == expected.keys()
    for run, curve in expected.items():
        np.testing.assert_array_equal(found[run], curve, err_msg=str(run))


def assert_same_result(folder: Path, other: Path) -> None:
    """Bit for bit the same metrics and the same final states."""
    assert (folder / "metrics.parquet").read_bytes() == (other / "metrics.parquet").read_bytes()
    found, expected = final_states(folder), final_states(other)
    assert found.keys() == expected.keys()
    for run, arrays in expected.items():
        assert found[run].keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[run][name], array, err_msg=name)


@pytest.fixture
def runs() -> tuple[Run, ...]:
    return Run(tiny(), 3), Run(tiny(), 5)


def random_saved(runs: tuple[Run, ...], seed: int = 0) -> SavedRuns:
    """What a checkpoint of the runs holds, with random numbers, made without compiling anything."""
    import equinox as eqx
    import jax

    from asymrl.learners.learner import new_run
    from asymrl.learners.state import training_world

    generator, settings = np.random.default_rng(seed), runs[0].settings
    shapes = eqx.filter_eval_shape(lambda: new_run(training_world(settings), settings, 0))
    arrays = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(eqx.filter(shapes, lambda x: hasattr(x, "dtype"))):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if name == "key":
            arrays[name] = generator.integers(2**32, size=(len(runs), 2), dtype=np.uint32)
        else:
            values = generator.integers(2, size=(len(runs), *leaf.shape)) * generator.random()
            arrays[name] = values.astype(leaf.dtype)
    return SavedRuns(runs, arrays, "threefry2x32", tuple(float(seed) for _ in runs))
