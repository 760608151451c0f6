"""Features of pictures: the convolutions against SciPy, and a stack for every size."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.signal

from asymrl.nn.features import observation_features
from asymrl.nn.pictures import PictureFeatures, stack_for
from asymrl.worlds.checking.world_facts import space_text
from asymrl.worlds.spaces import Image, Record


def by_hand(features: PictureFeatures, picture: np.ndarray) -> np.ndarray:
    """The same in float64, with SciPy's correlation and loops."""
    x = picture.astype(np.float64) / 255
    for _ in range(features.stack.halvings):
        h, w = x.shape[0] // 2, x.shape[1] // 2
        x = np.stack([[x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean((0, 1)) for j in range(w)] for i in range(h)])
    for layer, kernel, bias in zip(features.stack.layers, features.kernels, features.biases, strict=True):
        square = np.asarray(kernel, np.float64).reshape(layer.width, layer.width, x.shape[2], layer.channels)
        planes = [
            sum(scipy.signal.correlate2d(x[..., c], square[..., c, o], "valid") for c in range(x.shape[2]))
            for o in range(layer.channels)
        ]
        y = np.stack(planes, -1)[:: layer.stride, :: layer.stride]
        x = np.maximum(y + np.asarray(bias, np.float64), 0)
    return x.ravel()


@pytest.mark.parametrize("shape", [(8, 8, 1), (13, 17, 3), (28, 30, 2), (130, 129, 1)])
def test_convolutions_are_those_of_the_definition(shape: tuple[int, int, int]):
    features = PictureFeatures(jax.random.key(0), Image(shape=shape))
    pictures = np.random.default_rng(0).integers(256, size=(1, 2, *shape), dtype=np.uint8)
    found = np.asarray(features(jnp.asarray(pictures)))
    assert found.shape == (1, 2, features.size)
    for i in range(2):
        np.testing.assert_allclose(found[0, i], by_hand(features, pictures[0, i]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("side", [*range(8, 40), 63, 64, 84, 96, 127, 128, 160, 255, 256, 512])
def test_every_size_has_a_stack_that_leaves_something(side: int):
    for shape in ((side, side, 3), (side, 2 * side, 1)):
        height, width = stack_for(shape).sides(shape)
        assert 2 <= height <= width
        assert height * height * 64 <= 4096 or shape[0] == 127


def test_known_sizes():
    """Those of Mnih et al. (2015) for 84 x 84, and a screen of an Atari, which is halved first."""
    nature = stack_for((84, 84, 4))
    assert [tuple(layer) for layer in nature.layers] == [(32, 8, 4), (64, 4, 2), (64, 3, 1)]
    assert nature.sides((84, 84, 4)) == (7, 7)
    assert stack_for((210, 160, 3)).sides((210, 160, 3)) == (9, 6)
    assert stack_for((8, 8)).sides((8, 8)) == (4, 4)


def test_pictures_are_read_by_convolutions_by_default():
    space = Record((("camera", Image(shape=(16, 16, 3))), ("other", Image(shape=(8, 9, 1)))))
    features = observation_features(jax.random.key(0), space)
    assert all(isinstance(part, PictureFeatures) for part in features.parts)  # pyright: ignore
    assert space_text(space) == (
        "camera: a picture of 16x16 pixels with 3 channels, read by convolutions; "
        "other: a picture of 8x9 pixels with 1 channel, read by convolutions"
    )
