"""What the scheduler gives to pools, and what becomes of runs whose pool fails, is lost or waits for the disk."""

from __future__ import annotations

import threading
from typing import Any

from asymrl.runs import scheduler as scheduler_module
from asymrl.runs.events import Broken, Checkpointed, Noted
from asymrl.runs.lanes import Assignment
from asymrl.runs.runs import Run
from asymrl.runs.scheduler import Scheduler
from asymrl.settings import new_settings
from tests.runs.engine.conftest import tiny
from tests.runs.engine.queued_runs import SHAPES, assignments, events, retired, saved


def test_runs_that_have_begun_come_first_then_the_longest():
    given = [
        Assignment(
            number, Run(tiny(steps=steps), number), saved([Run(tiny(steps=steps), number)], 1) if begun else None
        )
        for number, (steps, begun) in enumerate([(400, False), (1200, False), (400, True), (800, False)])
    ]
    scheduler = Scheduler(given, lambda *_: 4, one_pool_per_shape=False)
    scheduler.pick("a", 0)
    assert [each.number for each in scheduler.take("a", 4)] == [2, 1, 3, 0]


def test_of_equally_long_runs_those_come_first_whose_critic_reads_most():
    """In the rooms the state is two grids and a place, and the observation two cells."""
    methods = ["a2c", "a2c-asym-s", "a2c-asym-hs"]
    runs = [
        Run(new_settings(world=world, method=method, steps=400), 0)
        for world in ("heaven-hell-3", "memory-four-rooms-7x7")
        for method in methods
    ]
    given = [Assignment(number, run, None) for number, run in enumerate(runs)]
    scheduler = Scheduler(given, lambda *_: 1, one_pool_per_shape=True)
    names = []
    for i in range(len(runs)):
        order = scheduler.pick(f"pool {i}", i)
        assert order is not None
        scheduler.take(f"pool {i}", 1)
        names.append((order.shape.world, order.shape.method))
    assert names[:2] == [("memory-four-rooms-7x7", "a2c-asym-hs"), ("memory-four-rooms-7x7", "a2c-asym-s")]
    assert names.index(("heaven-hell-3", "a2c-asym-hs")) < names.index(("heaven-hell-3", "a2c"))


def test_pools_that_open_at_the_same_time_get_different_shapes():
    """As at the beginning of a reproduction with many processes: none compiles for runs that another will take."""
    scheduler = Scheduler(assignments(3, *SHAPES), lambda _, waiting, of_all: min(waiting, 2), one_pool_per_shape=False)
    orders = [scheduler.pick(f"pool {i}", i) for i in range(4)]
    small, large = (shape.shape() for shape in SHAPES)
    assert [(order.shape, order.lanes) for order in orders if order] == [(small, 2), (small, 1), (large, 2), (large, 1)]
    late = threading.Thread(target=lambda: orders.append(scheduler.pick("late", 4)), daemon=True)
    late.start()
    late.join(0.2)
    assert len(orders) == 4  # all runs are claimed, so it waits
    scheduler.lose("pool 2", "killed")  # while it was compiled
    late.join(10)
    assert orders[4] is not None
    assert (orders[4].shape, orders[4].lanes) == (large, 2)
    taken = [len(scheduler.take(pool, 2)) for pool in ("pool 0", "pool 1", "late", "pool 3")]
    assert taken == [2, 1, 2, 1]


def test_runs_beyond_the_lanes_of_open_pools_get_another_pool():
    scheduler = Scheduler(
        assignments(5, SHAPES[0]), lambda _, waiting, of_all: min(waiting, 2), one_pool_per_shape=False
    )
    for pool, lanes in (("a", 2), ("b", 2), ("c", 1)):
        order = scheduler.pick(pool, pool)
        assert order is not None
        assert len(scheduler.take(pool, order.lanes)) == lanes


def test_a_pool_that_does_not_fit_is_halved():
    scheduler = Scheduler(assignments(5, SHAPES[0]), lambda _, waiting, of_all: waiting, one_pool_per_shape=True)
    for lanes in (5, 2, 1):
        order = scheduler.pick("a", 0)
        assert order is not None
        assert order.lanes == lanes
        scheduler.take("a", lanes)
        scheduler.fail("a", "RESOURCE_EXHAUSTED", out_of_memory=True)
    messages = events(scheduler)
    said = "{} runs of tiger:episodic=true a2c-asym-s do not fit; trying half of them"
    assert messages[:2] == [Noted(said.format(5)), Noted(said.format(2))]
    assert messages[2] == Broken((0,), "RESOURCE_EXHAUSTED")  # a single run that does not fit never will


def test_a_pool_that_is_late_to_fail_does_not_widen_the_others():
    scheduler = Scheduler(
        assignments(8, SHAPES[0]), lambda _, waiting, of_all: min(waiting, 4), one_pool_per_shape=False
    )
    for pool in ("a", "b"):
        scheduler.pick(pool, pool)  # four lanes each
    for pool, lanes in (("a", 2), ("a", 1), ("b", 1)):
        scheduler.fail(pool, "RESOURCE_EXHAUSTED", out_of_memory=True)
        order = scheduler.pick(pool, pool)
        assert order is not None
        assert order.lanes == lanes


def test_a_shape_that_cannot_be_compiled_is_broken_once_and_others_go_on():
    scheduler = Scheduler(assignments(2, *SHAPES), lambda *_: 1, one_pool_per_shape=False)
    for pool in ("a", "b"):  # two cores, with the same program
        order = scheduler.pick(pool, pool)
        assert order is not None
        assert order.shape == SHAPES[0].shape()
    for pool in ("a", "b"):
        scheduler.fail(pool, "the compiler gave up", out_of_memory=False)
    assert events(scheduler) == [Broken((0, 1), "the compiler gave up")]
    order = scheduler.pick("a", "a")
    assert order is not None
    assert order.shape == SHAPES[1].shape()


def test_a_run_that_always_loses_its_pool_is_broken():
    scheduler = Scheduler(assignments(1, SHAPES[0]), lambda *_: 1, one_pool_per_shape=False)
    for _ in range(scheduler_module.MOST_LOSSES + 1):
        assert scheduler.pick("process 0", 0) is not None
        scheduler.take("process 0", 1)
        scheduler.lose("process 0", "exit code -9")
    *notes, last = events(scheduler)
    said = "process 0 with 1 run of tiger:episodic=true a2c-asym-s was lost (exit code -9); trying again"
    assert notes == [Noted(said)] * scheduler_module.MOST_LOSSES
    assert last == Broken((0,), "lost 6 times, the last time: exit code -9")
    assert scheduler.pick("process 0", 0) is None


def test_a_shape_that_always_loses_its_pool_while_it_is_compiled_is_broken():
    scheduler = Scheduler(assignments(2, *SHAPES), lambda *_: 1, one_pool_per_shape=False)
    for _ in range(scheduler_module.MOST_LOSSES + 1):
        order = scheduler.pick("process 0", 0)
        assert order is not None
        assert order.shape == SHAPES[0].shape()
        assert scheduler.lose("process 0", "exit code -9")
    assert events(scheduler) == [Broken((0, 1), "lost 6 times, the last time: exit code -9")]
    order = scheduler.pick("process 0", 0)
    assert order is not None
    assert order.shape == SHAPES[1].shape()


def test_a_place_that_is_lost_before_it_has_anything_to_do_is_at_fault_itself():
    scheduler = Scheduler(assignments(1, SHAPES[0]), lambda *_: 1, one_pool_per_shape=False)
    assert not scheduler.lose("process 0", "there is no gpu any more")
    assert events(scheduler) == []
    scheduler.give_up()
    assert events(scheduler) == [Broken((0,), "there is no gpu any more")]


def test_a_pool_without_work_waits_for_runs_that_may_come_back():
    scheduler = Scheduler(assignments(1, SHAPES[0]), lambda *_: 1, one_pool_per_shape=False)
    assert scheduler.pick("a", 0)
    assert len(scheduler.take("a", 1)) == 1
    orders: list[Any] = []
    waiting = threading.Thread(target=lambda: orders.append(scheduler.pick("b", 1)))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    scheduler.lose("a", "gone")
    waiting.join(5)
    assert orders[0].shape == SHAPES[0].shape()
    scheduler.take("b", 1)
    scheduler.report("b", retired(0))
    assert scheduler.pick("a", 0) is None


def test_a_stopped_scheduler_gives_out_nothing():
    scheduler = Scheduler(assignments(2, SHAPES[0]), lambda *_: 1, one_pool_per_shape=False)
    scheduler.stop()
    assert scheduler.is_stopped()
    assert scheduler.pick("a", 0) is None


def test_what_nobody_can_train_any_more_is_broken():
    scheduler = Scheduler(assignments(2, *SHAPES), lambda *_: 1, one_pool_per_shape=False)
    scheduler.pick("a", 0)
    scheduler.take("a", 1)
    scheduler.fail("a", "the device is gone", out_of_memory=False)
    scheduler.give_up()
    assert events(scheduler) == [Broken((0,), "the device is gone"), Broken((1, 2, 3), "the device is gone")]
    scheduler.give_up()
    assert events(scheduler) == []
    assert scheduler.pick("a", 0) is None


def test_pools_wait_for_a_disk_that_is_slower_than_they_are():
    scheduler, written = _pool_that_reports_often()
    written.join(0.3)
    assert written.is_alive()
    assert scheduler.events.qsize() == scheduler_module.MOST_UNWRITTEN
    for _ in range(10):
        scheduler.handled(scheduler.events.get(timeout=10))
    written.join(10)
    assert not written.is_alive()


def test_a_pool_that_waits_for_the_disk_can_be_stopped():
    scheduler, written = _pool_that_reports_often()
    scheduler.stop()
    written.join(10)
    assert not written.is_alive()


def _pool_that_reports_often() -> tuple[Scheduler, threading.Thread]:
    """A scheduler of one run, and a thread that reports more checkpoints of it than may wait to be written."""
    given = assignments(1, SHAPES[0])
    scheduler = Scheduler(given, lambda *_: 1, one_pool_per_shape=False)
    scheduler.pick("core 0", 0)
    scheduler.take("core 0", 1)
    thread = threading.Thread(target=_report_often, args=(scheduler, given[0].run), daemon=True)
    thread.start()
    return scheduler, thread


def _report_often(scheduler: Scheduler, run: Run) -> None:
    for version in range(10):
        scheduler.report("core 0", Checkpointed(saved([run], version)))
