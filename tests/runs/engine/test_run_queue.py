"""What the queue gives to workers, and what becomes of runs whose pool fails, is lost or waits for the disk."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from asymrl.runs import run_queue as queue_module
from asymrl.runs.lanes import Assignment
from asymrl.runs.run_queue import Broken, Noted, RunQueue
from asymrl.runs.runs import Run
from asymrl.runs.worker import Failure, Report, Request, Seat
from asymrl.settings import Settings, new_settings
from tests.runs.engine.conftest import tiny
from tests.runs.engine.queued_runs import SHAPES, admitted, assignments, messages, opened, retired, saved

OUT_OF_MEMORY = Report(failure=Failure("RESOURCE_EXHAUSTED", out_of_memory=True))


def two_lanes(shape: Settings, waiting: int, of_all: int) -> int:
    return min(waiting, 2)


def test_runs_that_have_begun_come_first_then_the_longest():
    runs = [Run(tiny(steps=steps), number) for number, steps in enumerate((400, 1200, 400, 800))]
    given = [Assignment(number, run, saved([run], 1) if number == 2 else None) for number, run in enumerate(runs)]
    queue = RunQueue(given, lambda *_: 4)
    assert opened(queue, "a").lanes == 4
    assert admitted(queue, "a", 4) == [2, 1, 3, 0]


def test_of_equally_long_runs_those_come_first_whose_critic_reads_most():
    """In the rooms the state is two grids and a place, and the observation two cells."""
    methods = ["a2c", "a2c-asym-s", "a2c-asym-hs"]
    runs = [
        Run(new_settings(world=world, method=method, steps=400), 0)
        for world in ("heaven-hell-3", "memory-four-rooms-7x7")
        for method in methods
    ]
    queue = RunQueue([Assignment(number, run) for number, run in enumerate(runs)], lambda *_: 1)
    shapes = [opened(queue, f"worker {i}").shape for i in range(len(runs))]
    names = [(shape.world, shape.method) for shape in shapes]
    assert names[:2] == [("memory-four-rooms-7x7", "a2c-asym-hs"), ("memory-four-rooms-7x7", "a2c-asym-s")]
    assert names.index(("heaven-hell-3", "a2c-asym-hs")) < names.index(("heaven-hell-3", "a2c"))


def test_pools_that_open_at_the_same_time_get_different_shapes():
    """As at the beginning of a reproduction with many processes: none compiles for runs that another will take."""
    queue = RunQueue(assignments(3, *SHAPES), two_lanes)
    orders = [opened(queue, f"worker {i}") for i in range(4)]
    small, large = (shape.shape() for shape in SHAPES)
    assert [(order.shape, order.lanes) for order in orders] == [(small, 2), (small, 1), (large, 2), (large, 1)]
    late = threading.Thread(target=lambda: orders.append(opened(queue, "late")), daemon=True)
    late.start()
    late.join(0.2)
    assert len(orders) == 4  # all runs are claimed, so it waits
    queue.lose("worker 2", "killed")  # while it was compiled
    late.join(10)
    assert (orders[4].shape, orders[4].lanes) == (large, 2)
    names = {"worker 0": 2, "worker 1": 1, "late": 2, "worker 3": 1}
    assert [len(admitted(queue, name, lanes)) for name, lanes in names.items()] == [2, 1, 2, 1]


def test_an_accelerator_serves_a_shape_with_one_pool():
    queue = RunQueue(assignments(5, *SHAPES), two_lanes, one_pool_per_shape=True)
    small, large = (shape.shape() for shape in SHAPES)
    assert [opened(queue, name, 0).shape for name in "ab"] == [small, large]
    assert opened(queue, "c", 1).shape == small


def test_a_pool_that_does_not_fit_is_halved():
    queue = RunQueue(assignments(5, SHAPES[0]), lambda shape, waiting, of_all: waiting)
    for lanes in (5, 2, 1):
        assert opened(queue, "a").lanes == lanes
        assert len(admitted(queue, "a", lanes)) == lanes
        queue.report("a", OUT_OF_MEMORY)
    said = "{} runs of tiger:episodic=true a2c-asym-s do not fit; trying half of them"
    # A single run that does not fit never will.
    assert messages(queue) == [Noted(said.format(5)), Noted(said.format(2)), Broken((0,), "RESOURCE_EXHAUSTED")]


def test_a_pool_that_is_late_to_fail_does_not_widen_the_others():
    queue = RunQueue(assignments(8, SHAPES[0]), lambda shape, waiting, of_all: min(waiting, 4))
    assert [opened(queue, name).lanes for name in "ab"] == [4, 4]
    for name, lanes in (("a", 2), ("a", 1), ("b", 1)):
        queue.report(name, OUT_OF_MEMORY)
        assert opened(queue, name).lanes == lanes


def test_a_shape_that_cannot_be_compiled_is_broken_once_and_others_go_on():
    queue = RunQueue(assignments(2, *SHAPES), lambda *_: 1)
    for name in "ab":  # two cores, with the same program
        assert opened(queue, name).shape == SHAPES[0].shape()
    for name in "ab":
        queue.report(name, Report(failure=Failure("the compiler gave up", out_of_memory=False)))
    assert messages(queue) == [Broken((0, 1), "the compiler gave up")]
    assert opened(queue, "a").shape == SHAPES[1].shape()


def test_a_run_that_always_loses_its_worker_is_broken():
    queue = RunQueue(assignments(1, SHAPES[0]), lambda *_: 1)
    for _ in range(queue_module.MOST_LOSSES + 1):
        opened(queue, "process 0")
        assert admitted(queue, "process 0", 1) == [0]
        assert queue.lose("process 0", "exit code -9")
    *notes, last = messages(queue)
    said = "process 0 with 1 run of tiger:episodic=true a2c-asym-s was lost (exit code -9); trying again"
    assert notes == [Noted(said)] * queue_module.MOST_LOSSES
    assert last == Broken((0,), "lost 6 times, the last time: exit code -9")
    assert queue.next(Seat("process 0")) is None


def test_a_shape_that_always_loses_its_worker_while_it_is_compiled_is_broken():
    queue = RunQueue(assignments(2, *SHAPES), lambda *_: 1)
    for _ in range(queue_module.MOST_LOSSES + 1):
        assert opened(queue, "process 0").shape == SHAPES[0].shape()
        assert queue.lose("process 0", "exit code -9")
    assert messages(queue) == [Broken((0, 1), "lost 6 times, the last time: exit code -9")]
    assert opened(queue, "process 0").shape == SHAPES[1].shape()


def test_a_worker_that_is_lost_before_it_has_anything_to_do_is_at_fault_itself():
    queue = RunQueue(assignments(1, SHAPES[0]), lambda *_: 1)
    assert not queue.lose("process 0", "there is no gpu any more")
    assert messages(queue) == []
    queue.give_up()
    assert messages(queue) == [Broken((0,), "there is no gpu any more")]
    assert queue.next(Seat("process 0")) is None


def test_a_worker_without_a_pool_waits_for_runs_that_may_come_back():
    queue = RunQueue(assignments(1, SHAPES[0]), lambda *_: 1)
    opened(queue, "a")
    assert admitted(queue, "a", 1) == [0]
    orders: list[Any] = []
    waiting = threading.Thread(target=lambda: orders.append(opened(queue, "b")))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    queue.lose("a", "gone")
    waiting.join(5)
    assert orders[0].shape == SHAPES[0].shape()
    assert admitted(queue, "b", 1) == [0]
    queue.report("b", retired(0, free=1))
    assert queue.next(Seat("b")) == Request(end=True)
    queue.report("b", Report())
    assert queue.next(Seat("a")) is None
    assert queue.next(Seat("b")) is None


def test_a_stopped_queue_takes_everything_back():
    queue = RunQueue(assignments(2, SHAPES[0]), lambda *_: 1)
    opened(queue, "a")
    admitted(queue, "a", 1)
    queue.stop()
    assert queue.next(Seat("b")) is None
    assert queue.next(Seat("a")) == Request(hand_back=True, end=True)
    assert queue.held_runs() == 1
    queue.report("a", Report(free=1))
    assert queue.held_runs() == 0
    assert queue.next(Seat("a")) is None


def test_runs_in_lanes_are_dropped_and_waiting_ones_are_stopped_at_once():
    queue = RunQueue(assignments(3, SHAPES[0]), lambda *_: 1)
    opened(queue, "a")
    assert admitted(queue, "a", 1) == [0]
    queue.stop_runs([0, 2])
    queue.report("a", Report())
    assert queue.next(Seat("a")) == Request(drop=frozenset([0]))
    queue.report("a", retired(0, free=1))
    request = queue.next(Seat("a"))
    assert request is not None
    assert [each.number for each in request.admit] == [1]
    assert queue_module.Stopped((2,)) in [event.what for event in queue.events.queue]


def test_the_longest_run_goes_first_once_few_are_left():
    """It takes the place of one that needs less, if that is worth a turn."""
    runs = [Run(replace(SHAPES[0], steps=steps), 0) for steps in (900, 500, 700)]
    queue = RunQueue([Assignment(number, run) for number, run in enumerate(runs)], lambda *_: 1)
    for name in "ab":
        opened(queue, name)
    assert [admitted(queue, name, 1) for name in "ab"] == [[0], [2]]  # 900 and 700; 500 waits
    training, turn = Request(), Request(hand_back=True)
    for name, seconds_left, request in (("a", 9.0, training), ("b", 4.0, training), ("b", 2.5, turn)):
        queue.report(name, Report(seconds_left=seconds_left, seconds_per_step=0.01))  # the other needs 5 s
        assert queue.next(Seat(name)) == request
    queue.report("b", Report(saved=saved([runs[2]], 1), free=1))
    request = queue.next(Seat("b"))
    assert request is not None
    assert [each.number for each in request.admit] == [1]


def test_workers_wait_for_a_disk_that_is_slower_than_they_are():
    queue, reporting = worker_that_reports_often()
    reporting.join(0.3)
    assert reporting.is_alive()
    waiting = list(queue.events.queue)
    assert sum(isinstance(event.what, Report) and event.what.has_states for event in waiting) == 3
    while reporting.is_alive() or not queue.events.empty():
        queue.written(queue.events.get(timeout=10))


def test_a_worker_that_waits_for_the_disk_can_be_stopped():
    queue, reporting = worker_that_reports_often()
    queue.stop()
    reporting.join(10)
    assert not reporting.is_alive()


def worker_that_reports_often() -> tuple[RunQueue, threading.Thread]:
    """A queue of one run, and a thread that reports more checkpoints of it than may wait to be written."""
    given = assignments(1, SHAPES[0])
    queue = RunQueue(given, lambda *_: 1)
    opened(queue, "core 0")
    admitted(queue, "core 0", 1)
    thread = threading.Thread(target=_report_often, args=(queue, given[0].run), daemon=True)
    thread.start()
    return queue, thread


def _report_often(queue: RunQueue, run: Run) -> None:
    for version in range(10):
        queue.report("core 0", Report(saved=saved([run], version)))
