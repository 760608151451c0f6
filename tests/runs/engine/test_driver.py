"""The training of a store in this process: what is written, said and tried again, whatever goes wrong."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from asymrl.api.run_folders import take_store
from asymrl.learners.program import program
from asymrl.runs import run_queue as queue_module, worker as worker_module
from asymrl.runs.callback import Callbacks, StopRuns
from asymrl.runs.driver import Outcome, train_store
from asymrl.runs.files import StorageError
from asymrl.runs.lanes import Assignment
from asymrl.runs.placement import Pace, Placement
from asymrl.runs.pool import Pool
from asymrl.runs.preparation import assignments_of
from asymrl.runs.runs import Run
from asymrl.runs.sessions import sessions
from asymrl.runs.store import Store
from asymrl.runs.training_record import TrainingRecord
from asymrl.runs.worker import Report
from asymrl.settings import A2CSettings, Settings
from tests.runs.engine.conftest import Recorder, assert_same_curves, assert_same_result, curves, random_saved, tiny

SHORT = tiny(steps=2000, log_points=10)
RUNS = [Run(replace(SHORT, steps=steps), seed) for seed, steps in enumerate((700, 2000, 450, 900))]
BROKEN = Run(A2CSettings("good-bad", "a2c"), 0)
OFTEN = Pace(refresh_seconds=0.02)
ALONE = Placement(workers=1)


def train(folder: Path, runs: Sequence[Run], recorder: Recorder | None = None, **how: Any) -> Outcome:
    """Trains what is missing of these runs in a store."""
    store = Store.take_or_create(folder, runs)
    try:
        return train_store(store, recorder or Recorder(), **{"pace": OFTEN, "placement": ALONE, **how})
    finally:
        store.release()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores") / "undisturbed"
    outcome = train(folder, RUNS)
    assert outcome.is_complete
    assert (outcome.runs, outcome.over, outcome.failures, outcome.interrupted) == (4, 4, {}, None)
    assert sum(run.settings.steps for run in RUNS) <= outcome.steps < sum(run.settings.steps + 8 for run in RUNS)
    return folder


class Narrow:
    """A machine on which pools of more than one lane do not fit, and one world cannot be compiled."""

    def __init__(self, shape: Settings):
        self._program = program(shape)

    def open(self, lanes: int, device: Any) -> Any:
        if lanes > 1:
            raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 byte")
        if self._program.settings.world == "good-bad":
            raise RuntimeError("INTERNAL: the compiler\ngave up")
        return self._program.open(lanes, device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)


def test_a_pool_that_does_not_fit_is_halved_and_a_broken_shape_is_recorded(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr(worker_module, "program", Narrow)
        recorder = Recorder()
        outcome = train(tmp_path, [BROKEN, *RUNS], recorder, placement=Placement(lanes=3, workers=1))
    assert (outcome.over, outcome.runs, outcome.is_out_of_time, outcome.is_complete) == (4, 5, False, False)
    reason = "RuntimeError: INTERNAL: the compiler gave up"
    assert outcome.failures == {"good-bad a2c seed=0": reason}
    assert recorder.said == [
        f"good-bad a2c seed=0 failed: {reason}",
        "3 runs of tiger:episodic=true a2c-asym-s do not fit; trying half of them",
    ]
    assert [lanes for shape, lanes in recorder.compiled if shape == SHORT.shape()] == [3, 1]
    # The other runs are what they are elsewhere.
    assert_same_curves(curves(tmp_path), curves(undisturbed))
    store = Store.open(tmp_path)
    assert (store.results()[0].status, store.results()[0].failure) == ("error", reason)
    assert store.unfinished() == [0]  # it is tried again the next time


def test_a_world_that_does_not_exist_breaks_its_runs_only(undisturbed: Path, tmp_path: Path):
    runs = [Run(replace(SHORT, world=world, steps=450), 2) for world in ("nowhere-3", SHORT.world)]
    recorder = Recorder()
    outcome = train(tmp_path, runs, recorder)
    ((label, reason),) = outcome.failures.items()
    assert label.startswith("nowhere-3 a2c-asym-s")
    assert "unknown world 'nowhere-3'" in reason
    assert outcome.over == 1
    assert_same_curves(curves(tmp_path), {RUNS[2]: curves(undisturbed)[RUNS[2]]})


def test_only_what_is_missing_is_trained(undisturbed: Path, tmp_path: Path):
    folder = tmp_path / "grown"
    outcome = train(folder, RUNS[:3], only=[0, 2])
    assert (outcome.over, outcome.runs) == (2, 3)
    before = curves(folder)
    outcome = train(folder, RUNS)
    assert (outcome.over, outcome.runs) == (4, 4)
    assert 2900 <= outcome.steps < 2900 + 16  # the two that were missing
    assert_same_curves({run: curve for run, curve in curves(folder).items() if run in before}, before)
    assert_same_result(folder, undisturbed)
    # Complete: nothing is compiled, trained or written.
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}
    recorder = Recorder()
    outcome = train(folder, RUNS, recorder)
    assert (outcome.is_complete, outcome.steps) == (True, 0)
    assert (recorder.compiled, recorder.seen) == ([], [])
    assert {path: path.stat().st_mtime_ns for path in files} == files


def test_when_time_is_over_everything_is_kept(undisturbed: Path, tmp_path: Path):
    outcome = train(tmp_path, RUNS, minutes=0)
    assert (outcome.over, outcome.is_out_of_time, outcome.is_complete) == (0, True, False)

    with pytest.MonkeyPatch.context() as patch:  # time is over when the first run is
        any_over = lambda self: any(result.is_over for result in self.record.results.values())  # noqa: E731
        patch.setattr("asymrl.runs.driver._Driver._is_out_of_time", any_over)
        admit = Pool.admit

        def admit_late(self: Pool, assignments: Sequence[Assignment]) -> None:
            time.sleep(0.5)  # these runs are so short that all might be over before anybody looks
            admit(self, assignments)

        patch.setattr(Pool, "admit", admit_late)
        outcome = train(tmp_path, RUNS)
    assert outcome.is_out_of_time
    assert 0 < outcome.over < 4
    rest = train(tmp_path, RUNS)
    assert rest.is_complete
    assert outcome.steps + rest.steps == pytest.approx(sum(run.settings.steps for run in RUNS), abs=4 * 8)
    assert_same_result(tmp_path, undisturbed)
    first, second, third = sessions(tmp_path)
    assert (first["runs_finished"], first["runs_left"], first["steps"]) == (0, 4, 0)
    assert second["runs_finished"] + third["runs_finished"] == 4
    assert third["runs_left"] == 0
    assert second["steps"] == outcome.steps


def test_progress_shows_what_trains_and_ends_with_all(tmp_path: Path):
    recorder = Recorder()
    train(tmp_path, RUNS, recorder, placement=Placement(workers=2))
    assert recorder.compiled[0] == (SHORT.shape(), 1)
    for progress in recorder.seen:
        over = {number for number, result in progress.results.items() if result.is_over}
        assert not over & progress.training  # a run that is over has left its lane
        assert len(progress.training) <= 2  # one for each core
    assert any(progress.training for progress in recorder.seen)
    last = recorder.seen[-1]
    assert (last.over, last.share, last.training) == (4, 1.0, frozenset())


def test_points_are_passed_on_once(undisturbed: Path, tmp_path: Path):
    class Points(Recorder):
        def points(self, run: int, table: Any) -> None:
            told.extend((run, timestep) for timestep in table["timestep"])

    told: list[tuple[int, int]] = []
    train(tmp_path, RUNS, Points(), minutes=0)
    train(tmp_path, RUNS, Callbacks([Points()]))  # pyright: ignore[reportArgumentType]
    metrics = Store.open(undisturbed).metrics()
    assert sorted(told) == sorted(metrics.select("run", "timestep").rows())


def test_networks_that_are_not_wanted_are_not_kept(undisturbed: Path, tmp_path: Path):
    store = Store.create(tmp_path / "store", RUNS, keeps_networks=False)
    train_store(store, Recorder(), pace=Pace(0.02, 0), placement=ALONE)
    store.release()
    assert not list((tmp_path / "store" / "checkpoint").iterdir())
    assert_same_curves(curves(tmp_path / "store"), curves(undisturbed))


def test_a_device_that_is_gone_breaks_what_it_would_have_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fault(*_: Any) -> None:
        raise RuntimeError("INTERNAL: CUDA error: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure")

    monkeypatch.setattr(worker_module, "open_pool", fault)
    outcome = train(tmp_path, [*RUNS, BROKEN])
    assert (outcome.over, outcome.is_out_of_time) == (0, False)
    assert len(outcome.failures) == 5
    assert all("CUDA_ERROR_LAUNCH_FAILED" in reason for reason in outcome.failures.values())
    assert Store.open(tmp_path).unfinished() == [0, 1, 2, 3, 4]


def test_what_cannot_be_written_ends_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise StorageError(f"{tmp_path}: cannot be written: No space left on device")

    monkeypatch.setattr(Store, "write_tables", full)
    before = threading.active_count()
    with pytest.raises(StorageError, match=f"No space left on device.*go on with `asymrl resume {tmp_path}`"):
        train(tmp_path, RUNS)
    assert threading.active_count() == before


def test_threads_end_with_the_training(tmp_path: Path):
    before = threading.active_count()
    train(tmp_path, RUNS[:3], placement=Placement(lanes=1, workers=2))
    assert threading.active_count() == before


def test_runs_in_training_keep_their_states_while_others_are_finished(tmp_path: Path):
    """Pieces of a store without networks are trained one after the other; what waits must not begin again."""
    store = Store.create(tmp_path, RUNS[:2], keeps_networks=False)
    store.save(random_saved((RUNS[1],)), "core 1")
    train_store(store, Recorder(), pace=OFTEN, placement=ALONE, only=[0])
    assert [numbers for numbers, _ in store.saved([1])] == [[1]]
    store.release()


def test_runs_that_step_aside_for_longer_ones_end_the_same(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """With as few runs as cores left, the longest has a core at any time, and the others take turns."""
    report, turns = queue_module.RunQueue.report, []

    def counted(self: queue_module.RunQueue, name: str, answer: Report) -> None:
        turns.extend([name] if self._holdings[name].request.hand_back else [])
        report(self, name, answer)

    monkeypatch.setattr(queue_module, "TURN_SECONDS", -1e9)  # after every call
    monkeypatch.setattr(queue_module.RunQueue, "report", counted)
    assert train(tmp_path, RUNS, placement=Placement(workers=2)).is_complete
    assert len(turns) > 3
    assert_same_result(tmp_path, undisturbed)


class Stopper(Recorder):
    """Wants some runs to stop, or all, once one of them has a point."""

    def __init__(self, *numbers: int):
        super().__init__()
        self.numbers = numbers

    def points(self, run: int, table: Any) -> None:
        raise StopRuns(*self.numbers)


LONG = [Run(replace(SHORT, steps=1_000_000), seed) for seed in range(2)]


def test_a_callback_stops_runs_in_lanes_and_runs_that_wait(tmp_path: Path):
    """One lane: the first run is in it, the others wait; the stopped one is kept and not taken up again."""
    folder = tmp_path / "stopped"
    runs = [*LONG, Run(replace(SHORT, steps=700), 2)]
    recorder = Callbacks([Stopper(0, 1), watcher := Recorder()])
    outcome = train(folder, runs, recorder)  # pyright: ignore[reportArgumentType]
    assert outcome.is_complete
    store = Store.open(folder)
    results = store.results()
    assert [results[n].status for n in range(3)] == ["stopped", "stopped", "complete"]
    assert 0 < results[0].timesteps < 1_000_000
    assert results[1].timesteps == 0
    saved = {run: states for held, states in store.saved([0, 1, 2]) for run in states.runs}
    assert set(saved) == {runs[0], runs[2]}, "what had begun has a checkpoint"
    assert any("stopped by a callback" in message for message in watcher.said)
    again = train(folder, runs)
    assert again.steps == 0, "a stopped run is over"


def test_a_callback_stops_everything_and_more_steps_go_on(tmp_path: Path):
    folder = tmp_path / "all"
    outcome = train(folder, LONG, Stopper())
    assert outcome.is_complete
    first = Store.open(folder).results()
    assert {result.status for result in first.values()} == {"stopped"}
    store = Store.take(folder)
    store.extend(1_100_000)
    assert store.unfinished() == [0, 1]

    class Later(Recorder):
        def progress(self, progress: Any) -> None:
            if progress.results[0].timesteps > first[0].timesteps:
                raise StopRuns

    train_store(store, Later(), pace=OFTEN, placement=ALONE)
    store.release()
    second = Store.open(folder).results()
    assert {result.status for result in second.values()} == {"stopped"}
    assert second[0].timesteps > first[0].timesteps > 0, "it went on from where it was stopped"


def test_a_callback_that_fails_does_not_end_the_training(tmp_path: Path):
    class Failing(Recorder):
        def progress(self, progress: Any) -> None:
            raise OSError("no network")

    failing = Failing()
    assert train(tmp_path / "failing", RUNS[2:3], failing).is_complete
    assert failing.said == ["a callback failed (OSError: no network); the training goes on"]


def test_all_callbacks_are_told_whatever_one_of_them_raises():
    class Raising(Recorder):
        def __init__(self, error: Exception):
            super().__init__()
            self.error = error

        def points(self, run: int, table: Any) -> None:
            self.said.append("told")
            raise self.error

    several = [Raising(StopRuns(1)), Raising(OSError("broken")), Raising(StopRuns(2, 3))]
    with pytest.raises(StopRuns) as stop:
        Callbacks(several).points(0, None)  # pyright: ignore[reportArgumentType]
    assert stop.value.numbers == {1, 2, 3}
    assert all(each.said == ["told"] for each in several)


def test_runs_whose_checkpoints_are_gone_begin_again(undisturbed: Path, tmp_path: Path):
    folder = tmp_path / "runs"
    shutil.copytree(undisturbed, folder)
    shutil.rmtree(folder / "checkpoint")
    store, recorder = take_store(folder), Recorder()
    assert len(store.unfinished()) == len(store)
    try:
        record = TrainingRecord(store, recorder, Pace(), {})
        assert all(each.saved is None for each in assignments_of(record, range(len(store))))
    finally:
        store.release()
    assert f"begin again: {folder / 'checkpoint'} has no state of them" in recorder.said[0]


def test_another_layout_is_mentioned_once(undisturbed: Path, tmp_path: Path):
    folder = tmp_path / "runs"
    shutil.copytree(undisturbed, folder)
    store, recorder = Store.take(folder), Recorder()
    try:
        record = TrainingRecord(store, recorder, Pace(), {})
        ((_, saved), *_) = store.saved([0])
        assert saved.layout is not None
        store.checkpoints.layout = saved.layout
        assignments_of(record, [0, 1])
        assert recorder.said == []
        store.checkpoints.layout = saved.layout._replace(threads=saved.layout.threads + 3)
        assignments_of(record, [0, 1])
    finally:
        store.release()
    (said,) = recorder.said
    assert f"with {saved.layout.threads} threads so far, now on" in said
    assert "identical up to rounding at first, then diverge" in said
