"""Work beside a training takes a small share of its time, and a sleeping machine does not count."""

from __future__ import annotations

import pytest

from asymrl.runs import callback
from asymrl.runs.callback import Throttle


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    time = {"now": 0.0}
    monkeypatch.setattr(callback.time, "monotonic", lambda: time["now"])
    return time


def seconds_until_due(writing: Throttle, clock: dict[str, float]) -> int:
    begin = clock["now"]
    while not writing.is_due():
        clock["now"] += 1.0
    return round(clock["now"] - begin)


def work(writing: Throttle, clock: dict[str, float], seconds: float) -> None:
    with writing.work():
        clock["now"] += seconds


def test_quick_work_is_due_every_so_many_seconds(clock: dict[str, float]):
    writing = Throttle(10, 0.05)
    assert writing.is_due()
    for _ in range(3):
        work(writing, clock, 0.1)
        assert seconds_until_due(writing, clock) == 10


def test_slow_work_takes_no_more_than_its_share(clock: dict[str, float]):
    writing = Throttle(10, 0.05)
    for _ in range(3):
        work(writing, clock, 2.0)
    assert seconds_until_due(writing, clock) == 40


def test_one_long_interruption_does_not_count(clock: dict[str, float]):
    """As of a laptop that was closed, or of a process that was stopped, while a table was written."""
    writing = Throttle(10, 0.05)
    work(writing, clock, 0.1)
    work(writing, clock, 3600.0)
    assert seconds_until_due(writing, clock) == 10
    work(writing, clock, 0.1)
    assert seconds_until_due(writing, clock) == 10


def test_work_that_fails_is_not_tried_again_at_once(clock: dict[str, float]):
    drawing = Throttle(30, 0.02)
    with pytest.raises(OSError, match="no space"), drawing.work():
        raise OSError("no space")
    assert not drawing.is_due()
    drawing.wait()
    assert seconds_until_due(drawing, clock) == 30
