"""Pools in processes of their own: killed, stopped, broken, and what MPS is told."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from asymrl.runs import driver as driver_module, process_workers as workers_module, supervisor as supervisor_module
from asymrl.runs.driver import Outcome, train_store
from asymrl.runs.events import Checkpointed, Retired
from asymrl.runs.files import StorageError
from asymrl.runs.interrupts import POOL_THREAD
from asymrl.runs.lanes import Assignment
from asymrl.runs.placement import Pace, Placement
from asymrl.runs.pool_process import ProcessPlacement, RemoteClient, serve_remotely
from asymrl.runs.process_workers import ProcessWorkers, shared_device
from asymrl.runs.runs import Run
from asymrl.runs.scheduler import Scheduler
from asymrl.runs.store import Store
from asymrl.runs.tables import COMPLETE, RunResult
from asymrl.runs.thread_workers import local_workers
from asymrl.settings import A2CSettings
from tests.runs.engine.conftest import Recorder, assert_same_result, tiny

RUNS = [Run(tiny(steps=2000, log_points=10), seed) for seed in range(2)]
OFTEN = Pace(refresh_seconds=0.01, checkpoint_seconds=0)
ONE = Placement(processes=1)


def train(folder: Path, runs: Sequence[Run], recorder: Recorder | None = None, **how: Any) -> Outcome:
    store = Store.take_or_create(folder, runs)
    try:
        return train_store(store, recorder or Recorder(), **{"pace": OFTEN, "placement": ONE, **how})
    finally:
        store.release()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs in this process."""
    folder = tmp_path_factory.mktemp("threads") / "store"
    assert train(folder, RUNS, placement=Placement(workers=1)).is_complete
    return folder


def test_a_killed_process_loses_and_doubles_nothing(expected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A real kill, once there is a checkpoint; the runs go on from there in another process."""
    report, killed = Scheduler.report, []

    def report_and_kill(self: Scheduler, pool: str, event: Any) -> None:
        report(self, pool, event)
        if isinstance(event, Checkpointed) and not killed:
            killed.append(int(event.saved.arrays["timesteps"][0]))
            for child in multiprocessing.active_children():
                child.kill()

    monkeypatch.setattr(Scheduler, "report", report_and_kill)
    recorder = Recorder()
    outcome = train(tmp_path, RUNS, recorder)
    assert outcome.is_complete
    assert outcome.failures == {}
    said = "process 0 with 1 run of tiger:episodic=true a2c-asym-s was lost (exit code -9); trying again"
    assert recorder.said == [said]
    assert outcome.steps == pytest.approx(4000, abs=16)
    assert 0 < killed[0] < 2000
    assert_same_result(tmp_path, expected)
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_stopped_processes_hand_over_what_they_hold(expected: Path, tmp_path: Path):
    class Hurry(Recorder):
        """Takes the time away when a run trains."""

        def progress(self, progress: Any) -> None:
            super().progress(progress)
            if progress.training:
                patch.setattr(driver_module._Driver, "_is_out_of_time", lambda self: True)

    with pytest.MonkeyPatch.context() as patch:
        outcome = train(tmp_path, RUNS, Hurry(), pace=Pace(0.01, 1000))
    assert outcome.is_out_of_time
    assert 0 < outcome.steps < 4000
    assert not multiprocessing.active_children()
    rest = train(tmp_path, RUNS)
    assert rest.is_complete
    assert outcome.steps + rest.steps == pytest.approx(4000, abs=16)
    assert_same_result(tmp_path, expected)


def die_with_a_run(connection: Any, pace: Pace, placement: Any) -> None:
    client = RemoteClient(connection)
    if client.pick() is None:
        return
    client.take(1)
    os.kill(os.getpid(), signal.SIGKILL)


def test_runs_that_always_lose_their_process_are_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervisor_module, "serve_remotely", die_with_a_run)
    monkeypatch.setattr("asymrl.runs.scheduler.MOST_LOSSES", 1)
    outcome = train(tmp_path, RUNS[:1])
    assert list(outcome.failures.values()) == ["lost 2 times, the last time: exit code -9"]
    assert not outcome.is_out_of_time
    assert Store.open(tmp_path).unfinished() == [0]


def test_a_process_does_not_train_on_another_kind_of_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A CPU would train for days; and nobody waits for a GPU for ever."""
    monkeypatch.setattr(supervisor_module, "MOST_LOSSES", 0)
    gpu = ProcessWorkers(1, pace=OFTEN, platform="gpu")
    monkeypatch.setattr(driver_module._Driver, "_workers", lambda self: gpu)
    outcome = train(tmp_path, RUNS)
    assert list(outcome.failures.values()) == ["DeviceLostError: there is no gpu any more, only cpu"] * 2
    assert not outcome.is_out_of_time


def begin_late_with_priority(connection: Any, pace: Pace, placement: ProcessPlacement) -> None:
    if placement.environment[workers_module.MPS_PRIORITY] == workers_module.FIRST:
        time.sleep(2)
    serve_remotely(connection, pace, placement)


def test_processes_with_priority_choose_first_even_if_they_begin_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pick, chosen = Scheduler.pick, []

    def recorded(self: Scheduler, pool: str, place: Any) -> Any:
        order = pick(self, pool, place)
        chosen.append((pool, order and order.shape.method))
        return order

    monkeypatch.setattr(Scheduler, "pick", recorded)
    monkeypatch.setattr(supervisor_module, "serve_remotely", begin_late_with_priority)
    runs = [Run(tiny(steps=100), 0), Run(tiny(method="a2c", steps=200), 0)]
    assert train(tmp_path, runs, placement=Placement(processes=2)).is_complete
    assert chosen[:2] == [("process 0", "a2c"), ("process 1", "a2c-asym-s")]


def never_begin_with_priority(connection: Any, pace: Pace, placement: ProcessPlacement) -> None:
    if placement.environment[workers_module.MPS_PRIORITY] == workers_module.FIRST:
        time.sleep(600)
    serve_remotely(connection, pace, placement)


def test_nobody_waits_forever_for_a_process_with_priority(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervisor_module, "serve_remotely", never_begin_with_priority)
    monkeypatch.setattr(supervisor_module, "HEAD_START_SECONDS", 0.5)
    scheduler = Scheduler([Assignment(0, RUNS[0], None)], lambda *_: 1, one_pool_per_shape=False)
    workers = ProcessWorkers(2, pace=Pace(), platform="cpu")
    try:
        workers.start(scheduler)
        reported = [scheduler.events.get(timeout=120)]
        while not isinstance(reported[-1].event, Retired):
            reported.append(scheduler.events.get(timeout=120))
    finally:
        workers.end()
    assert {pool for pool, _ in reported} == {"process 1"}


def lose_device_once(connection: Any, pace: Pace, placement: Any) -> None:
    marker = Path(os.environ["ASYMRL_TEST_LOST"])
    if marker.exists():
        assert placement.pause == 0.1
        serve_remotely(connection, pace, placement)
        return
    marker.touch()

    def fault(*_: Any) -> None:
        raise RuntimeError("INTERNAL: CUDA error: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asymrl.runs.pool.Pool.advance", fault)
        serve_remotely(connection, pace, placement)


@pytest.mark.slow
def test_a_lost_device_is_no_fault_of_the_run(expected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where processes share a GPU, the fault of one ends all. Their runs go on from what was saved."""
    monkeypatch.setattr(supervisor_module, "serve_remotely", lose_device_once)
    monkeypatch.setattr(supervisor_module, "RECOVERY_SECONDS", 0.1)
    monkeypatch.setenv("ASYMRL_TEST_LOST", str(tmp_path / "lost"))
    recorder = Recorder()
    outcome = train(tmp_path / "store", RUNS, recorder)
    assert outcome.is_complete
    assert outcome.failures == {}
    (said,) = recorder.said
    assert "CUDA_ERROR_LAUNCH_FAILED" in said
    assert_same_result(tmp_path / "store", expected)


def report_and_wait(connection: Any, pace: Pace, placement: Any) -> None:
    client = RemoteClient(connection)
    client.pick()
    (given,) = client.take(1)
    client.report(Retired(given.number, RunResult(COMPLETE), None))
    signal.pause()


def test_what_cannot_be_written_ends_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A full disk is no lost process, and leaves none behind."""
    monkeypatch.setattr(supervisor_module, "serve_remotely", report_and_wait)

    def full(*_: Any) -> None:
        raise StorageError("no space left")

    monkeypatch.setattr(Store, "write_tables", full)
    with pytest.raises(StorageError, match="no space left"):
        train(tmp_path, RUNS)
    assert not multiprocessing.active_children()


def test_what_is_wrong_with_a_shape_is_said(tmp_path: Path):
    broken = Run(A2CSettings("heaven-hell-3", "a2c", memory_size=3, memory="attention", attention_heads=2), 0)
    outcome = train(tmp_path, [broken])
    (reason,) = outcome.failures.values()
    assert "attention" in reason or "heads" in reason


MPS = """#!/bin/sh
echo "$@ $(cat)" >> {log}
echo "$CUDA_MPS_PIPE_DIRECTORY" >> {log}
"""


def test_mps_runs_as_long_as_the_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    log, control = tmp_path / "log", tmp_path / "nvidia-cuda-mps-control"
    control.write_text(MPS.format(log=log))
    control.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with shared_device() as environment:
        folder = environment["CUDA_MPS_PIPE_DIRECTORY"]
        assert Path(folder).is_dir()
    assert not Path(folder).exists()
    assert [line.strip() for line in log.read_text().splitlines()] == ["-d", folder, "quit", folder]
    # One that is there already is used, and left alone.
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "elsewhere")
    with shared_device() as environment:
        assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
        assert "CUDA_MPS_PIPE_DIRECTORY" not in environment
    assert len(log.read_text().splitlines()) == 4


@pytest.mark.parametrize(("processes", "priorities"), [(1, "0"), (3, "011"), (12, "001111111111")])
def test_one_process_in_six_goes_first(processes: int, priorities: str):
    workers = ProcessWorkers(processes, pace=OFTEN)
    environments = [workers._environment({}, i) for i in range(processes)]
    assert [each["CUDA_MPS_CLIENT_PRIORITY"] for each in environments] == list(priorities)


def test_a_priority_of_the_user_holds_for_all_processes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_MPS_CLIENT_PRIORITY", "1")
    workers = ProcessWorkers(3, pace=OFTEN)
    assert all("CUDA_MPS_CLIENT_PRIORITY" not in workers._environment({}, i) for i in range(3))


def _end_while_something_compiles(connection: Any, pace: Pace, placement: ProcessPlacement) -> None:
    """A process without work, with a thread that would crash it if Python shut down first."""
    busy = threading.Thread(target=time.sleep, args=(600,), name=f"{POOL_THREAD}narrower")
    busy.start()
    serve_remotely(connection, pace, placement)


def test_a_process_ends_although_a_program_is_still_being_compiled():
    """The thread is no daemon, so that an ordinary end would wait for it."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_end_while_something_compiles, args=(there, OFTEN, ProcessPlacement(0, None, {})))
    process.start()
    while here.poll(60):
        try:
            question, _ = here.recv()
        except EOFError:
            break
        here.send(True if question == "is_stopped" else None)  # there is nothing to pick
        if question == "pick":
            break
    process.join(60)
    assert process.exitcode == 0


def test_a_pool_for_each_core_unless_something_else_is_wanted():
    assert local_workers(OFTEN, workers=3, processes=None).platform == "cpu"
    seats = local_workers(OFTEN, workers=3, processes=None)._seats  # pyright: ignore[reportAttributeAccessIssue]
    assert [name for name, _ in seats] == ["core 0", "core 1", "core 2"]
    default = local_workers(OFTEN, workers=None, processes=None)._seats  # pyright: ignore[reportAttributeAccessIssue]
    assert len(default) == len(os.sched_getaffinity(0))
    assert local_workers(OFTEN, workers=None, processes=4).places == 4
