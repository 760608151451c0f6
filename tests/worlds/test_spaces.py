"""What lies in a space and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from asymrl.worlds import Box, Discrete, Indices, MultiDiscrete, Place, Record

RECORD = Record((("grid", Indices(3, (2, 2))), ("place", Box((2,), -1.0, 1.0))))
INSIDE = {"grid": np.array([[0, 1], [2, 0]], np.uint8), "place": np.array([0.5, -1.0], np.float32)}


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (Discrete(4), 0),
        (Discrete(4), np.int32(3)),
        (Indices(3, (2,)), [0, 2]),
        (MultiDiscrete((3, 2)), [2, 1]),
        (MultiDiscrete((3, 2)), np.array([0, 0], np.int64)),
        (Box((2,), -1.0, 1.0), [0, 1]),
        (Box((2,), (-1.0, 0.0), (1.0, 5.0)), [-1, 5]),
        (Box((2, 2), (-1.0, 0.0), (1.0, 5.0)), [[0, 5], [1, 4]]),
        (Box(()), 1e30),
        (Box((1,), -1.1, 1.1), [-1.1]),  # as float64, just outside the bound as float32
        (Place(shape=(3, 4), margin=1), [[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]),
        (RECORD, INSIDE),
    ],
)
def test_inside(space, value):
    assert space.problem(value) is None


@pytest.mark.parametrize(
    ("space", "value", "problem"),
    [
        (Place(shape=(1, 3)), [[0, 1, 1]], "does not mark exactly one cell"),
        (
            Place(shape=(3, 3), margin=1),
            np.eye(9, dtype=int)[5].reshape(3, 3),
            "marks a cell less than 1 from the border",
        ),
        (Place(shape=(1, 2)), [[0, 2]], "is 2, outside 0..1"),
        (Discrete(4), 4, "is 4, outside 0..3"),
        (Discrete(4), -1, "is -1, outside 0..3"),
        (Discrete(4), 1.0, "has dtype float64, expected integers"),
        (Discrete(4), True, "has dtype bool, expected integers"),
        (Discrete(4), [1], "has shape (1,), expected ()"),
        (Discrete(4), None, "has dtype object, expected integers"),
        (Discrete(4), "1", "has dtype <U1, expected integers"),
        (Indices(3, (2,)), [0, 3], "is 3, outside 0..2"),
        (MultiDiscrete((3, 2)), [2, 2], "has 2 at (1,), outside 0..1"),
        (MultiDiscrete((3, 2)), [-1, 0], "has -1 at (0,), outside 0..2"),
        (MultiDiscrete((3, 2)), [0.0, 1.0], "has dtype float64, expected integers"),
        (MultiDiscrete((3, 2)), 1, "has shape (), expected (2,)"),
        (Indices(3, (2,)), [0], "has shape (1,), expected (2,)"),
        (Box((2,), -1.0, 1.0), [0, 1.01], "has 1.01 at (1,), outside [-1, 1]"),
        (Box((2,), (-1.0, 0.0), (1.0, 5.0)), [-1, -1], "has -1 at (1,), outside [0, 5]"),
        (Box((2,)), [0, np.nan], "holds a value that is not finite"),
        (Box((2,)), [0, np.inf], "holds a value that is not finite"),
        (Box((2,)), [0], "has shape (1,), expected (2,)"),
        (Box((2,)), ["a", "b"], "has dtype <U1, expected numbers"),
        (RECORD, [1], "is a list, expected a dictionary with the keys grid, place"),
        (RECORD, {"grid": INSIDE["grid"]}, "has the keys ['grid'], expected ['grid', 'place']"),
        (RECORD, INSIDE | {"grid": np.full((2, 2), 7)}, "'grid' is 7, outside 0..2"),
        (RECORD, INSIDE | {"place": np.array([0.0, 2.0])}, "'place' has 2.0 at (1,), outside [-1, 1]"),
    ],
)
def test_outside(space, value, problem):
    assert space.problem(value) == problem


def test_spaces_are_values():
    assert Box((2,), (0.0, 1.0), 2.0) == Box((2,), (0.0, 1.0), 2.0)
    assert len({Discrete(3), Discrete(3), Discrete(4), RECORD, RECORD}) == 3
    assert RECORD["place"] == Box((2,), -1.0, 1.0)


def test_a_vector_of_indices_has_entries_with_values():
    assert MultiDiscrete((3, 2)).shape == (2,)
    for sizes in ((), (3, 0)):
        with pytest.raises(ValueError, match=r"MultiDiscrete sizes .*: at least one entry is needed"):
            MultiDiscrete(sizes)


def test_dtypes():
    assert [space.dtype for space in (Discrete(3), Indices(256, (1,)), Indices(257, (1,)), Box((1,)))] == [
        np.int32,
        np.uint8,
        np.int32,
        np.float32,
    ]
