"""The unused end of a replay is not on disk, and is there again when a checkpoint is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from asymrl.runs.arrays import SavedRuns
from asymrl.runs.checkpoint import Checkpoints, with_tail, without_tail
from asymrl.runs.runs import Run
from tests.runs.engine.conftest import random_saved, tiny

NAME, ROOM = "replay.actions", 100_000


def test_rows_behind_the_last_that_is_used_by_a_run_are_left_out():
    array = np.zeros((2, 9, 3), np.int8)
    array[0, 1], array[1, 4, 2] = 1, 1
    assert without_tail(NAME, array).shape == (2, 5, 3)
    assert without_tail(NAME, array * 0).shape == (2, 0, 3)
    assert without_tail("critic.weight", array) is array
    assert without_tail("replay.first", np.zeros(2)).shape == (2,)
    for whole in (array, array * 0):
        again = with_tail(NAME, without_tail(NAME, whole), list(whole.shape))
        np.testing.assert_array_equal(again, whole)
        assert again.dtype == whole.dtype


@pytest.mark.parametrize("shape", [[1, 9, 3], [2, 9], [2, 9, 4], [2, 4, 3], []])
def test_a_shape_that_it_cannot_have_had_is_refused(shape: list[int]):
    with pytest.raises(ValueError, match=r"array"):
        with_tail(NAME, np.ones((2, 5, 3), np.int8), shape)


def test_a_checkpoint_has_what_was_used(tmp_path: Path):
    runs = (Run(tiny(), 0), Run(tiny(), 1))
    replay = np.zeros((2, ROOM), np.int32)
    replay[:, :7] = np.arange(1, 8)
    saved = random_saved(runs, 1)
    saved = saved._replace(arrays={**saved.arrays, NAME: replay})
    checkpoints = Checkpoints(tmp_path)
    manifest = checkpoints.save(saved, "core 0")
    assert manifest.with_suffix(".safetensors").stat().st_size < ROOM
    (again,) = checkpoints.load(runs, pytest.fail)
    assert isinstance(again, SavedRuns)
    np.testing.assert_array_equal(again.arrays[NAME], replay)
