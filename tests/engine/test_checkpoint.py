"""Checkpoints that are whole, and what happens to those that are not."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from asymrl.runs import checkpoint
from asymrl.runs.arrays import from_arrays, to_arrays
from asymrl.runs.batch import Batch
from asymrl.runs.files import RunError, StorageError, write_whole

from tests.engine.conftest import random_arrays, tiny

KIND = "threefry2x32"  # JAX's usual random number generator


@pytest.fixture
def saved(tmp_path: Path, batch: Batch) -> Path:
    """A folder with two checkpoints, of different contents."""
    for seed in (1, 2):
        checkpoint.save(tmp_path, batch, from_arrays(batch, random_arrays(batch, seed), KIND))
    return tmp_path


def load(folder: Path, batch: Batch) -> tuple[dict[str, np.ndarray] | None, list[str]]:
    said: list[str] = []
    runs = checkpoint.load(folder, batch, said.append)
    return None if runs is None else to_arrays(runs, len(batch)), said


def assert_holds(found: dict[str, np.ndarray] | None, expected: dict[str, np.ndarray]) -> None:
    assert found is not None
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_what_is_saved_is_loaded(saved: Path, batch: Batch):
    found, said = load(saved, batch)
    assert_holds(found, random_arrays(batch, 2))
    assert said == []
    assert len(random_arrays(batch)) > 30


def test_before_the_first_checkpoint_there_is_nothing(tmp_path: Path, batch: Batch):
    assert load(tmp_path, batch) == (None, [])


def test_the_newest_and_the_one_before_are_kept(saved: Path, batch: Batch):
    for seed in (3, 4):
        checkpoint.save(saved, batch, from_arrays(batch, random_arrays(batch, seed), KIND))
    names = sorted(path.name for path in saved.iterdir())
    assert names == ["000003.json", "000003.safetensors", "000004.json", "000004.safetensors"]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


DAMAGES = [(kind, how) for kind in ("json", "safetensors") for how in (truncate, flip_a_bit, empty)]
DAMAGES.append(("safetensors", remove))


@pytest.mark.parametrize(("kind", "damage"), DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(saved: Path, batch: Batch, kind: str, damage):
    damage(saved / f"000002.{kind}")
    before = {path: path.read_bytes() for path in saved.iterdir()}
    found, (message,) = load(saved, batch)
    assert_holds(found, random_arrays(batch, 1))
    assert f"000002.{kind}: damaged" in message
    assert "going back to the checkpoint before it, 000001.json" in message
    assert {path: path.read_bytes() for path in saved.iterdir()} == before


@pytest.mark.parametrize(("kind", "damage"), DAMAGES)
def test_if_none_is_sound_nothing_is_loaded(saved: Path, batch: Batch, kind: str, damage):
    for number in (1, 2):
        damage(saved / f"00000{number}.{kind}")
    with pytest.raises(RunError, match=f"000001.{kind}: damaged.*nothing was changed"):
        load(saved, batch)


def rewrite(path: Path, **changes: object) -> None:
    """Changes a manifest and its digest, as another version of the package might have written it."""
    manifest = {**json.loads(path.read_text()), **changes}
    manifest["digest"] = checkpoint._digest(manifest)
    path.write_text(json.dumps(manifest))


def test_another_version_is_refused(saved: Path, batch: Batch):
    rewrite(saved / "000002.json", format=2)
    with pytest.raises(RunError, match=r"000002.json: a checkpoint of format 2, .* reads format 1"):
        load(saved, batch)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"entropy_weight": 0.5}, r"made with entropy_weight = 0.1, but settings.json says 0.5 for seed 3"),
        ({"memory_size": 8}, r"made with memory_size = 4, but settings.json says 8"),
        ({"steps": 11_000}, r"made with 12000 steps and 30 log_points, but settings.json says 11000 and 30"),
    ],
)
def test_other_settings_are_refused(saved: Path, changes: dict[str, object], message: str):
    with pytest.raises(RunError, match=message):
        load(saved, Batch.product([tiny(**changes)], [3, 5]))


def test_other_seeds_are_refused(saved: Path):
    with pytest.raises(RunError, match=r"a checkpoint of seeds \[3, 5\], not of \[3, 4\]"):
        load(saved, Batch.product([tiny()], [3, 4]))


def test_arrays_of_other_networks_are_refused(saved: Path, batch: Batch):
    larger = Batch.product([tiny(memory_size=8)], [3, 5])
    (saved / "000002.json").unlink()
    checkpoint.save(saved, larger, from_arrays(larger, random_arrays(larger), KIND))
    rewrite(saved / "000002.json", **batch.to_json())
    with pytest.raises(RunError, match=r"does not fit these settings: array \S+ is float32.*, expected float32"):
        load(saved, batch)


def test_another_random_number_generator_is_refused(batch: Batch):
    with pytest.raises(ValueError, match="JAX_DEFAULT_PRNG_IMPL=rbg"):
        from_arrays(batch, random_arrays(batch), "rbg")


def test_missing_and_superfluous_arrays_are_named(batch: Batch):
    arrays = random_arrays(batch)
    with pytest.raises(ValueError, match="array updates is missing"):
        from_arrays(batch, {name: array for name, array in arrays.items() if name != "updates"}, KIND)
    with pytest.raises(ValueError, match="array extra is not one of these networks"):
        from_arrays(batch, {**arrays, "extra": np.zeros(2)}, KIND)


def test_a_longer_run_has_room_for_more_points(saved: Path, batch: Batch):
    longer = batch.extended(16_000)
    assert longer.first == replace(tiny(), steps=16_000, log_points=40)
    found, _ = load(saved, longer)
    assert found is not None
    saved_arrays = random_arrays(batch, 2)
    np.testing.assert_array_equal(found["curve"][:, :31], saved_arrays["curve"])
    assert found["curve"].shape[1] == 41
    assert np.isnan(found["curve"][:, 31:]).all()


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """A limit of the operating system; writing beyond it fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("limit", [100, 5_000])
def test_without_room_the_checkpoints_before_stay(saved: Path, batch: Batch, limit: int):
    before = {path: path.read_bytes() for path in saved.iterdir()}
    runs = from_arrays(batch, random_arrays(batch, 3), KIND)
    with no_file_larger_than(limit), pytest.raises(StorageError, match=r"000003.safetensors: .*: File too large"):
        checkpoint.save(saved, batch, runs)
    after = {path: path.read_bytes() for path in saved.iterdir()}
    assert {path: after[path] for path in before} == before
    assert not list(saved.glob("*.unfinished"))
    found, _ = load(saved, batch)
    assert_holds(found, random_arrays(batch, 2))
    checkpoint.save(saved, batch, from_arrays(batch, random_arrays(batch, 3), KIND))
    assert_holds(load(saved, batch)[0], random_arrays(batch, 3))


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "file"
    write_whole(path, b"old")
    with no_file_larger_than(10), pytest.raises(StorageError, match="file: can not be written: File too large"):
        write_whole(path, b"new" * 100)
    assert path.read_bytes() == b"old"
    write_whole(path, b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"new"
