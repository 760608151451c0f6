"""Random keys of different purposes differ."""

from __future__ import annotations

from asymrl.learners import key_purposes

IN_PYTHON = {"STREAM_ACTIONS", "EPISODE_SEEDS"}  # a program for worlds in Python has no other purposes


def test_no_two_purposes_share_a_number():
    numbers = {name: value for name, value in vars(key_purposes).items() if name.isupper()}
    compiled = [value for name, value in numbers.items() if name not in IN_PYTHON]
    assert len(compiled) > 10
    assert len(set(compiled)) == len(compiled)
    assert len({numbers[name] for name in IN_PYTHON}) == 2
