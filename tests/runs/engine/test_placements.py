"""Results do not depend on where runs are trained: threads, processes, devices; compiled worlds and Python's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from asymrl import api
from asymrl.learners.state import METRICS
from asymrl.runs.lanes import Assignment
from asymrl.runs.placement import Placement
from asymrl.runs.pool import Pool
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from tests.runs.engine.conftest import Commands, Recorder, Uninterrupted, assert_same_result, final_states, tiny

GUESS = "tests.envs.gym.foreign_envs:Guess"  # a Gymnasium environment, which runs in Python
SMALL: dict[str, Any] = {"memory_size": 4, "hidden": (8,), "time_limit": 5, "steps": 300, "log_points": 5}


def test_pools_in_processes(uninterrupted: Uninterrupted, environment: dict[str, str], tmp_path: Path):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        api.train(tiny(), seeds=2, out=tmp_path / "runs", display=Recorder(), placement=Placement(processes=2))
    assert_same_result(tmp_path / "runs", uninterrupted.folder)


ON_TWO_DEVICES = """
import sys
import jax
import asymrl
from asymrl.runs.callback import Callback
from tests.runs.engine.conftest import tiny
from tests.runs.engine.test_placements import GUESS, SMALL

assert jax.local_device_count() == 2
devices = set()
from asymrl.runs import worker
make = worker.Pool
def watched(program, lanes, device, *more):
    devices.add(device.id)
    return make(program, lanes, device, *more)
worker.Pool = watched
asymrl.train(tiny(), seeds=2, out=sys.argv[1], display=Callback())
assert devices == {0, 1}, devices
devices.clear()
asymrl.train(GUESS, "a2c-asym-s", seeds=3, out=sys.argv[2], display=Callback(), **SMALL)
"""


def test_pools_on_two_devices(asymrl: Commands, uninterrupted: Uninterrupted, tmp_path: Path):
    flags = asymrl.environment["XLA_FLAGS"] + " --xla_force_host_platform_device_count=2"
    asymrl.python(ON_TWO_DEVICES, str(tmp_path / "compiled"), str(tmp_path / "stepped"), XLA_FLAGS=flags)
    assert_same_result(tmp_path / "compiled", uninterrupted.folder)
    assert api.load(tmp_path / "stepped").table["status"].to_list() == ["complete"] * 3


@pytest.fixture(scope="module")
def guesses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of an environment that runs in Python: two shapes, one of them with two learning rates."""
    folder = tmp_path_factory.mktemp("guesses") / "sweep"
    how = {"display": Recorder(), "seeds": 2, "out": folder}
    api.sweep(GUESS, "a2c", axes={"actor_rate": [1e-3, 3e-4]}, **how, **SMALL)
    api.sweep(GUESS, "a2c-asym-s", **how, **SMALL)
    return folder


def test_an_environment_that_runs_in_python_is_swept(guesses: Path):
    runs = api.load(guesses)
    assert runs.table.group_by("method", maintain_order=True).len().rows() == [("a2c", 4), ("a2c-asym-s", 2)]
    assert runs.table["status"].unique().to_list() == ["complete"]
    # Three steps an episode, two episodes an update: exactly 50 updates.
    assert runs.table["timesteps"].to_list() == [300] * 6
    assert runs.table["updates"].to_list() == [50] * 6
    assert len(final_states(guesses)) == 6


def test_where_such_an_environment_is_trained_makes_no_difference(guesses: Path, tmp_path: Path):
    """By two pools beside each other, in a process, and interrupted in the middle."""
    expected = {run: state for run, state in final_states(guesses).items() if run.settings.method == "a2c-asym-s"}
    first = next(iter(expected)).settings
    for placement in (Placement(workers=2, lanes=1), Placement(processes=1)):
        folder = tmp_path / f"{placement.processes}"
        api.train(first, seeds=2, out=folder, display=Recorder(), placement=placement)
        assert_alike(final_states(folder), expected, is_exact=placement.processes is not None)


def assert_alike(found: dict[Run, Any], expected: dict[Run, Any], *, is_exact: bool) -> None:
    """The same actions; the same numbers if as many lanes were trained together, and otherwise up to rounding."""
    assert found.keys() == expected.keys()
    acted = METRICS.index("critic_loss")
    for run, state in expected.items():
        np.testing.assert_array_equal(found[run]["curve"][:, :acted], state["curve"][:, :acted])
        for name, array in state.items():
            if is_exact:
                np.testing.assert_array_equal(found[run][name], array, err_msg=name)
            else:
                np.testing.assert_allclose(found[run][name], array, rtol=1e-3, atol=1e-5, err_msg=name)


def test_an_interrupted_environment_goes_on(guesses: Path):
    """Pools of Python's worlds are saved and refilled as all others are."""
    import jax

    from asymrl.learners.program import program

    expected = {run: state for run, state in final_states(guesses).items() if run.settings.method == "a2c-asym-s"}
    runs = list(expected)
    pool = Pool(program(runs[0].settings), 2, jax.local_devices()[0], 0.001)
    pool.admit([Assignment(0, runs[0])])
    pool.advance()
    pool.admit([Assignment(1, runs[1])])  # beside one that has begun
    pool.advance()
    saved = pool.saved()
    pool.close()
    assert saved is not None
    assert 0 < saved.arrays["updates"].min() < saved.arrays["updates"].max() < 50
    again = Pool(program(runs[0].settings), 2, jax.local_devices()[0], 0.001)
    again.admit([Assignment(row, run, saved.only([row])) for row, run in enumerate(runs)][::-1])
    states = {}
    while not again.is_empty:
        again.advance()
        states |= {runs[event.number]: event.saved for event in again.retire(with_states=True)}
    again.close()
    found = {run: {name: array[0] for name, array in state.states().items()} for run, state in states.items()}
    assert_alike(found, expected, is_exact=True)


def test_one_schema_for_every_store(guesses: Path, uninterrupted: Uninterrupted):
    """So that tables can be put together, whichever command made them."""
    first, second = (Store.open(folder).metrics() for folder in (guesses, uninterrupted.folder))
    both = pl.concat([first, second], how="diagonal")
    assert len(both) == len(first) + len(second)
