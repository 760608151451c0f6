"""Batches in processes of their own: killed, stopped, broken, and what MPS is told."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asymrl.runs.files import StorageError
from asymrl.sweeps.cells import Cell, batch_of, cells_of
from asymrl.sweeps.display import SweepDisplay
from asymrl.sweeps.driver import run_sweep
from asymrl.sweeps.engine import Advanced, Event, Failed, Finished, Kept, Noted, Pace, is_device_lost
from asymrl.sweeps.local import LocalEngine
from asymrl.sweeps.planner import fixed_size, plan
from asymrl.sweeps.processes import ProcessEngine, Trouble, _Floor, _Waiting, shared_device, train_batch
from asymrl.sweeps.training import Task

from asymrl.learning.settings import Settings
from tests.engine.sweep_fixtures import assert_same_curves, curves

TINY = Settings(
    "tiger:episodic=true", "a2c-asym-s", memory_size=4, hidden=(4,), time_limit=4, steps=3000, log_points=10
)
CELLS = [Cell(TINY, seed) for seed in range(2)]
OFTEN = Pace(checkpoint_seconds=0, refresh_seconds=0.01)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[Cell, Any]:
    folder = tmp_path_factory.mktemp("threads")
    run_sweep(folder, CELLS, LocalEngine(), fixed_size(2), display=SweepDisplay())
    return curves(folder)


def test_a_killed_process_loses_and_doubles_nothing(expected: dict[Cell, Any], tmp_path: Path):
    class Killing(ProcessEngine):
        killed = False

        def run(self, tasks: Any, report: Any, stop: Any) -> None:
            def and_kill(event: Event) -> None:
                if isinstance(event, Kept) and not self.killed:
                    self.killed = True
                    for child in multiprocessing.active_children():
                        child.kill()
                notes.extend([event.message] if isinstance(event, Noted) else [])
                report(event)

            super().run(tasks, and_kill, stop)

    notes: list[str] = []
    outcome = run_sweep(tmp_path, CELLS, Killing(1, pace=OFTEN), fixed_size(2), display=SweepDisplay())
    assert outcome.complete
    assert set(notes) == {"a process with tiger:episodic=true a2c-asym-s was lost; trying again"}
    assert_same_curves(curves(tmp_path), expected)
    assert not multiprocessing.active_children()


def test_a_stopped_sweep_keeps_what_is_in_flight_and_goes_on(expected: dict[Cell, Any], tmp_path: Path):
    seen: list[Event] = []
    tasks = plan(CELLS, [], fixed_size(2))
    engine = ProcessEngine(1, pace=OFTEN)
    engine.run(tasks, seen.append, lambda: any(isinstance(event, Advanced) for event in seen))
    kept = [event for event in seen if isinstance(event, Kept)]
    assert kept
    assert not any(isinstance(event, Finished | Noted) for event in seen)
    rest = plan([], [kept[-1].saved], fixed_size(2))
    assert rest[0].steps_left < tasks[0].steps_left
    seen.clear()
    engine.run(rest, seen.append, lambda: False)
    (finished,) = [event for event in seen if isinstance(event, Finished)]
    results = finished.results
    found = {cell: results.curve[i, : results.logged[i]] for i, cell in enumerate(cells_of(results.batch))}
    assert_same_curves(found, expected)


def test_a_batch_that_always_loses_its_process_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("asymrl.sweeps.processes.train_batch", die)
    monkeypatch.setattr("asymrl.sweeps.engine.MOST_LOSSES", 1)
    events: list[Event] = []
    ProcessEngine(1).run(plan(CELLS, [], fixed_size(2)), events.append, lambda: False)
    (failure,) = [event for event in events if isinstance(event, Failed)]
    assert failure.reason == "lost with its process 2 times, the last time: exit code -9"


def test_what_can_not_be_written_ends_the_sweep(monkeypatch: pytest.MonkeyPatch):
    """A full disk is no lost process."""
    monkeypatch.setattr("asymrl.sweeps.processes.train_batch", give_up)

    def full(event: Event) -> None:
        raise StorageError("no space left")

    with pytest.raises(StorageError, match="no space left"):
        ProcessEngine(1).run(plan(CELLS, [], fixed_size(2)), full, lambda: False)
    assert not multiprocessing.active_children()


def test_a_lost_device_is_no_fault_of_the_batch(
    monkeypatch: pytest.MonkeyPatch, expected: dict[Cell, Any], tmp_path: Path
):
    """Where processes share a GPU, the fault of one ends all. Their batches go on with what was kept."""
    monkeypatch.setattr("asymrl.sweeps.processes.train_batch", lose_device_once)
    monkeypatch.setattr("asymrl.sweeps.processes.RECOVERY_SECONDS", 0.1)
    monkeypatch.setenv("ASYMRL_TEST_LOST", str(tmp_path / "lost"))
    notes: list[str] = []

    class Noting(ProcessEngine):
        def run(self, tasks: Any, report: Any, stop: Any) -> None:
            def and_note(event: Event) -> None:
                notes.extend([event.message] if isinstance(event, Noted) else [])
                report(event)

            super().run(tasks, and_note, stop)

    outcome = run_sweep(tmp_path, CELLS, Noting(1, pace=OFTEN), fixed_size(2), display=SweepDisplay())
    assert outcome.complete
    assert not outcome.failures
    assert notes == ["a process with tiger:episodic=true a2c-asym-s was lost; trying again"]
    assert_same_curves(curves(tmp_path), expected)


def lose_device_once(driver: Any, task: Any, pace: Any, place: Any) -> None:
    marker = Path(os.environ["ASYMRL_TEST_LOST"])
    if marker.exists():
        assert place.pause == 0.1
        train_batch(driver, task, pace, place)
        return
    marker.touch()

    def fault(*_: Any) -> None:
        raise RuntimeError("INTERNAL: CUDA error: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asymrl.sweeps.compiled.Compiled", fault)
        train_batch(driver, task, pace, place)


def test_a_process_does_not_train_on_another_kind_of_device(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("asymrl.sweeps.engine.MOST_LOSSES", 0)
    events: list[Event] = []
    ProcessEngine(1, platform="gpu").run(plan(CELLS, [], fixed_size(2)), events.append, lambda: False)
    (failure,) = [event for event in events if isinstance(event, Failed)]
    assert failure.reason == "lost with its process 1 times, the last time: there is no gpu any more, only cpu"


def test_short_memory_is_no_lost_device():
    assert not is_device_lost(RuntimeError("RESOURCE_EXHAUSTED: CUDA_ERROR_OUT_OF_MEMORY: out of memory"))
    assert not is_device_lost(RuntimeError("CUDA_ERROR_OUT_OF_MEMORY"))
    assert not is_device_lost(ValueError("heads must divide the size"))
    assert is_device_lost(RuntimeError("Unable to initialize backend 'cuda'"))


def give_up(driver: Any, *_: Any) -> None:
    driver.send(Trouble("nothing works"))
    driver.recv()


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_is_wrong_with_a_batch_is_told(tmp_path: Path):
    broken = Cell(Settings("heaven-hell-3", "a2c", memory_size=3, memory="attention", attention_heads=2), 0)
    outcome = run_sweep(tmp_path, [broken], ProcessEngine(1), fixed_size(1), display=SweepDisplay())
    (reason,) = outcome.failures.values()
    assert "attention" in reason or "heads" in reason


MPS = """#!/bin/sh
echo "$@ $(cat)" >> {log}
echo "$CUDA_MPS_PIPE_DIRECTORY" >> {log}
"""


def test_mps_runs_as_long_as_the_sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
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


@pytest.mark.parametrize(("urgent", "priorities"), [(None, "011"), (lambda task: len(task.batch) == 2, "101")])
def test_who_is_served_first(monkeypatch: pytest.MonkeyPatch, urgent: Callable[[Task], bool] | None, priorities: str):
    """Those that start first, or those that are said to be urgent."""
    places = []

    class Recorded:
        Pipe = staticmethod(multiprocessing.Pipe)

        def Process(self, *, target: Any, args: Any, daemon: bool) -> Any:
            places.append(args[-1])
            return SimpleNamespace(start=lambda: None)

    engine = ProcessEngine(3, urgent=urgent)
    floor = _Floor(engine, {}, lambda event: None)
    monkeypatch.setattr(floor, "_context", Recorded())
    floor.waiting.extend(_Waiting(Task(batch_of(CELLS[:size]), size)) for size in (1, 2, 1))
    floor.start()
    assert [place.environment["CUDA_MPS_CLIENT_PRIORITY"] for place in places] == list(priorities)
