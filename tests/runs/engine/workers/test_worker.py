"""Pools at their place: what does not fit, and what errors mean."""

from __future__ import annotations

from typing import Any

import pytest

from asymrl.runs import worker as worker_module
from asymrl.runs.placement import Pace
from asymrl.runs.worker import Order, OutOfMemoryError, is_device_lost, is_out_of_memory, open_pool, reason_of
from tests.runs.engine.queued_runs import SHAPES


def test_short_memory_is_no_lost_device():
    for message in ("RESOURCE_EXHAUSTED: CUDA_ERROR_OUT_OF_MEMORY: out of memory", "CUDA_ERROR_OUT_OF_MEMORY"):
        assert is_out_of_memory(RuntimeError(message))
        assert not is_device_lost(RuntimeError(message))
    assert not is_device_lost(ValueError("heads must divide the size"))
    assert is_device_lost(RuntimeError("Unable to initialize backend 'cuda'"))
    assert is_device_lost(RuntimeError("INTERNAL: CUDA error: CUDA_ERROR_LAUNCH_FAILED: unspecified"))


def test_errors_in_one_line():
    assert reason_of(ValueError("heads must\n divide the size")) == "heads must divide the size"
    assert reason_of(RuntimeError("INTERNAL: the compiler\ngave up")) == "RuntimeError: INTERNAL: the compiler gave up"
    assert reason_of(KeyError()) == "KeyError: KeyError"


def test_a_pool_that_needs_more_than_there_is_is_not_begun(monkeypatch: pytest.MonkeyPatch):
    class FakePool:
        def __init__(self, program: Any, lanes: int, *_: Any):
            self.lanes = lanes

        def bytes_needed(self) -> int:
            return self.lanes * 2**30

        def close(self) -> None:
            closed.append(self.lanes)

    class Device:
        platform = "gpu"

        def memory_stats(self) -> dict[str, int]:
            return {"bytes_limit": 10 * 2**30}

    closed: list[int] = []
    monkeypatch.setattr(worker_module, "Pool", FakePool)
    monkeypatch.setattr(worker_module, "program", lambda shape: None)
    order = Order(SHAPES[0].shape(), 8)
    assert open_pool(order, Device(), Pace()).lanes == 8  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(OutOfMemoryError, match=r"9 lanes need 9.66 GB of 10.7 GB"):
        open_pool(order._replace(lanes=9), Device(), Pace())
    assert closed == [9]
