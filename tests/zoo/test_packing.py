"""Entries of the zoo made from stores with kept networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from scripts.make_zoo import best_by_world, pack, train_command

import asymrl
from asymrl.api.wanted import settings_for
from asymrl.learners.program import program
from asymrl.learners.state import METRICS
from asymrl.runs.arrays import SavedRuns
from asymrl.runs.files import RunError
from asymrl.runs.runs import Run
from asymrl.runs.states import from_saved, key_kind, to_arrays, without_training_state
from asymrl.runs.store import Store
from asymrl.runs.trained import load_trained
from asymrl.zoo import ShippedAgent, folder_size
from tests.runs.engine.stores import made_result, random_states, small, store_with_curves

SETTINGS = small("tiger:episodic=true", method="a2c-asym-hs", steps=1000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three finished runs, whose returns rise with their seeds, and one that is not over."""
    path = tmp_path_factory.mktemp("packing") / "tiger"
    runs = [Run(SETTINGS, seed) for seed in range(4)]
    states = random_states(SETTINGS, range(4))
    store = Store.create(path, runs)
    try:
        store.write_tables(
            {n: made_result(run)._replace(status="training" if n == 3 else "complete") for n, run in enumerate(runs)}
        )
        store.save(SavedRuns(tuple(runs), to_arrays(states), key_kind(states), (1.0,) * 4), "pool")
    finally:
        store.release()
    return path


def test_the_best_finished_run_becomes_an_entry_with_the_same_networks_rounded(folder: Path, tmp_path: Path):
    cards = pack([folder], tmp_path, episodes=20)
    (name,) = cards
    agent = ShippedAgent(name, tmp_path / name)
    assert [run.seed for run in agent.runs] == [2]
    assert agent.card == cards[name]
    (kept,), (packed,) = load_trained(folder, [2]), load_trained(agent.folder)
    for part in ("actor", "critic"):
        one, other = (eqx.filter(getattr(each.states, part), eqx.is_array) for each in (kept, packed))
        for whole, rounded in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(rounded, whole, atol=0.04 * float(np.abs(whole).max()))
    again = agent.evaluate(20, seed=agent.card.seed)
    assert again["return"].to_list() == [pytest.approx(agent.card.returns)]
    assert folder_size(agent.folder) < folder_size(folder) / 3
    assert not (agent.folder / ".lock").exists()
    assert pack([folder], tmp_path, episodes=20) == cards  # again: the entry is replaced


def test_of_equal_returns_the_shorter_episodes_win(tmp_path: Path):
    store = store_with_curves(tmp_path / "s", [Run(SETTINGS, 0), Run(SETTINGS, 1)])
    taken = Store.take(store)
    results = taken.results()
    taken.write_tables({n: r._replace(recent_return=1.0, recent_length=9.0 - n) for n, r in results.items()})
    taken.release()
    assert best_by_world([store], "a2c-asym-hs")[SETTINGS.world].number == 1
    with pytest.raises(RunError, match="no finished run of a2c-asym-s"):
        best_by_world([store], "a2c-asym-s")


def test_the_last_tenth_of_training_decides_and_not_the_last_100_episodes(tmp_path: Path):
    store = store_with_curves(tmp_path / "s", [Run(SETTINGS, 0), Run(SETTINGS, 1)])
    taken = Store.take(store)
    results = taken.results()
    assert results[0].curve is not None
    better = results[0].curve.copy()
    better[:, METRICS.index("return")] += 1.0
    taken.write_tables({0: results[0]._replace(curve=better), 1: results[1]._replace(recent_return=100.0)})
    taken.release()
    assert best_by_world([store], "a2c-asym-hs")[SETTINGS.world].number == 0


def test_a_run_without_its_training_state_can_be_looked_at_but_not_trained():
    runs = (Run(SETTINGS, 0),)
    states = random_states(SETTINGS, [0])
    whole = SavedRuns(runs, to_arrays(states), key_kind(states), (0.0,))
    stripped, made = without_training_state(whole), program(SETTINGS.shape())
    assert set(stripped.arrays) < set(whole.arrays)
    read = from_saved(made, stripped, to_train=False)
    assert np.array_equal(read.recent_returns, states.recent_returns)
    assert isinstance(jax.tree.leaves(read.target)[0], jax.ShapeDtypeStruct)
    with pytest.raises(ValueError, match="only its networks were kept"):
        from_saved(made, stripped)
    some_missing = {name: array for name, array in whole.arrays.items() if not name.startswith("actor_adam")}
    with pytest.raises(ValueError, match=r"array actor_adam\.count is missing; .* another version of asymrl"):
        from_saved(made, whole._replace(arrays=some_missing))
    # An earlier version may have kept other things for training; to look at the run, its networks are enough.
    other = {**some_missing, "memory.rows": np.zeros((1, 3)), "next_target": np.zeros((1, 2))}
    read = from_saved(made, whole._replace(arrays=other), to_train=False)
    assert np.array_equal(read.recent_returns, states.recent_returns)
    assert isinstance(read.next_target, jax.ShapeDtypeStruct)


def test_the_command_names_what_differs_from_the_usual_settings():
    usual = settings_for("heaven-hell-3", "a2c-asym-hs")
    assert train_command(Run(usual, 3)) == "asymrl train heaven-hell-3 --method a2c-asym-hs --seed-list 3"
    changed = replace(usual, adam_beta2=0.99, hidden=(8, 4), bootstrap_truncated=True)
    assert train_command(Run(changed, 0)) == (
        "asymrl train heaven-hell-3 --method a2c-asym-hs --bootstrap-truncated --adam-beta2 0.99 --hidden 8 4 "
        "--seed-list 0"
    )


def test_the_zoo_is_a_public_part_of_the_package():
    assert asymrl.zoo.names() == sorted(asymrl.zoo.names())
