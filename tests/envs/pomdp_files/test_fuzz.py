"""Damaged files are refused, or read; nothing else happens. `make fuzz` tries a million of them."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given, settings, strategies as st

from asymrl.envs.pomdp_files import FileError
from asymrl.envs.pomdp_files.reader import parse_bytes
from tests.envs.pomdp_files.fuzz import WORDS, fuzz, mutated, read_or_refuse

pytestmark = pytest.mark.filterwarnings("ignore:.*no discount is given")


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_bytes(data: bytes) -> None:
    read_or_refuse(data)


@settings(max_examples=100)
@given(st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join))
def test_words(text: str) -> None:
    read_or_refuse(text.encode())


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_damaged_files(seed: int) -> None:
    read_or_refuse(mutated(random.Random(seed)))


@pytest.mark.parametrize(
    "text",
    [
        "states: 1000000 actions: 1000000 observations: 1000000 T: * uniform",
        "states: 1000000 actions: 4 observations: 2 T: * uniform O: * uniform",
        "states: 1000000 actions: 1 observations: 1000000 T: * identity O: * uniform",
        "discount: 1 states: 4 actions: 2 observations: " + "9" * 100_000,
        "discount: " + "1" * 300_000 + ":",
        "states: 9 T" + " :" * 100_000,
        "states: 2 actions: 2 observations: 2 R: 0 : 0 : " + "1 " * 100_000 + "x",
    ],
)
def test_little_memory_is_taken_for_what_is_only_promised(text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FileError):
            parse_bytes(text.encode())
        assert tracemalloc.get_traced_memory()[1] < 1 << 30
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_million_damaged_files() -> None:
    assert fuzz(1_000_000) > 10_000
