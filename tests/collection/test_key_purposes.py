"""Random keys of different purposes differ."""

from __future__ import annotations

from asymrl.collection import key_purposes


def test_no_two_purposes_share_a_number():
    numbers = [value for name, value in vars(key_purposes).items() if name.isupper()]
    assert len(numbers) > 10
    assert len(set(numbers)) == len(numbers)
