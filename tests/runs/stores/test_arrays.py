"""Names of arrays on disk do not change with the names of fields."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from asymrl.learners.program import program
from asymrl.runs import arrays
from asymrl.runs.arrays import SavedRuns, from_disk, quantised, restored, to_disk
from asymrl.runs.checkpoint import Checkpoints
from asymrl.runs.description import AGENTS
from asymrl.runs.runs import Run
from asymrl.runs.states import array_shapes, from_saved, to_arrays
from asymrl.runs.store import Store
from asymrl.settings import Settings, new_settings
from tests.runs.engine.conftest import random_saved, tiny
from tests.runs.stores.old_stores import unpacked

TINY = {"memory_size": 4, "hidden": (4,), "steps": 400}
SETTINGS = [
    new_settings(world="tiger", method="a2c-asym-hs", **TINY),
    new_settings(world="tiger", method="a2c", memory="lstm", **TINY),
    new_settings(world="cart-pole", method="ppo-asym-s", normalise_observations=True, normalise_rewards=True, **TINY),
    new_settings(world="tiger", method="adqn", replay_steps=300, prefill=100, **TINY),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: f"{settings.method}-{settings.memory}")
def test_no_two_arrays_of_a_state_have_one_name_on_disk(settings: Settings):
    shapes = array_shapes(program(settings))
    on_disk = to_disk(shapes)
    assert len(on_disk) == len(shapes) > 30
    assert from_disk(on_disk) == shapes


def test_a_folder_of_runs_of_earlier_code_has_the_names_of_today(tmp_path: Path):
    store = Store.open(unpacked("a2c", tmp_path))
    ((_, saved),) = store.saved([0])
    assert set(saved.states()) == set(array_shapes(program(store.runs[0].settings)))
    states = from_saved(program(store.runs[0].settings), saved)
    assert np.asarray(states.timesteps).tolist() == saved.arrays["timesteps"].tolist()
    for name, array in to_arrays(states).items():
        np.testing.assert_array_equal(array, saved.arrays[name], err_msg=name)


def test_a_shipped_agent_has_the_names_of_today():
    """Its networks are rounded: a colon and the kind of rounding follow their names."""
    store = Store.open(AGENTS / "heaven-hell-3")
    ((_, saved),) = store.saved([0])
    shapes = array_shapes(program(store.runs[0].settings))
    networks = {name for name in shapes if name.startswith(("actor.", "critic."))}
    assert {name.partition(":")[0] for name in saved.arrays if name.startswith(("actor.", "critic."))} == networks


def test_renamed_and_retired_fields_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    names = ["updates", "timesteps", "logged", "actor_adam.mu.history.memory.bias", "critic.head.bias", "key", "past"]
    runs = (Run(tiny(), 3), Run(tiny(), 5))
    before = {name: np.full(2, i) for i, name in enumerate(names)} | {"curve": np.zeros((2, 1, 1))}
    monkeypatch.setattr(arrays, "RENAMED", ())
    monkeypatch.setattr(arrays, "RETIRED", ())
    Checkpoints(tmp_path).save(SavedRuns(runs, before, "threefry2x32", (0.0, 0.0)), "pool")
    (file,) = tmp_path.glob("*.safetensors")
    on_disk = file.read_bytes()

    # In code, the optimiser of the actor has another name, the memory another place, and two fields are gone.
    renamed = (("optimiser_state.actor", "actor_adam"), ("unit", "history.memory"), (".random", "key"))
    monkeypatch.setattr(arrays, "RENAMED", renamed)
    monkeypatch.setattr(arrays, "RETIRED", ("past", "critic.head"))
    (loaded,) = Checkpoints(tmp_path).load(runs, print)
    today = {"updates", "timesteps", "logged", "curve", "optimiser_state.actor.mu.unit.bias", "random"}
    assert set(loaded.arrays) == today
    assert loaded.arrays["random"].tolist() == [5, 5]

    # What is written then is on disk as it was.
    monkeypatch.setattr(arrays, "RETIRED", ())
    (loaded,) = Checkpoints(tmp_path).load(runs, print)
    Checkpoints(tmp_path).save(loaded, "pool")
    assert (tmp_path / "000002.safetensors").read_bytes() == on_disk


def test_a_new_field_begins_with_its_number(monkeypatch: pytest.MonkeyPatch):
    runs = (Run(tiny(), 3), Run(tiny(), 5))
    saved = random_saved(runs)
    before = saved._replace(arrays={name: a for name, a in saved.arrays.items() if name != "next_target"})
    with pytest.raises(ValueError, match="next_target is missing"):
        from_saved(program(runs[0].settings), before)
    monkeypatch.setitem(arrays.ADDED, "next_target", 7)
    states = from_saved(program(runs[0].settings), before)
    assert np.asarray(states.next_target).tolist() == [7, 7]


def test_networks_in_eight_bits_come_back_within_half_a_step():
    """Each column has a scale of its own; a column of zeros stays zero, and what is no network stays as it is."""
    rng = np.random.default_rng(0)
    large = rng.normal(size=(1, 80, 64)).astype(np.float32) * np.geomspace(1e-3, 100, 64, dtype=np.float32)
    large[..., 3] = 0
    state = {"curve": rng.normal(size=(1, 401, 13)).astype(np.float32), "key": np.zeros((1, 2), np.uint32)}
    networks = {"actor.weight": large, "critic.bias": rng.normal(size=(1, 64)).astype(np.float32)}
    on_disk = quantised(state | networks)
    assert {name: str(array.dtype) for name, array in on_disk.items()} == {
        "curve": "float32", "key": "uint32", "actor.weight": "int8", "actor.weight:scale": "float16",
        "critic.bias": "float16",
    }  # fmt: skip
    back = restored(on_disk)
    assert {name: array.dtype for name, array in back.items()} == {n: a.dtype for n, a in (state | networks).items()}
    assert all(np.array_equal(back[name], array) for name, array in state.items())
    step = on_disk["actor.weight:scale"].astype(np.float32)[:, None]
    assert (np.abs(back["actor.weight"] - large) <= 0.57 * step).all()
    assert not back["actor.weight"][..., 3].any()
    np.testing.assert_allclose(back["critic.bias"], networks["critic.bias"], rtol=1e-3)
    with pytest.raises(ValueError, match=r"actor\.weight does not fit"):
        restored({**on_disk, "actor.weight:scale": np.zeros((1, 63), np.float16)})
