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

from asymrl.runs import driver as driver_module, process_workers as workers_module, threads as threads_module
from asymrl.runs.driver import Outcome, train_store
from asymrl.runs.files import StorageError
from asymrl.runs.interrupts import POOL_THREAD
from asymrl.runs.lanes import Assignment, Retired
from asymrl.runs.placement import Pace, Placement
from asymrl.runs.process_workers import (
    READY,
    ProcessPlacement,
    ProcessWorkers,
    process_workers,
    serve_requests,
    shared_device,
)
from asymrl.runs.run_queue import RunQueue
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.runs.tables import COMPLETE, RunResult
from asymrl.runs.threads import thread_workers
from asymrl.runs.worker import Report
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
    report, killed = RunQueue.report, []

    def report_and_kill(self: RunQueue, name: str, answer: Report) -> None:
        report(self, name, answer)
        if answer.saved is not None and not killed:
            killed.append(int(answer.saved.arrays["timesteps"][0]))
            for child in multiprocessing.active_children():
                child.kill()

    monkeypatch.setattr(RunQueue, "report", report_and_kill)
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
    connection.send(READY)
    connection.recv()  # to open a pool
    connection.send(Report(free=1))
    connection.recv()  # to admit a run
    os.kill(os.getpid(), signal.SIGKILL)


def test_runs_that_always_lose_their_process_are_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers_module, "serve_requests", die_with_a_run)
    monkeypatch.setattr("asymrl.runs.run_queue.MOST_LOSSES", 1)
    outcome = train(tmp_path, RUNS[:1])
    assert list(outcome.failures.values()) == ["lost 2 times, the last time: exit code -9"]
    assert not outcome.is_out_of_time
    assert Store.open(tmp_path).unfinished() == [0]


def test_a_process_does_not_train_on_another_kind_of_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A CPU would train for days; and nobody waits for a GPU for ever."""
    monkeypatch.setattr(threads_module, "MOST_IDLE_LOSSES", 0)
    gpu = ProcessWorkers(1, pace=OFTEN, platform="gpu")
    monkeypatch.setattr(driver_module._Driver, "_workers", lambda self: gpu)
    outcome = train(tmp_path, RUNS)
    assert list(outcome.failures.values()) == ["DeviceLostError: there is no gpu any more, only cpu"] * 2
    assert not outcome.is_out_of_time


def begin_late_with_priority(connection: Any, pace: Pace, placement: ProcessPlacement) -> None:
    if placement.environment[workers_module.MPS_PRIORITY] == workers_module.FIRST:
        time.sleep(2)
    serve_requests(connection, pace, placement)


def test_processes_with_priority_choose_first_even_if_they_begin_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ask, chosen = RunQueue.next, []

    def recorded(self: RunQueue, seat: Any) -> Any:
        request = ask(self, seat)
        if request is not None and request.order is not None:
            chosen.append((seat.name, request.order.shape.method))
        return request

    monkeypatch.setattr(RunQueue, "next", recorded)
    monkeypatch.setattr(workers_module, "serve_requests", begin_late_with_priority)
    runs = [Run(tiny(steps=100), 0), Run(tiny(method="a2c", steps=200), 0)]
    assert train(tmp_path, runs, placement=Placement(processes=2)).is_complete
    assert chosen[:2] == [("process 0", "a2c"), ("process 1", "a2c-asym-s")]


def never_begin_with_priority(connection: Any, pace: Pace, placement: ProcessPlacement) -> None:
    if placement.environment[workers_module.MPS_PRIORITY] == workers_module.FIRST:
        time.sleep(600)
    serve_requests(connection, pace, placement)


def test_nobody_waits_forever_for_a_process_with_priority(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers_module, "serve_requests", never_begin_with_priority)
    monkeypatch.setattr(workers_module, "HEAD_START_SECONDS", 0.5)
    queue = RunQueue([Assignment(0, RUNS[0], None)], lambda *_: 1)
    workers = ProcessWorkers(2, pace=Pace(), platform="cpu")
    retired: tuple[Retired, ...] = ()
    try:
        workers.start(queue)
        while not retired:
            name, what = queue.events.get(timeout=120)
            assert name == "process 1"
            retired = what.retired if isinstance(what, Report) else ()
    finally:
        queue.stop()
        workers.end()


def lose_device_once(connection: Any, pace: Pace, placement: Any) -> None:
    marker = Path(os.environ["ASYMRL_TEST_LOST"])
    if marker.exists():
        assert placement.pause == 0.1
        serve_requests(connection, pace, placement)
        return
    marker.touch()

    def fault(*_: Any) -> None:
        raise RuntimeError("INTERNAL: CUDA error: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asymrl.runs.pool.Pool.advance", fault)
        serve_requests(connection, pace, placement)


@pytest.mark.slow
def test_a_lost_device_is_no_fault_of_the_run(expected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where processes share a GPU, the fault of one ends all. Their runs go on from what was saved."""
    monkeypatch.setattr(workers_module, "serve_requests", lose_device_once)
    monkeypatch.setattr(workers_module, "RECOVERY_SECONDS", 0.1)
    monkeypatch.setenv("ASYMRL_TEST_LOST", str(tmp_path / "lost"))
    recorder = Recorder()
    outcome = train(tmp_path / "store", RUNS, recorder)
    assert outcome.is_complete
    assert outcome.failures == {}
    (said,) = recorder.said
    assert "CUDA_ERROR_LAUNCH_FAILED" in said
    assert_same_result(tmp_path / "store", expected)


def report_and_wait(connection: Any, pace: Pace, placement: Any) -> None:
    connection.send(READY)
    connection.recv()  # to open a pool
    connection.send(Report(free=1))
    (assigned,) = connection.recv().admit
    connection.send(Report(retired=(Retired(assigned.number, RunResult(COMPLETE), None),), free=1))
    signal.pause()


def test_what_cannot_be_written_ends_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A full disk is no lost process, and leaves none behind."""
    monkeypatch.setattr(workers_module, "serve_requests", report_and_wait)

    def full(*_: Any) -> None:
        raise StorageError("no space left")

    monkeypatch.setattr(Store, "write_tables", full)
    with pytest.raises(StorageError, match="no space left"):
        train(tmp_path, RUNS)
    assert not multiprocessing.active_children()


def test_what_is_wrong_with_a_shape_is_said(tmp_path: Path):
    broken = Run(A2CSettings("heaven-hell-3", "a2c-asym-hs", critic_sees="no-such-part"), 0)
    outcome = train(tmp_path, [broken])
    (reason,) = outcome.failures.values()
    assert "no-such-part" in reason


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
    environments = [workers.environment_of({}, i) for i in range(processes)]
    assert [each["CUDA_MPS_CLIENT_PRIORITY"] for each in environments] == list(priorities)


def test_a_priority_of_the_user_holds_for_all_processes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_MPS_CLIENT_PRIORITY", "1")
    workers = ProcessWorkers(3, pace=OFTEN)
    assert all("CUDA_MPS_CLIENT_PRIORITY" not in workers.environment_of({}, i) for i in range(3))


def _end_while_something_compiles(connection: Any, pace: Pace, placement: ProcessPlacement) -> None:
    """A process without work, with a thread that would crash it if Python shut down first."""
    busy = threading.Thread(target=time.sleep, args=(600,), name=f"{POOL_THREAD}narrower")
    busy.start()
    serve_requests(connection, pace, placement)


def test_a_process_ends_although_a_program_is_still_being_compiled():
    """The thread is no daemon, so that an ordinary end would wait for it."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_end_while_something_compiles, args=(there, OFTEN, ProcessPlacement(0, None, {})))
    process.start()
    there.close()
    assert here.recv() == READY
    here.close()  # there is nothing to do
    process.join(60)
    assert process.exitcode == 0


def test_a_pool_for_each_core_unless_something_else_is_wanted():
    three = thread_workers(OFTEN, 3)
    assert three.platform == "cpu"
    assert [worker.seat.name for worker in three.workers] == ["core 0", "core 1", "core 2"]
    assert len(thread_workers(OFTEN).workers) == len(os.sched_getaffinity(0))
    assert process_workers(OFTEN, 4).places == 4
