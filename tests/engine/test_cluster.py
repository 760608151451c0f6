"""A real Ray cluster of two worker nodes, one of which is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asymrl.sweeps.cells import Cell, product

from tests.engine.sweep_fixtures import assert_same_curves, curves

pytestmark = pytest.mark.slow
TINY = {"memory_size": 4, "hidden": (4,), "time_limit": 4, "steps": 100_000, "log_points": 20}


@pytest.fixture
def cluster(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without CPUs, and two worker nodes with two each."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    for name in ("ASYMRL_CACHE", "XLA_FLAGS", "JAX_PLATFORMS"):
        monkeypatch.setenv(name, environment.get(name, ""))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def cells() -> list[Cell]:
    axes = {**{name: [value] for name, value in TINY.items()}, "actor_rate": [1e-3, 3e-4]}
    return product(["tiger:episodic=true"], ["a2c-asym-s"], axes, range(2), lambda *_: {})


def kill_a_node(cluster: Any, killed: list[float]) -> None:
    """A moment after both batches were given out again, so that either node has one."""
    time.sleep(0.5)
    cluster.remove_node(min(cluster.worker_nodes, key=str), allow_graceful=False)
    killed.append(time.monotonic())


@pytest.mark.filterwarnings("ignore")
def test_a_killed_node_loses_and_doubles_nothing(cluster: Any, tmp_path: Path):
    from asymrl.sweeps.cluster import RayEngine
    from asymrl.sweeps.display import SweepDisplay
    from asymrl.sweeps.driver import run_sweep
    from asymrl.sweeps.engine import Kept, Noted, Pace
    from asymrl.sweeps.local import LocalEngine
    from asymrl.sweeps.planner import fixed_size

    class Watched(RayEngine):
        """Kills a node when both batches are in the air."""

        killer: threading.Thread | None = None
        landed = 0
        notes: list[str] = []

        def run(self, tasks: Any, report: Any, stop: Any) -> None:
            def watch(event: Any) -> None:
                self.landed += isinstance(event, Kept)
                if self.landed == 2 and self.killer is None:
                    self.killer = threading.Thread(target=kill_a_node, args=(cluster, killed))
                    self.killer.start()
                if isinstance(event, Noted):
                    self.notes.append(event.message)
                report(event)

            super().run(tasks, watch, stop)

    killed: list[float] = []
    engine = Watched(pace=Pace(checkpoint_seconds=2.0, refresh_seconds=0.05))
    assert engine.slots == 2
    outcome = run_sweep(tmp_path / "ray", cells(), engine, fixed_size(2), display=SweepDisplay())
    assert killed, "the sweep was over before a node could be killed"
    assert any("was lost" in note for note in engine.notes)
    assert outcome.complete
    assert not outcome.failures
    run_sweep(tmp_path / "local", cells(), LocalEngine(), fixed_size(2), display=SweepDisplay())
    assert_same_curves(curves(tmp_path / "ray"), curves(tmp_path / "local"))


def test_a_cluster_for_the_occasion(environment: dict[str, str], tmp_path: Path):
    pytest.importorskip("ray")
    settings = [f"{name}={':'.join(map(str, v)) if isinstance(v, tuple) else v}" for name, v in TINY.items()]
    command = [
        *(sys.executable, "-m", "asymrl", "sweep", "--engine", "ray", "--env", "tiger:episodic=true"),
        *("--methods", "a2c-asym-s", "--seeds", "2", "--set", *settings, "--out", str(tmp_path)),
    ]
    done = subprocess.run(command, env={**os.environ, **environment}, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(curves(tmp_path)) == 2
