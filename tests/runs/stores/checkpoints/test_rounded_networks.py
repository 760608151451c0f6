"""Networks in few bits."""

from __future__ import annotations

import numpy as np
import pytest

from asymrl.runs import rounded_networks
from asymrl.runs.rounded_networks import BITS, decode, encode, restored
from asymrl.runs.saved_runs import SavedRuns


@pytest.mark.parametrize("bits", [2, 4, 5, 6, 8])
def test_a_weight_moves_by_at_most_half_a_step_unless_clipping_pays(bits):
    # Uniform weights, for which nothing is gained by clipping; the number of columns does not fill the last byte.
    array = np.random.default_rng(0).uniform(-1, 1, (1, 500, 7)).astype(np.float32)
    codes, scale = encode(array, bits)
    assert codes.shape == (1, 500, -(-7 * bits // 8))
    back = decode(codes, scale, bits)
    assert back.shape == array.shape
    step = scale.astype(np.float32)[:, None]
    reach = step * (2 ** (bits - 1) - 1)
    inside = np.abs(array) <= reach
    assert (np.abs(back - array)[inside] <= (0.5001 * step * np.ones_like(array))[inside]).all()
    np.testing.assert_allclose(np.abs(back)[~inside], (reach * np.ones_like(array))[~inside], rtol=1e-6)


def test_columns_have_their_own_scales():
    array = np.random.default_rng(0).normal(size=(1, 400, 3)).astype(np.float32) * np.array([1e-3, 1, 100], np.float32)
    back = decode(*encode(array, 6), 6)
    error = np.square(back - array).mean(1) / np.square(array).mean(1)
    assert (error < 0.05**2).all()


def test_columns_of_zeros_stay_zero():
    assert not decode(*encode(np.zeros((1, 50, 4), np.float32), 4), 4).any()


def test_only_networks_are_rounded_and_large_arrays_only_to_few_bits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rounded_networks, "LARGE", 128 * 64)
    rng = np.random.default_rng(0)
    arrays = {
        "actor.weight": rng.normal(size=(1, 80, 64)).astype(np.float32),
        "critic.weight": rng.normal(size=(1, 128, 64)).astype(np.float32),
        "critic.bias": rng.normal(size=(1, 64)).astype(np.float32),
        "curve": rng.normal(size=(1, 401, 13)).astype(np.float32),
    }
    rounded = rounded_networks.rounded_networks(SavedRuns((), arrays, "", ())).arrays
    parts = {f"actor.weight:codes{BITS}", "actor.weight:scale", "critic.weight:codes4", "critic.weight:scale"}
    assert set(rounded) == parts | {"critic.bias", "curve"}
    back = restored(rounded)
    assert {name: (array.shape, array.dtype) for name, array in back.items()} == {
        name: (array.shape, array.dtype) for name, array in arrays.items()
    }
    np.testing.assert_array_equal(back["curve"], arrays["curve"])
    np.testing.assert_allclose(back["critic.bias"], arrays["critic.bias"], rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "codes", "scale"),
    [
        ("actor.w:codes9", (1, 4, 3), (1, 4)),
        ("actor.w:codes", (1, 4, 3), (1, 4)),
        ("actor.w:codes6", (1, 4, 3), None),
        ("actor.w:codes6", (1, 4, 4), (1, 4)),
    ],
)
def test_parts_that_do_not_fit_are_named(name, codes, scale):
    arrays: dict[str, np.ndarray] = {name: np.zeros(codes, np.uint8)}
    if scale is not None:
        arrays["actor.w:scale"] = np.zeros(scale, np.float16)
    with pytest.raises(ValueError, match=r"actor\.w"):
        restored(arrays)
