"""Checkpoints that are whole, and what happens to those that are not."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from asymrl.learners.program import program
from asymrl.runs import checkpoint
from asymrl.runs.arrays import SavedRuns, joined
from asymrl.runs.checkpoint import Checkpoints
from asymrl.runs.files import RunError, StorageError, write_whole
from asymrl.runs.runs import Run, to_json
from asymrl.runs.states import from_saved, key_kind, to_arrays
from tests.runs.engine.conftest import random_saved, tiny

Runs = tuple[Run, ...]


@pytest.fixture
def saved(tmp_path: Path, runs: Runs) -> Checkpoints:
    """Two checkpoints of a pool, of different contents."""
    checkpoints = Checkpoints(tmp_path)
    for seed in (1, 2):
        checkpoints.save(random_saved(runs, seed), "core 0")
    return checkpoints


def load(checkpoints: Checkpoints, runs: Runs) -> tuple[dict[Run, SavedRuns], list[str]]:
    """The newest states of the runs, and what was said meanwhile."""
    said: list[str] = []
    states = {
        run: saved.only([row]) for saved in checkpoints.load(runs, said.append) for row, run in enumerate(saved.runs)
    }
    return states, said


def assert_holds(found: dict[Run, SavedRuns], expected: SavedRuns) -> None:
    assert list(found) == list(expected.runs)
    for row, run in enumerate(expected.runs):
        assert found[run].key_kind == expected.key_kind
        assert found[run].seconds == (expected.seconds[row],)
        assert found[run].arrays.keys() == expected.arrays.keys()
        for name, array in expected.arrays.items():
            np.testing.assert_array_equal(found[run].arrays[name][0], array[row], err_msg=name)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_what_is_saved_is_loaded(saved: Checkpoints, runs: Runs):
    states, said = load(saved, runs)
    assert_holds(states, random_saved(runs, 2))
    assert said == []
    assert len(random_saved(runs).arrays) > 30


def test_before_the_first_checkpoint_there_is_nothing(tmp_path: Path, runs: Runs):
    assert load(Checkpoints(tmp_path), runs) == ({}, [])


def test_the_newest_and_the_one_before_are_kept(saved: Checkpoints, runs: Runs):
    for seed in (3, 4):
        saved.save(random_saved(runs, seed), "core 0")
        saved.remove_superseded()
    assert list(contents(saved.folder)) == ["000003.json", "000003.safetensors", "000004.json", "000004.safetensors"]
    # Whoever opens the folder anew sees the same.
    Checkpoints(saved.folder).remove_superseded()
    assert len(contents(saved.folder)) == 4


def test_each_run_comes_from_the_newest_checkpoint_that_holds_it(saved: Checkpoints, runs: Runs):
    """Runs leave their pools, so that a checkpoint holds some of them only."""
    other = Run(tiny(), 7)
    saved.save(random_saved(runs[1:], 3), "over")
    saved.save(random_saved((runs[0], other), 4), "core 0")
    states, _ = load(saved, (*runs, other))
    assert [states[run].seconds for run in (*runs, other)] == [(4.0,), (3.0,), (4.0,)]
    assert list(load(saved, runs[:1])[0]) == [runs[0]]


def test_a_checkpoint_stays_while_it_has_the_only_state_of_a_run(saved: Checkpoints, runs: Runs):
    for seed in (3, 4, 5):
        saved.save(random_saved(runs[:1], seed), "core 0")
        saved.remove_superseded()
    # 2 is the last with the second run, and 3 is superseded by 4, before the newest.
    assert [number for number, _ in checkpoint.manifests(saved.folder)] == [5, 4, 2]
    saved.save(random_saved(runs[:1], 6), "core 0")
    saved.remove_superseded(finished=[runs[1].key])
    assert [number for number, _ in checkpoint.manifests(saved.folder)] == [6, 5]
    saved.clear()
    assert contents(saved.folder) == {}


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
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(saved: Checkpoints, runs: Runs, kind: str, damage):
    damage(saved.folder / f"000002.{kind}")
    before = contents(saved.folder)
    states, (message,) = load(saved, runs)
    assert_holds(states, random_saved(runs, 1))
    assert f"000002.{kind}: damaged" in message
    assert "going back to the checkpoint before it" in message
    assert contents(saved.folder) == before


@pytest.mark.parametrize(("kind", "damage"), DAMAGES)
def test_if_none_is_sound_nothing_is_loaded(saved: Checkpoints, runs: Runs, kind: str, damage):
    for number in (1, 2):
        damage(saved.folder / f"00000{number}.{kind}")
    with pytest.raises(RunError, match=rf"000002.{kind}: damaged.*nothing was changed"):
        load(saved, runs)


def rewrite(path: Path, **changes: object) -> None:
    """Changes a manifest and its digest, as another version of the package might have written it."""
    manifest = {**json.loads(path.read_text()), **changes}
    manifest["digest"] = checkpoint.digest_of(manifest)
    path.write_text(json.dumps(manifest))


def test_another_version_is_refused(saved: Checkpoints, runs: Runs):
    rewrite(saved.folder / "000002.json", format=4)
    with pytest.raises(RunError, match=r"000002.json: a checkpoint of format 4, .* reads format 3"):
        load(saved, runs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"entropy_weight": 0.5}, r"made with entropy_weight = 0.1, but settings.json says 0.5 for seed 3"),
        ({"memory_size": 8}, r"made with memory_size = 4, but settings.json says 8"),
        ({"steps": 11_000}, r"made with 12000 steps and 30 log_points, but settings.json says 11000 and 30"),
    ],
)
def test_other_settings_are_refused(saved: Checkpoints, changes: dict[str, object], message: str):
    wanted = tuple(Run(tiny(**changes), seed) for seed in (3, 5))
    check = load if "steps" in changes else Checkpoints.check_settings
    with pytest.raises(RunError, match=message):
        check(saved, wanted)


def test_other_seeds_are_refused(saved: Checkpoints, runs: Runs):
    with pytest.raises(RunError, match=r"a checkpoint of seeds \[3, 5\], not of \[4, 6\]"):
        saved.check_settings([Run(tiny(), seed) for seed in (4, 6)])
    saved.check_settings([*runs, Run(tiny(), 4)])  # a run that was added has no state yet


def test_arrays_of_other_networks_are_refused(saved: Checkpoints, runs: Runs):
    larger = random_saved(tuple(Run(tiny(memory_size=8), seed) for seed in (3, 5)))
    path = saved.save(larger, "core 0")
    rewrite(path, **to_json(runs))
    states, _ = load(saved, runs)
    with pytest.raises(ValueError, match=r"array \S+ is float32.*, expected float32"):
        from_saved(program(tiny()), states[runs[0]])


def test_states_are_what_they_were(runs: Runs):
    expected = random_saved(runs, 1)
    states = from_saved(program(tiny()), expected)
    assert key_kind(states) == expected.key_kind
    found = to_arrays(states)
    assert found.keys() == expected.arrays.keys()
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_another_random_number_generator_is_refused(runs: Runs):
    with pytest.raises(ValueError, match="JAX_DEFAULT_PRNG_IMPL=rbg"):
        from_saved(program(tiny()), random_saved(runs)._replace(key_kind="rbg"))


def test_missing_and_superfluous_arrays_are_named(runs: Runs):
    saved, made = random_saved(runs), program(tiny())
    fewer = {name: array for name, array in saved.arrays.items() if name != "updates"}
    with pytest.raises(ValueError, match="array updates is missing"):
        from_saved(made, saved._replace(arrays=fewer))
    with pytest.raises(ValueError, match="array more is not one of these networks"):
        from_saved(made, saved._replace(arrays={**saved.arrays, "more": np.zeros(2)}))
    # What a probe has measured belongs to the run but not to its state.
    from_saved(made, saved._replace(arrays={**saved.arrays, "extra.more": np.zeros(2)}))


def test_a_longer_run_has_room_for_more_points(saved: Checkpoints, runs: Runs):
    longer = tuple(run.extended(16_000) for run in runs)
    assert longer[0].settings == tiny(steps=16_000, log_points=40)
    states, _ = load(saved, longer)
    assert list(states) == list(longer)
    curve = to_arrays(from_saved(program(longer[0].settings), joined(list(states.values()))))["curve"]
    np.testing.assert_array_equal(curve[:, :31], random_saved(runs, 2).arrays["curve"])
    assert curve.shape[1] == 41
    assert np.isnan(curve[:, 31:]).all()


def test_saved_runs_are_taken_apart_and_joined(runs: Runs):
    whole = random_saved(runs, 1)
    whole.arrays["extra.probe_timesteps"] = np.asarray([[0, 5], [0, -1]], np.int32)
    again = joined([whole.only([1]), whole.only([0])]).only([1, 0])
    assert (again.runs, again.seconds) == (whole.runs, whole.seconds)
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array, err_msg=name)
    # Series of different lengths are filled up: with -1 for times, NaN for numbers.
    short = whole.only([0])
    short.arrays["extra.probe_timesteps"] = short.arrays["extra.probe_timesteps"][:, :1]
    filled = joined([short, whole.only([1])]).extras()["probe_timesteps"]
    assert filled.tolist() == [[0, -1], [0, -1]]


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
def test_without_room_the_checkpoints_before_stay(saved: Checkpoints, runs: Runs, limit: int):
    before = contents(saved.folder)
    with no_file_larger_than(limit), pytest.raises(StorageError, match=r"000003.safetensors: .*: File too large"):
        saved.save(random_saved(runs, 3), "core 0")
    assert {name: data for name, data in contents(saved.folder).items() if name in before} == before
    assert not list(saved.folder.glob("*.unfinished"))
    assert_holds(load(saved, runs)[0], random_saved(runs, 2))
    saved.save(random_saved(runs, 3), "core 0")
    assert_holds(load(saved, runs)[0], random_saved(runs, 3))


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "file"
    write_whole(path, b"old")
    with no_file_larger_than(10), pytest.raises(StorageError, match="file: cannot be written: File too large"):
        write_whole(path, b"new" * 100)
    assert path.read_bytes() == b"old"
    write_whole(path, b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"new"
