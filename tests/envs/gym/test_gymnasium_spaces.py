from __future__ import annotations

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.envs.action_spaces import action_encoding
from asymrl.envs.gymnasium_spaces import to_gymnasium, to_world, values_to_gymnasium
from asymrl.worlds.spaces import Box, Discrete, Indices, Record

CAT = Record((("kind", Indices(300, (2,))), ("at", Box((3,), -1.0, (1.0, 2.0, 3.0))), ("mood", Discrete(4))))


def test_spaces_in_gymnasium_terms():
    boxes = gymnasium.spaces.Box
    assert to_gymnasium(Discrete(7)) == gymnasium.spaces.Discrete(7)
    assert to_gymnasium(Indices(256, (2, 3))) == boxes(0, 255, (2, 3), np.uint8)
    assert to_gymnasium(Indices(300, (2,))) == boxes(0, 299, (2,), np.int32)
    low, high = np.full(3, -1, np.float32), np.array([1, 2, 3], np.float32)
    assert to_gymnasium(Box((3,), -1.0, (1.0, 2.0, 3.0))) == boxes(low, high, (3,), np.float32)


def test_records_keep_the_order_of_their_parts():
    space = to_gymnasium(CAT)
    assert isinstance(space, gymnasium.spaces.Dict)
    assert list(space) == ["kind", "at", "mood"]
    assert space["mood"] == gymnasium.spaces.Discrete(4)


def test_values_for_the_world_have_its_dtypes():
    value = to_world(CAT, {"kind": [1, 2], "at": [0, 0.5, 1], "mood": np.int64(3), "more": 1})
    assert {name: part.dtype.name for name, part in value.items()} == {
        "kind": "int32",
        "at": "float32",
        "mood": "int32",
    }


def test_batches_are_copies_with_gymnasium_dtypes():
    source = {"kind": jnp.zeros((5, 2), jnp.int32), "at": jnp.ones((5, 3)), "mood": jnp.arange(5) % 4}
    values = values_to_gymnasium(CAT, source)
    assert values in gymnasium.vector.utils.batch_space(to_gymnasium(CAT), 5)
    assert values["mood"].dtype == np.int64
    values["at"][:] = 7
    assert np.all(np.asarray(source["at"]) == 1)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("shape", [(), (1,), (2, 1)])
def test_actions_are_arrays_of_their_space(dtype: type, shape: tuple[int, ...]):
    """Also a single number: Gymnasium's spaces do not contain NumPy's scalars without a warning."""
    space = gymnasium.spaces.Box(-3, 3, shape, dtype)
    encoding = action_encoding(space, "here")
    action = encoding.act(np.full(np.prod(shape, dtype=int), 7.0, np.float32))
    assert isinstance(action, np.ndarray)
    assert (action.shape, action.dtype) == (shape, dtype)
    assert space.contains(action)
