"""The queue that pools share: every run is over or broken exactly once, whatever happens to the pools."""

from __future__ import annotations

import math
import threading
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from asymrl.engine import floor as floor_module, placement
from asymrl.engine.events import Broken, Checkpointed, Event, Noted, Retired
from asymrl.engine.floor import Floor, Told
from asymrl.engine.lanes import Assignment
from asymrl.engine.placement import Pace
from asymrl.engine.workers import serving
from asymrl.engine.workers.serving import OutOfMemoryError, is_device_lost, is_out_of_memory, open_pool, reason_of
from asymrl.settings import Settings
from asymrl.stores.checkpoints.saved_runs import SavedRuns
from asymrl.stores.runs import Run
from asymrl.stores.tables import COMPLETE, RunResult
from tests.engine.conftest import tiny

SHAPES = [tiny(memory_size=size) for size in (4, 8)]


def assignments(count: int, *shapes: Settings) -> list[Assignment]:
    """So many runs of each shape."""
    runs = [Run(shape, seed) for shape in shapes for seed in range(count)]
    return [Assignment(number, run) for number, run in enumerate(runs)]


def saved(runs: list[Run], version: int) -> SavedRuns:
    numbers = {"updates": np.full(len(runs), version)}
    return SavedRuns(tuple(runs), numbers, "threefry2x32", (0.0,) * len(runs))


def retired(number: int) -> Retired:
    return Retired(number, RunResult(COMPLETE), None)


def events(floor: Floor) -> list[Event]:
    """What has been reported since the last time."""
    reported = []
    while not floor.events.empty():
        reported.append(floor.events.get().event)
    return reported


class WouldWaitError(Exception):
    """The pool would wait for runs that others may give back."""


class Impatient(threading.Condition):
    def wait(self, timeout: float | None = None) -> bool:
        raise WouldWaitError


class PoolsOnAFloor(RuleBasedStateMachine):
    """Three pools at two places, which take runs, finish them, fail and get lost in any order."""

    pools = st.sampled_from(["a", "b", "c"])

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(floor_module, "MOST_LOSSES", 1)
        self.all = assignments(4, *SHAPES)
        self.floor = Floor(self.all, lambda shape, waiting, of_all: min(4, waiting), one_pool_per_shape=True)
        self.floor._changed = Impatient(threading.RLock())
        self.place = {"a": 0, "b": 0, "c": 1}
        self.orders: dict[str, Any] = {}
        self.held: dict[str, dict[int, Run]] = {pool: {} for pool in self.place}
        self.version: dict[int, int] = {}  # of the newest state of each run
        self.losses: dict[int, int] = {}
        self.most_lanes: dict[Settings, int] = {}
        self.over: list[int] = []
        self.checkpoints = 0

    def pick_for(self, pool: str) -> bool:
        """Whether there is something to do."""
        try:
            order = self.floor.pick(pool, self.place[pool])
        except WouldWaitError:
            return False
        if order is None:
            assert len(self.over) == len(self.all)
            return False
        assert 1 <= order.lanes <= self.most_lanes.get(order.shape, 4)
        # No other pool at this place serves the shape.
        others = [self.orders.get(each) for each in self.place if each != pool and self.place[each] == self.place[pool]]
        assert order.shape not in [each.shape for each in others if each is not None]
        self.orders[pool] = order
        return True

    def take_for(self, pool: str, count: int) -> None:
        for given in self.floor.take(pool, count):
            assert given.run.settings.shape() == self.orders[pool].shape
            version = None if given.saved is None else int(given.saved.arrays["updates"][0])
            assert version == self.version.get(given.number)  # it goes on from its newest state
            self.held[pool][given.number] = given.run

    def busy_pool(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.orders)))

    @rule(pool=pools, count=st.integers(1, 3))
    def pick_and_take(self, pool: str, count: int):
        if pool in self.orders or self.pick_for(pool):
            self.take_for(pool, min(count, self.orders[pool].lanes - len(self.held[pool])))

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data())
    def retire(self, data: st.DataObject):
        pool, number = data.draw(st.sampled_from([(pool, n) for pool, runs in self.held.items() for n in runs]))
        del self.held[pool][number]
        self.floor.report(pool, retired(number))

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data())
    def checkpoint(self, data: st.DataObject):
        pool = data.draw(st.sampled_from([pool for pool, runs in self.held.items() if runs]))
        self.checkpoints += 1
        self.version |= dict.fromkeys(self.held[pool], self.checkpoints)
        event = Checkpointed(saved(list(self.held[pool].values()), self.checkpoints))
        self.floor.report(pool, event)
        self.floor.handled(Told(pool, event))  # the disk is fast

    @precondition(lambda self: self.orders)
    @rule(data=st.data(), out_of_memory=st.booleans())
    def fail(self, data: st.DataObject, out_of_memory: bool):
        pool = self.busy_pool(data)
        order = self.orders.pop(pool)
        if out_of_memory and order.lanes > 1:
            self.most_lanes[order.shape] = min(order.lanes // 2, self.most_lanes.get(order.shape, 4))
        self.held[pool] = {}
        self.floor.fail(pool, "why", out_of_memory=out_of_memory)

    @rule(pool=pools)
    def lose(self, pool: str):
        was_busy = self.orders.pop(pool, None) is not None
        for number in self.held[pool]:
            self.losses[number] = self.losses.get(number, 0) + 1
        self.held[pool] = {}
        assert self.floor.lose(pool, "why") == was_busy

    @precondition(lambda self: self.orders)
    @rule(data=st.data())
    def close(self, data: st.DataObject):
        """A pool ends when its lanes are empty."""
        pool = self.busy_pool(data)
        if not self.held[pool]:
            del self.orders[pool]
            self.floor.close(pool)

    @invariant()
    def every_run_is_in_one_place(self):
        for event in events(self.floor):
            if isinstance(event, Retired):
                self.over.append(event.number)
            elif isinstance(event, Broken):
                assert event.numbers
                self.over.extend(event.numbers)
        waiting = [each.number for queue in self.floor._waiting.values() for each in queue]
        held = [number for runs in self.held.values() for number in runs]
        assert sorted(waiting + held + self.over) == list(range(len(self.all)))
        assert all(count <= floor_module.MOST_LOSSES for n, count in self.losses.items() if n not in self.over)
        assert self.floor.holds_runs() == bool(held)

    def teardown(self):
        """Nothing more goes wrong, and the pools finish everything."""
        try:
            self.finish()
        finally:
            self.patch.undo()

    def finish(self):
        busy = True
        while busy:
            busy = False
            for pool in self.place:
                if pool in self.orders or self.pick_for(pool):
                    busy = True
                    self.take_for(pool, self.orders[pool].lanes - len(self.held[pool]))
                    for number in list(self.held[pool]):
                        del self.held[pool][number]
                        self.floor.report(pool, retired(number))
                    del self.orders[pool]
                    self.floor.close(pool)
                    self.every_run_is_in_one_place()
        assert sorted(self.over) == list(range(len(self.all)))
        assert all(self.floor.pick(pool, self.place[pool]) is None for pool in self.place)


TestPoolsOnAFloor = PoolsOnAFloor.TestCase
TestPoolsOnAFloor.settings = settings(max_examples=100, stateful_step_count=40)


def test_runs_that_have_begun_come_first_then_the_longest():
    given = [
        Assignment(
            number, Run(tiny(steps=steps), number), saved([Run(tiny(steps=steps), number)], 1) if begun else None
        )
        for number, (steps, begun) in enumerate([(400, False), (1200, False), (400, True), (800, False)])
    ]
    floor = Floor(given, lambda *_: 4, one_pool_per_shape=False)
    floor.pick("a", 0)
    assert [each.number for each in floor.take("a", 4)] == [2, 1, 3, 0]


def test_a_pool_that_does_not_fit_is_halved():
    floor = Floor(assignments(5, SHAPES[0]), lambda _, waiting, of_all: waiting, one_pool_per_shape=True)
    for lanes in (5, 2, 1):
        order = floor.pick("a", 0)
        assert order is not None
        assert order.lanes == lanes
        floor.take("a", lanes)
        floor.fail("a", "RESOURCE_EXHAUSTED", out_of_memory=True)
    messages = events(floor)
    said = "{} runs of tiger:episodic=true a2c-asym-s do not fit; trying half of them"
    assert messages[:2] == [Noted(said.format(5)), Noted(said.format(2))]
    assert messages[2] == Broken((0,), "RESOURCE_EXHAUSTED")  # a single run that does not fit never will


def test_a_pool_that_is_late_to_fail_does_not_widen_the_others():
    floor = Floor(assignments(4, SHAPES[0]), lambda _, waiting, of_all: waiting, one_pool_per_shape=False)
    for pool in ("a", "b"):
        floor.pick(pool, pool)  # four lanes each
    for pool, lanes in (("a", 2), ("a", 1), ("b", 1)):
        floor.fail(pool, "RESOURCE_EXHAUSTED", out_of_memory=True)
        order = floor.pick(pool, pool)
        assert order is not None
        assert order.lanes == lanes


def test_a_shape_that_cannot_be_compiled_is_broken_once_and_others_go_on():
    floor = Floor(assignments(2, *SHAPES), lambda _, waiting, of_all: waiting, one_pool_per_shape=False)
    for pool in ("a", "b"):  # two cores, with the same program
        order = floor.pick(pool, pool)
        assert order is not None
        assert order.shape == SHAPES[0].shape()
    for pool in ("a", "b"):
        floor.fail(pool, "the compiler gave up", out_of_memory=False)
    assert events(floor) == [Broken((0, 1), "the compiler gave up")]
    order = floor.pick("a", "a")
    assert order is not None
    assert order.shape == SHAPES[1].shape()


def test_a_run_that_always_loses_its_pool_is_broken():
    floor = Floor(assignments(1, SHAPES[0]), lambda *_: 1, one_pool_per_shape=False)
    for _ in range(floor_module.MOST_LOSSES + 1):
        assert floor.pick("process 0", 0) is not None
        floor.take("process 0", 1)
        floor.lose("process 0", "exit code -9")
    *notes, last = events(floor)
    said = "process 0 with 1 run of tiger:episodic=true a2c-asym-s was lost (exit code -9); trying again"
    assert notes == [Noted(said)] * floor_module.MOST_LOSSES
    assert last == Broken((0,), "lost 6 times, the last time: exit code -9")
    assert floor.pick("process 0", 0) is None


def test_a_shape_that_always_loses_its_pool_while_it_is_compiled_is_broken():
    floor = Floor(assignments(2, *SHAPES), lambda *_: 1, one_pool_per_shape=False)
    for _ in range(floor_module.MOST_LOSSES + 1):
        order = floor.pick("process 0", 0)
        assert order is not None
        assert order.shape == SHAPES[0].shape()
        assert floor.lose("process 0", "exit code -9")
    assert events(floor) == [Broken((0, 1), "lost 6 times, the last time: exit code -9")]
    order = floor.pick("process 0", 0)
    assert order is not None
    assert order.shape == SHAPES[1].shape()


def test_a_place_that_is_lost_before_it_has_anything_to_do_is_at_fault_itself():
    floor = Floor(assignments(1, SHAPES[0]), lambda *_: 1, one_pool_per_shape=False)
    assert not floor.lose("process 0", "there is no gpu any more")
    assert events(floor) == []
    floor.give_up()
    assert events(floor) == [Broken((0,), "there is no gpu any more")]


def test_a_pool_without_work_waits_for_runs_that_may_come_back():
    floor = Floor(assignments(1, SHAPES[0]), lambda *_: 1, one_pool_per_shape=False)
    assert floor.pick("a", 0)
    assert len(floor.take("a", 1)) == 1
    orders: list[Any] = []
    waiting = threading.Thread(target=lambda: orders.append(floor.pick("b", 1)))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    floor.lose("a", "gone")
    waiting.join(5)
    assert orders[0].shape == SHAPES[0].shape()
    floor.take("b", 1)
    floor.report("b", retired(0))
    assert floor.pick("a", 0) is None


def test_a_stopped_floor_gives_out_nothing():
    floor = Floor(assignments(2, SHAPES[0]), lambda *_: 1, one_pool_per_shape=False)
    floor.stop()
    assert floor.is_stopped()
    assert floor.pick("a", 0) is None


def test_what_nobody_can_train_any_more_is_broken():
    floor = Floor(assignments(2, *SHAPES), lambda *_: 1, one_pool_per_shape=False)
    floor.pick("a", 0)
    floor.take("a", 1)
    floor.fail("a", "the device is gone", out_of_memory=False)
    floor.give_up()
    assert events(floor) == [Broken((0,), "the device is gone"), Broken((1, 2, 3), "the device is gone")]
    floor.give_up()
    assert events(floor) == []
    assert floor.pick("a", 0) is None


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
    monkeypatch.setattr(serving, "Pool", FakePool)
    monkeypatch.setattr(serving, "program", lambda shape: None)
    order = floor_module.Order(SHAPES[0].shape(), 8)
    assert open_pool(order, Device(), Pace()).lanes == 8  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(OutOfMemoryError, match=r"9 lanes need 9.66 GB of 10.7 GB"):
        open_pool(order._replace(lanes=9), Device(), Pace())
    assert closed == [9]


@pytest.mark.parametrize(
    ("platform", "places", "waiting", "of_all", "lanes"),
    [
        ("cpu", 2, 100, 100, 1),
        ("gpu", 1, 5, 5, 5),
        ("gpu", 1, 10_000, 10_000, placement.MOST_LANES),
        ("gpu", 4, 20, 100, 20),
        ("gpu", 10, 100, 100, placement.FEW_LANES),
        ("gpu", 1, 400, 400, math.ceil(400 * placement.LANES_SHARE)),  # some wait for the lanes of those that end
    ],
)
def test_how_many_lanes_a_pool_has(platform: str, places: int, waiting: int, of_all: int, lanes: int):
    assert placement.lanes_for(platform, None, places)(SHAPES[0], waiting, of_all) == lanes
    assert placement.lanes_for(platform, 3, places)(SHAPES[0], waiting, of_all) == 3


def test_pools_wait_for_a_disk_that_is_slower_than_they_are():
    given = assignments(1, SHAPES[0])
    floor = Floor(given, lambda *_: 1, one_pool_per_shape=False)
    floor.pick("core 0", 0)
    floor.take("core 0", 1)
    written = threading.Thread(target=_report_often, args=(floor, given[0].run), daemon=True)
    written.start()
    written.join(0.3)
    assert written.is_alive()
    assert floor.events.qsize() == floor_module.MOST_UNWRITTEN
    for _ in range(10):
        floor.handled(floor.events.get(timeout=10))
    written.join(10)
    assert not written.is_alive()


def test_a_pool_that_waits_for_the_disk_can_be_stopped():
    given = assignments(1, SHAPES[0])
    floor = Floor(given, lambda *_: 1, one_pool_per_shape=False)
    floor.pick("core 0", 0)
    floor.take("core 0", 1)
    written = threading.Thread(target=_report_often, args=(floor, given[0].run), daemon=True)
    written.start()
    floor.stop()
    written.join(10)
    assert not written.is_alive()


def _report_often(floor: Floor, run: Run) -> None:
    for version in range(10):
        floor.report("core 0", Checkpointed(saved([run], version)))
