"""One run out of a folder, and acting with it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import asymrl
from asymrl.envs import Environment
from asymrl.runs.files import RunError
from asymrl.runs.policy import ActorPolicy
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.runs.trained import best_run, choose_runs, load_trained
from asymrl.settings import A2CSettings
from tests.runs.engine.stores import made_result, small, store_with_networks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_with_networks(tmp_path_factory.mktemp("runs") / "run", small(), [0.2, 0.9, -0.5], first_seed=4)


def test_the_best_run_is_selected_unless_a_seed_is_asked_for(folder: Path):
    (loaded,) = load_trained(folder)
    assert loaded.seeds == (4, 5, 6)
    best, asked = best_run(folder), best_run(folder, 6)
    assert (best.seed, best.recent_return) == (5, pytest.approx(0.9))
    assert (asked.seed, asked.recent_return) == (6, pytest.approx(-0.5))
    np.testing.assert_array_equal(asked.state.actor.head.layers[0].weight, loaded.states.actor.head.layers[0].weight[2])
    with pytest.raises(ValueError, match="no run with the seed 3; the seeds are 4, 5, 6"):
        best_run(folder, 3)


def test_runs_are_chosen_by_their_settings_as_text_or_as_values():
    runs = [Run(small(actor_rate=rate, hidden=hidden), 0) for rate in (0.001, 0.01) for hidden in ((8,), None)]
    assert choose_runs(runs, {"actor_rate": "0.010"}) == [2, 3]
    assert choose_runs(runs, {"actor_rate": 0.001, "hidden": None}) == [1]
    assert choose_runs(runs, {"actor_rate": "1e-3", "hidden": "(8,)"}) == [0]
    assert choose_runs([Run(small(hidden=(8, 4)), 0)], {"hidden": "8:4"}) == [0]
    for where, message in (
        ({"actor_rate": "fast"}, "no run has actor_rate=fast; actor_rate is 0.001 or 0.01"),
        ({"rate": 0.1}, "unknown setting 'rate'"),
    ):
        with pytest.raises(RunError, match=message):
            choose_runs(runs, where)


@pytest.mark.parametrize("how", ["damaged", "removed"])
def test_runs_whose_networks_are_lost_are_named(folder: Path, how: str, tmp_path: Path, capsys: pytest.CaptureFixture):
    """They are left out of what is evaluated or shown, which would otherwise look whole."""
    store = Store.open(shutil.copytree(folder, tmp_path / "copy"))
    returns = zip(store.runs, (0.2, 0.9, -0.5), strict=True)
    store.write_tables({n: made_result(run)._replace(recent_return=mean) for n, (run, mean) in enumerate(returns)})
    (whole,) = load_trained(store)
    assert whole.seeds == (4, 5, 6)
    assert capsys.readouterr() == ("", "")
    (written,) = store.checkpoints.folder.glob("*.safetensors")
    saved = next(iter(store.saved([0, 1, 2])))[1]
    written.unlink()
    written.with_suffix(".json").unlink()
    for rows in ([0, 2], [1]):
        lost = store.checkpoints.save(saved.only(rows), "over").with_suffix(".safetensors")
    if how == "damaged":
        lost.write_bytes(lost.read_bytes()[:100])
    else:
        lost.unlink()
        lost.with_suffix(".json").unlink()
    (rest,) = load_trained(Store.open(store.path))
    assert rest.seeds == (4, 6)
    out, err = capsys.readouterr()
    assert out == ""  # which may be JSON
    lost = f"seed 5 has no intact network in {store.checkpoints.folder}"
    assert err.splitlines()[-1] == f"{lost}; left out"
    assert ("damaged" in err) == (how == "damaged")
    assert best_run(store.path).seed == 4  # the best one that is there
    if how == "removed":
        with pytest.raises(RunError, match=f"{lost}; bring its files back from a copy"):
            load_trained(store, [1])


def test_a_folder_without_a_checkpoint_says_how_to_go_on(folder: Path, tmp_path: Path):
    (tmp_path / "settings.json").write_text((folder / "settings.json").read_text())
    with pytest.raises(RunError, match="no checkpoint yet; begin with `asymrl resume"):
        load_trained(tmp_path)


def test_a_policy_acts_as_its_actor_does(folder: Path):
    policy = asymrl.Policy(folder, run_seed=4, generator=np.random.default_rng(0))
    assert repr(policy) == f"<Policy: {small().method}, seed 4, in {small().world}; sampled actions>"
    chosen = best_run(folder, 4)
    twin = ActorPolicy(chosen.world, chosen.state.actor, np.random.default_rng(0))
    assert policy.run_seed == 4
    assert policy.settings == small()
    assert policy.action_names == ("good", "bad")
    game = Environment(policy.env)
    for seed in range(3):
        policy.reset()
        twin.reset()
        observation, _ = game.reset(seed=seed)
        over = False
        while not over:
            action = policy.act(observation)
            assert action == twin.act(observation)
            observation, _, terminated, truncated, _ = game.step(action)
            over = terminated or truncated


def test_runs_of_several_worlds_need_a_choice_unless_no_network_was_kept(tmp_path: Path):
    runs = [Run(A2CSettings(world), 0) for world in ("tiger", "heaven-hell-3")]
    for keeps, message in (
        (True, 'choose a world with --where, such as --where world=heaven-hell-3, in Python where={"world": "heaven-'),
        (False, "the networks of its runs were not kept"),
    ):
        Store.create(tmp_path / str(keeps), runs, keeps_networks=keeps).release()
        with pytest.raises(RunError, match=re.escape(message)):
            best_run(tmp_path / str(keeps))
