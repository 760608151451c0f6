"""Comparing what environments return, down to types, shapes and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_same(one: Any, other: Any, *, values: bool = True, at: str = "result") -> None:
    """Both have the same form and, if `values`, the same content."""
    assert type(one) is type(other), f"{at}: {type(one)} and {type(other)}"
    if isinstance(one, dict):
        assert one.keys() == other.keys(), f"{at}: {sorted(one)} and {sorted(other)}"
        for key in one:
            assert_same(one[key], other[key], values=values, at=f"{at}[{key!r}]")
    elif isinstance(one, np.ndarray) and one.dtype == object:
        assert one.shape == other.shape, at
        for i, (left, right) in enumerate(zip(one, other, strict=True)):
            assert_same(left, right, values=values, at=f"{at}[{i}]")
    elif isinstance(one, np.ndarray):
        assert (one.shape, one.dtype) == (other.shape, other.dtype), at
        # What is masked out must agree even where the content need not.
        if values and np.issubdtype(one.dtype, np.floating):
            # Compiled for many and for one, a product and a sum may or may not be rounded in between.
            np.testing.assert_allclose(one, other, rtol=3e-7, atol=0, err_msg=at)
        elif values or one.dtype == np.bool_:
            np.testing.assert_array_equal(one, other, err_msg=at)
    elif values:
        assert one == other, f"{at}: {one} and {other}"
