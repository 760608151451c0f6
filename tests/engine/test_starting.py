"""New runs that begin with the networks of trained ones."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asymrl import api, cli
from asymrl.engine.monitoring.listeners import Silent
from asymrl.learning.programs.factory import program
from asymrl.settings import DQNSettings
from asymrl.stores.checkpoints.starting import starting_networks
from asymrl.stores.files import RunError
from asymrl.stores.runs import Run
from asymrl.stores.store import Store
from asymrl.zoo.shipped import AGENTS
from tests.engine.conftest import OPTIONS, WORLD, Recorder, Uninterrupted, final_states, tiny

SHORT: dict[str, Any] = {"steps": 400, "log_points": 10}


def best_of(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of the run with the best recent return."""
    store = Store.open(folder)
    best = max(store.results(), key=lambda number: store.results()[number].recent_return)
    ((_, saved),) = store.saved([best])
    return {name: array[0] for name, array in saved.states().items()}


def trained_from(folder: Path, out: Path, **changes: Any) -> dict[str, np.ndarray]:
    settings = tiny(**SHORT, start_from=str(folder), **changes)
    api.train(settings, seeds=[5], out=out, listener=Silent())
    return final_states(out)[Run(settings, 5)]


def of_network(arrays: dict[str, np.ndarray], network: str) -> list[np.ndarray]:
    return [array for name, array in sorted(arrays.items()) if name.startswith(network)]


def test_while_only_the_critic_learns_the_actor_stays_that_of_the_best_trained_run(
    uninterrupted: Uninterrupted, tmp_path: Path
):
    source = best_of(uninterrupted.folder)
    arrays = trained_from(uninterrupted.folder, tmp_path / "runs", critic_first=450)
    for now, then in zip(of_network(arrays, "actor."), of_network(source, "actor."), strict=True):
        np.testing.assert_array_equal(now, then)
    assert not all(map(np.array_equal, of_network(arrays, "critic."), of_network(source, "critic.")))
    assert int(arrays["updates"]) > 20


def test_afterwards_the_actor_learns_too(uninterrupted: Uninterrupted, tmp_path: Path):
    source = best_of(uninterrupted.folder)
    arrays = trained_from(uninterrupted.folder, tmp_path / "runs", critic_first=200)
    assert not all(map(np.array_equal, of_network(arrays, "actor."), of_network(source, "actor.")))


def test_the_target_begins_as_a_copy_of_the_critic(uninterrupted: Uninterrupted):
    arrays = starting_networks(str(uninterrupted.folder), program(tiny())).arrays
    copies = {name: array for name, array in arrays.items() if name.startswith("target.")}
    assert copies
    for name, array in copies.items():
        np.testing.assert_array_equal(array, arrays[name.replace("target", "critic", 1)])


def test_a_critic_that_reads_something_else_begins_anew_as_far_as_it_does(uninterrupted: Uninterrupted, tmp_path: Path):
    """V(s) has no memory of its own, so V(h, s) begins with what it has, its reading of the state."""
    both = program(tiny(method="a2c-asym-hs"))
    networks = starting_networks(str(uninterrupted.folder), both)
    assert any(name.startswith("critic.history.") for name in networks.new)
    assert not any(name.startswith("actor.") for name in networks.new)
    listener = Recorder()
    settings = tiny(**SHORT, method="a2c-asym-hs", start_from=str(uninterrupted.folder))
    api.train(settings, seeds=[0], out=tmp_path / "runs", listener=listener)
    (said,) = [text for text in listener.said if "begins with the networks of" in text]
    assert "except critic.history." in said


def test_both_target_networks_of_a_q_learner_begin_as_copies(tmp_path: Path):
    small: dict[str, Any] = {"memory_size": 4, "hidden": (4,), "time_limit": 4, "prefill": 20, "replay_steps": 200}
    settings = DQNSettings(world=WORLD, method="adqn", steps=60, log_points=2, **small)
    api.train(settings, seeds=1, out=tmp_path / "runs", listener=Silent())
    arrays = starting_networks(str(tmp_path / "runs"), program(settings)).arrays
    for copy, original in (("target.history.", "actor."), ("target.privileged.", "critic.")):
        names = [name for name in arrays if name.startswith(copy)]
        assert names
        for name in names:
            np.testing.assert_array_equal(arrays[name], arrays[original + name.removeprefix(copy)])


def test_a_shipped_agent_is_restored_from_few_bits():
    ((_, saved),) = Store.open(AGENTS / "heaven-hell-3").saved([0])
    settings = api.load(AGENTS / "heaven-hell-3").runs[0].settings
    arrays = starting_networks("zoo:heaven-hell-3", program(settings)).arrays
    name = "actor.head.layers.1.bias"
    np.testing.assert_array_equal(arrays[name], saved.arrays[name][0].astype(np.float32))
    assert {array.dtype for array in of_network(arrays, "actor.")} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("zoo:nowhere", "there is no such agent; there are car-flag, "),
        ("zoo:heaven-hell-3", "its actor does not fit: actor."),
        ("there-is-no-such-folder", "no runs here"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    source: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "runs"
    assert cli.main(["train", WORLD, *OPTIONS, "--start-from", source, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_runs_without_networks_are_refused(uninterrupted: Uninterrupted, tmp_path: Path):
    store = Store.create(tmp_path / "runs", Store.open(uninterrupted.folder).runs, keeps_networks=False)
    store.write_tables(Store.open(uninterrupted.folder).results())
    store.release()
    with pytest.raises(RunError, match="were not kept"):
        starting_networks(str(store.path), program(tiny()))


def test_without_its_source_a_run_cannot_begin_but_go_on(
    uninterrupted: Uninterrupted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source = tmp_path / "source"
    shutil.copytree(uninterrupted.folder, source)
    settings = tiny(**SHORT, start_from=str(source))
    folder = api.train(settings, seeds=[0], out=tmp_path / "runs", listener=Silent()).folder
    shutil.rmtree(source)
    api.resume(folder, steps=800, listener=Silent())
    assert Store.open(folder).results()[0].timesteps >= 800

    store = Store.create(tmp_path / "more", [Run(tiny(**SHORT), 0), Run(settings, 1)])
    store.release()
    assert cli.main(["resume", str(store.path), "--no-report"]) == 1
    shown = capsys.readouterr()
    assert f"{source}: no runs here: there is no such folder" in shown.out + shown.err
    assert [number for number, result in Store.open(store.path).results().items() if result.is_over] == [0]
