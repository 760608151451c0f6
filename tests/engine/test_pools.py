"""Batches on the devices of this machine: filled up, interrupted, too large, broken."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asymrl.runs.files import RunError
from asymrl.sweeps import training as training_module
from asymrl.sweeps.cells import Cell, batch_of, cells_of
from asymrl.sweeps.compiled import Compiled, CompiledCache
from asymrl.sweeps.display import SweepDisplay
from asymrl.sweeps.driver import run_sweep
from asymrl.sweeps.engine import Advanced, Finished, Kept, Pace
from asymrl.sweeps.in_flight import Saved
from asymrl.sweeps.lanes import fewer_lanes
from asymrl.sweeps.ledger import SweepFolder
from asymrl.sweeps.local import LocalEngine
from asymrl.sweeps.planner import fixed_size, measure_batch
from asymrl.sweeps.sessions import sessions
from asymrl.sweeps.training import BatchTraining, Task

from asymrl.learning.settings import Settings
from tests.engine.sweep_fixtures import assert_same_curves, curves

TINY = Settings(
    "tiger:episodic=true", "a2c-asym-s", memory_size=4, hidden=(4,), time_limit=4, steps=2000, log_points=10
)
WIDTH = 2
CELLS = [Cell(TINY, seed) for seed in range(4)]
LONG = Cell(replace(TINY, steps=3000), 1)


class Steps:
    """A probe that reports what it can be checked against: the counters of the runs."""

    columns = ("timesteps", "updates")
    every = 500

    def __call__(self, runs: Any) -> np.ndarray:
        return np.stack([np.asarray(runs.timesteps), np.asarray(runs.updates)], axis=1)


class Cache(CompiledCache):
    """Pretends that batches of more than two runs do not fit, and that another world can not be compiled."""

    def get(self, settings: Settings, count: int, device: Any) -> Any:
        if count > WIDTH:
            raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 byte")
        if settings.world == "good-bad":
            raise RuntimeError("INTERNAL: the compiler\ngave up")
        return super().get(settings, count, device)


@pytest.fixture(scope="module")
def cache() -> Cache:
    return Cache()


@pytest.fixture(scope="module")
def compiled(cache: Cache) -> Any:
    import jax

    return cache.get(TINY, WIDTH, jax.local_devices()[0])


def finish(training: BatchTraining) -> BatchTraining:
    while training.is_active():
        training.advance()
    return training


def test_a_batch_that_does_not_fit_is_halved_and_a_broken_one_is_recorded(
    cache: Cache, compiled: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    broken = Cell(Settings("good-bad", "a2c"), 0)
    display = SweepDisplay()
    outcome = run_sweep(tmp_path, [broken, *CELLS], LocalEngine(cache=cache), fixed_size(4), display=display)
    assert (outcome.done, outcome.cells, outcome.out_of_time) == (4, 5, False)
    assert list(outcome.failures.values()) == ["RuntimeError: INTERNAL: the compiler gave up"]
    assert set(curves(tmp_path)) == set(CELLS)
    assert "4 runs of tiger:episodic=true a2c-asym-s do not fit; trying half of them" in capsys.readouterr().out
    (label,) = SweepFolder(tmp_path).failures()
    assert label == "good-bad a2c seed=0"
    (session,) = sessions(tmp_path)
    assert (session["cells_finished"], session["cells_left"]) == (4, 0)
    assert session["steps"] == outcome.steps == 8000


def test_runs_that_fill_up_a_batch_change_nothing(compiled: Any):
    alone = finish(BatchTraining(Task(batch_of(CELLS[1:2]), WIDTH), compiled)).results()
    both = finish(BatchTraining(Task(batch_of(CELLS[:2]), WIDTH), compiled)).results()
    assert len(alone.curve) == 1
    np.testing.assert_array_equal(alone.curve[0], both.curve[1])


def test_a_probe_measures_every_so_many_steps_also_after_an_interruption(compiled: Any, tmp_path: Path):
    task = Task(batch_of(CELLS[:2]), WIDTH, probe=Steps())
    first = BatchTraining(task, compiled, call_seconds=1e-4)
    while first.snapshot.timesteps.min() < 800:
        first.advance()
    path = tmp_path / "saved.npz"
    path.write_bytes(first.saved().to_bytes())
    saved = Saved.read(path)
    results = finish(BatchTraining(Task(task.batch, WIDTH, saved, Steps()), compiled, call_seconds=1e-4)).results()
    timesteps, values = results.probe["probe_timesteps"], results.probe["probe_values"]
    np.testing.assert_array_equal(timesteps, values[..., 0])
    # At the start, every 500 steps of the slowest run, and at the end; an update has at most 8 steps.
    wanted = np.asarray([0, 500, 1000, 1500, 2000])
    assert np.all((timesteps.min(axis=1) >= wanted) & (timesteps.min(axis=1) < wanted + 8 * 16))
    whole = finish(BatchTraining(Task(task.batch, WIDTH), compiled)).results()
    np.testing.assert_array_equal(results.curve, whole.curve)


def test_part_of_a_batch_in_flight_goes_on(cache: Cache, compiled: Any, tmp_path: Path):
    training = BatchTraining(Task(batch_of(CELLS[:2]), WIDTH), compiled, call_seconds=1e-4)
    training.advance()
    folder = SweepFolder.take(tmp_path)
    folder.save(training.saved())
    (part,) = folder.saved(CELLS[1:], set(), print)
    assert cells_of(part.batch) == CELLS[1:2]
    whole = finish(training).results()
    alone = finish(BatchTraining(Task(part.batch, WIDTH, part), compiled)).results()
    np.testing.assert_array_equal(alone.curve[0], whole.curve[1])
    # What can not be read is taken away, and its cells begin again.
    (path,) = folder.in_flight.iterdir()
    path.write_bytes(b"PK")
    said: list[str] = []
    assert list(folder.saved(CELLS, set(), said.append)) == []
    assert "begin again" in said[0]
    assert not path.exists()
    folder.release()


def test_when_time_is_over_what_is_in_flight_is_kept(cache: Cache, compiled: Any, tmp_path: Path):
    events: list[Any] = []
    engine = LocalEngine(cache=cache, pace=Pace(refresh_seconds=1e-4))
    task = Task(batch_of(CELLS[:2]), WIDTH)
    engine.run([task], events.append, lambda: bool(events))
    assert isinstance(events[0], Advanced)
    assert not any(isinstance(event, Finished) for event in events)
    (kept,) = [event for event in events if isinstance(event, Kept)]
    goes_on = finish(BatchTraining(Task(task.batch, WIDTH, kept.saved), compiled)).results()
    np.testing.assert_array_equal(goes_on.curve, finish(BatchTraining(task, compiled)).results().curve)
    # A sweep without any time has everything left.
    outcome = run_sweep(tmp_path, CELLS, engine, fixed_size(WIDTH), display=SweepDisplay(), minutes=0)
    assert (outcome.done, outcome.out_of_time, outcome.complete) == (0, True, False)


def test_the_measurement_of_a_batch(cache: Cache, compiled: Any):
    found = measure_batch(CELLS[:2], cache, compiled.device)
    assert found.steps_per_second > 0
    # The networks, their targets and both moments of both optimisers are in it, at least.
    weights = sum(leaf.nbytes for leaf in training_arrays(compiled))
    assert found.bytes_needed is not None
    assert found.bytes_needed > weights


def training_arrays(compiled: Any) -> list[Any]:
    import equinox as eqx
    import jax

    runs = compiled.start(np.arange(WIDTH))
    arrays = eqx.filter((runs.critic, runs.target, runs.actor, runs.actor_adam, runs.critic_adam), eqx.is_array)
    return jax.tree.leaves(arrays)


def test_a_folder_in_use_is_refused(tmp_path: Path):
    folder = SweepFolder.take(tmp_path)
    with pytest.raises(RunError, match="in use by process"):
        run_sweep(tmp_path, CELLS, LocalEngine(), fixed_size(1), display=SweepDisplay())
    folder.release()


def test_threads_end_with_the_sweep(cache: Cache, compiled: Any, tmp_path: Path):
    before = threading.active_count()
    engine = LocalEngine(cache=cache, workers=2)
    run_sweep(tmp_path, CELLS, engine, fixed_size(WIDTH), display=SweepDisplay())
    assert threading.active_count() == before
    assert_same_curves(curves(tmp_path), curves(tmp_path))


def test_a_long_run_goes_on_without_the_short_one_beside_it(
    compiled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It does what it would have done otherwise, up to last digits, is kept whole, and probes still see both."""
    wide = Task(batch_of([CELLS[0], LONG]), WIDTH)
    otherwise = finish(BatchTraining(wide, compiled)).results()
    monkeypatch.setattr(training_module, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(training_module, "HELPED", np.inf)
    training = BatchTraining(replace(wide, probe=Steps()), compiled, call_seconds=1e-4)
    while training.lanes == WIDTH:
        training.advance()
        assert training.is_active()
    assert training.active().tolist() == [False, True]
    training.advance()
    path = tmp_path / "saved.npz"
    path.write_bytes(training.saved().to_bytes())
    resumed = finish(BatchTraining(replace(wide, saved=Saved.read(path)), compiled, call_seconds=1e-4)).results()
    results = finish(training).results()
    for found in (results, resumed):
        np.testing.assert_array_equal(found.curve[0], otherwise.curve[0])
        np.testing.assert_allclose(found.curve[1], otherwise.curve[1], rtol=1e-4)
    timesteps, values = results.probe["probe_timesteps"], results.probe["probe_values"]
    np.testing.assert_array_equal(timesteps, values[..., 0])
    assert timesteps[-1].tolist() == results.timesteps.tolist()


def test_lanes_become_fewer_only_if_that_pays(cache: Cache, compiled: Any, monkeypatch: pytest.MonkeyPatch):
    def lanes_in_the_end(program: Any, *cells: Cell) -> int:
        return finish(BatchTraining(Task(batch_of(cells), program.count), program, call_seconds=1e-4)).lanes

    assert lanes_in_the_end(compiled, CELLS[0], LONG) == WIDTH  # a minute can not be saved
    monkeypatch.setattr(training_module, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(training_module, "HELPED", 0.0)
    assert lanes_in_the_end(compiled, LONG) == 1
    four = Compiled(TINY.shape(), 4, compiled.device, cache)
    assert lanes_in_the_end(four, *CELLS[:2], Cell(replace(TINY, steps=2400), 2), LONG) == 2  # no help, so not again


@pytest.mark.parametrize(
    ("width", "active", "fewer"), [(60, 60, 60), (60, 31, 60), (60, 30, 30), (60, 16, 30), (60, 7, 8), (5, 1, 1)]
)
def test_lanes_are_halved_as_often_as_the_runs_fit(width: int, active: int, fewer: int):
    assert fewer_lanes(width, active) == fewer
