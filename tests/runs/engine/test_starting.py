"""New runs that begin with the networks of trained ones."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from asymrl import api, cli
from asymrl.learners.program import program
from asymrl.runs.callback import Callback
from asymrl.runs.files import RunError
from asymrl.runs.lanes import Assignment
from asymrl.runs.pool import Pool
from asymrl.runs.runs import Run
from asymrl.runs.starting import starting_networks
from asymrl.runs.store import Store
from asymrl.settings import A2CSettings, DQNSettings, Settings
from asymrl.zoo import AGENTS
from tests.runs.engine.conftest import OPTIONS, WORLD, Recorder, Uninterrupted, tiny

SHORT: dict[str, Any] = {"steps": 400, "log_points": 10}


def best_of(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of the run with the best recent return."""
    store = Store.open(folder)
    best = max(store.results(), key=lambda number: store.results()[number].recent_return)
    ((_, saved),) = store.saved([best])
    return {name: array[0] for name, array in saved.states().items()}


def after_some_updates(settings: Settings) -> dict[str, np.ndarray]:
    """A new run that starts from the networks which the settings name, after four updates."""
    assert settings.start_from is not None
    networks = starting_networks(settings.start_from, program(settings)).arrays
    pool = Pool(program(settings), 1, jax.devices()[0])
    pool.admit([Assignment(0, Run(settings, 5), networks=networks)])
    pool.advance()
    saved = pool.saved()
    assert saved is not None
    assert saved.arrays["updates"].item() == 4
    return {name: array[0] for name, array in saved.arrays.items()}


def of_network(arrays: dict[str, np.ndarray], network: str) -> list[np.ndarray]:
    return [array for name, array in sorted(arrays.items()) if name.startswith(network)]


def test_while_only_the_critic_learns_the_actor_stays_that_of_the_best_trained_run(uninterrupted: Uninterrupted):
    source = best_of(uninterrupted.folder)
    arrays = after_some_updates(tiny(start_from=str(uninterrupted.folder), critic_first=1000))
    for now, then in zip(of_network(arrays, "actor."), of_network(source, "actor."), strict=True):
        np.testing.assert_array_equal(now, then)
    assert not all(map(np.array_equal, of_network(arrays, "critic."), of_network(source, "critic.")))


def test_afterwards_the_actor_learns_too(uninterrupted: Uninterrupted):
    source = best_of(uninterrupted.folder)
    arrays = after_some_updates(tiny(start_from=str(uninterrupted.folder), critic_first=2))
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
    callback = Recorder()
    settings = tiny(**SHORT, method="a2c-asym-hs", start_from=str(uninterrupted.folder))
    api.train(settings, seeds=[0], out=tmp_path / "runs", display=callback)
    (said,) = [text for text in callback.said if "begins with the networks of" in text]
    assert re.search(
        r"of seed [01] of /.*, a2c-asym-s with return -?[\d.]+ after 12 \d{3} steps, except critic.hist", said
    )


def test_both_target_networks_of_a_q_learner_begin_as_copies(tmp_path: Path):
    small: dict[str, Any] = {"memory_size": 4, "hidden": (4,), "time_limit": 4, "prefill": 20, "replay_steps": 200}
    settings = DQNSettings(world=WORLD, method="adqn", steps=60, log_points=2, **small)
    api.train(settings, seeds=1, out=tmp_path / "runs", display=Callback())
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
    ("changes", "message"),
    [
        ({"memory": "lstm"}, "memory is gru there, lstm here"),
        ({"window": 3}, "window is None there, 3 here"),
        ({"normalise_observations": True}, "normalise_observations is False there, True here"),
        ({"hidden": (4, 4)}, r"its actor does not fit: actor\.head\."),
    ],
)
def test_another_policy_is_refused(uninterrupted: Uninterrupted, changes: dict[str, Any], message: str):
    with pytest.raises(RunError, match=message):
        starting_networks(str(uninterrupted.folder), program(tiny(**changes)))


def test_values_of_actions_are_no_policy(uninterrupted: Uninterrupted):
    settings = DQNSettings(world=WORLD, method="adqn", memory_size=4, hidden=(4,), time_limit=4)
    with pytest.raises(RunError, match="what the actor computes is a policy there, values of actions here"):
        starting_networks(str(uninterrupted.folder), program(settings))


def test_statistics_of_observations_come_along_and_those_of_rewards_do_not(tmp_path: Path):
    """The sight of car-flag is a vector of numbers."""
    small: dict[str, Any] = {"memory_size": 4, "hidden": (4,), "time_limit": 4, "steps": 40, "log_points": 2}
    scaled = A2CSettings(world="car-flag", method="a2c", normalise_observations=True, **small)
    api.train(scaled, seeds=1, out=tmp_path / "runs", display=Callback())
    with_state = replace(scaled, method="a2c-asym-hs", normalise_rewards=True)
    arrays = starting_networks(str(tmp_path / "runs"), program(with_state)).arrays
    kinds = {name.split(".")[1] for name in arrays if name.startswith("statistics.")}
    assert kinds == {"observations"}
    assert arrays["statistics.observations.count"] >= 40


def test_damaged_networks_are_not_replaced_by_those_of_another_run(uninterrupted: Uninterrupted, tmp_path: Path):
    folder = tmp_path / "runs"
    shutil.copytree(uninterrupted.folder, folder)
    for path in (folder / "checkpoint").glob("*.safetensors"):
        path.write_bytes(b"damaged")
    with pytest.raises(RunError, match=r"start_from .*damaged.*restore that file, or choose other runs") as raised:
        starting_networks(str(folder), program(tiny()))
    assert "remove the folder" not in str(raised.value)


def test_a_sweep_that_is_over_does_not_need_its_source_any_more(uninterrupted: Uninterrupted, tmp_path: Path):
    source = tmp_path / "source"
    shutil.copytree(uninterrupted.folder, source)
    network = {"memory_size": 4, "hidden": (4,), "time_limit": 4}
    how = {"methods": "a2c-asym-s", "seeds": 1, "display": Callback(), **SHORT, **network}
    axes = {"start_from": [str(source), "none"]}
    runs = api.sweep(WORLD, out=tmp_path / "sweep", axes=axes, **how).runs
    assert [run.settings.start_from for run in runs] == [str(source), None]
    shutil.rmtree(source)
    assert len(api.sweep(WORLD, out=tmp_path / "sweep", axes=axes, **how).runs) == 2
    with pytest.raises(RunError, match="no runs here: there is no such folder"):
        api.sweep(WORLD, out=tmp_path / "another", axes=axes, **how)
    assert not (tmp_path / "another").exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "start_from is empty"),
        ("n" * 300, "start_from"),
        ("zoo:nowhere", "there is no such agent; there are car-flag, "),
        ("zoo:heaven-hell-3", "memory_size is 128 there, 4 here"),
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
    with pytest.raises(RunError, match="are not there; choose other runs"):
        starting_networks(str(store.path), program(tiny()))


def test_without_its_source_a_run_cannot_begin_but_go_on(
    uninterrupted: Uninterrupted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source = tmp_path / "source"
    shutil.copytree(uninterrupted.folder, source)
    settings = tiny(**SHORT, start_from=str(source))
    folder = api.train(settings, seeds=[0], out=tmp_path / "runs", display=Callback()).folder
    shutil.rmtree(source)
    api.resume(folder, steps=800, display=Callback())
    assert Store.open(folder).results()[0].timesteps >= 800

    store = Store.create(tmp_path / "more", [Run(tiny(**SHORT), 0), Run(settings, 1)])
    store.release()
    assert cli.main(["resume", str(store.path), "--no-report"]) == 1
    shown = capsys.readouterr()
    assert f"{source}: no runs here: there is no such folder" in shown.out + shown.err
    assert [number for number, result in Store.open(store.path).results().items() if result.is_over] == [0]
