"""A real Ray cluster of two worker nodes, one of which is killed; environments and callbacks of the user's own."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import asymrl
from asymrl.runs.callback import Callback, StopRuns
from asymrl.runs.driver import train_store
from asymrl.runs.files import RunError
from asymrl.runs.placement import Pace, Placement
from asymrl.runs.run_queue import RunQueue
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.runs.worker import Report
from asymrl.settings import Settings
from tests.runs.engine.conftest import PACE, WORLD, Commands, Recorder, assert_same_curves, curves, tiny

MAZES = Path(__file__).parents[4] / "examples" / "t_maze.py"
LONG = tiny(steps=100_000, log_points=20)
RUNS = [Run(replace(LONG, actor_rate=rate), seed) for rate in (1e-3, 3e-4) for seed in range(2)]


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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_killed_node_loses_and_doubles_nothing(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    report, begun, killers = RunQueue.report, set(), []

    def kill_a_node() -> None:
        time.sleep(0.5)  # then all pools train again, so that either node has some
        cluster.remove_node(min(cluster.worker_nodes, key=str), allow_graceful=False)

    def report_and_kill(self: RunQueue, name: str, answer: Report) -> None:
        report(self, name, answer)
        begun.update([name] if answer.saved is not None else [])
        if len(begun) == 4 and not killers:
            killers.append(threading.Thread(target=kill_a_node))
            killers[0].start()

    monkeypatch.setattr(RunQueue, "report", report_and_kill)
    pace, recorder = Pace(refresh_seconds=0.05, checkpoint_seconds=2.0), Recorder()
    store = Store.create(tmp_path / "ray", RUNS)
    outcome = train_store(store, recorder, pace=pace, placement=Placement(engine="ray"))
    store.release()
    assert killers, "the training was over before a node could be killed"
    killers[0].join()
    assert any("was lost" in message for message in recorder.said)
    assert outcome.is_complete
    assert outcome.failures == {}
    store = Store.create(tmp_path / "local", RUNS)
    train_store(store, Recorder())
    store.release()
    assert_same_curves(curves(tmp_path / "ray"), curves(tmp_path / "local"))


@pytest.mark.slow
def test_a_cluster_for_the_occasion(asymrl: Commands, tmp_path: Path):
    pytest.importorskip("ray")
    settings = ["memory_size=4", "hidden=4", "time_limit=4", "steps=6000", "log_points=20"]
    command = ["sweep", "--engine", "ray", "--env", WORLD, "--methods", "a2c-asym-s", "--seeds", "2", *PACE]
    status, _, err = asymrl(*command, "--set", *settings, "--out", str(tmp_path))
    assert status == 0, err
    assert len(curves(tmp_path)) == 2


class StopsEarly(Callback):
    """Stops all runs at the first point."""

    def __init__(self) -> None:
        self.compiled: list[str] = []

    def compiling(self, shape: Settings, lanes: int) -> None:
        self.compiled.append(shape.world)

    def points(self, run: int, table: Any) -> None:
        raise StopRuns


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
@pytest.mark.filterwarnings("ignore")
def test_environments_and_callbacks_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(MAZES, tmp_path / "mazes.py")
    small: dict[str, Any] = {"memory_size": 4, "hidden": (4,), "time_limit": 5, "log_points": 20, "steps": 400}
    how = {"seeds": 1, "display": Callback(), "placement": Placement(engine="ray"), **small}
    lengths = 2  # in a closure, so that the world has no name that could be imported
    made = asymrl.from_gymnasium(lambda: gymnasium.make("CartPole-v1", max_episode_steps=lengths), name="short-cart")
    for world in ("mazes.py:TMaze:length=2", "mazes.py:TMaze:length=2,stepping=processes", made):
        runs = asymrl.train(world, "a2c", out=tmp_path / "runs" / str(world)[:40], **how)
        assert runs.table["status"].to_list() == ["complete"]
    (tmp_path / "mazes.py").write_text((tmp_path / "mazes.py").read_text() + "\n# changed\n")
    callback = StopsEarly()
    pace = Pace(refresh_seconds=0.1, checkpoint_seconds=1.0)
    how |= {"seeds": 2, "steps": 10**7, "log_points": 5000, "callbacks": [callback], "pace": pace}
    runs = asymrl.train("mazes.py:TMaze:length=2", "a2c", out=tmp_path / "stopped", **how)
    assert runs.table["status"].to_list() == ["stopped", "stopped"]
    assert set(callback.compiled) == {"mazes.py:TMaze:length=2"}
    with pytest.raises(RunError, match=r"step\(\) in episode 3, step 2 .*faulty_envs.py:\d+: KeyError"):
        asymrl.train("tests.envs.gym.faulty_envs:RaisesInStep", "a2c", out=tmp_path / "failed", **how)
