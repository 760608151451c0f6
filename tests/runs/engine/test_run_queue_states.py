"""The queue that workers share: every run is over or broken exactly once, whatever happens to the workers."""

from __future__ import annotations

import threading

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from asymrl.runs import run_queue as queue_module
from asymrl.runs.run_queue import Broken, RunQueue
from asymrl.runs.runs import Run
from asymrl.runs.worker import Failure, Order, Report, Request, Seat
from asymrl.settings import Settings
from tests.runs.engine.queued_runs import SHAPES, assignments, events, retired, saved

SEATS = {name: Seat(name, place) for name, place in (("a", 0), ("b", 0), ("c", 1))}


class WouldWaitError(Exception):
    """The worker would wait for runs that others may give back."""


class Impatient(threading.Condition):
    def wait(self, timeout: float | None = None) -> bool:
        raise WouldWaitError


class WorkersOfAQueue(RuleBasedStateMachine):
    """Three workers at two places, which open pools, finish runs, hand them back, fail and get lost in any order."""

    names = st.sampled_from(sorted(SEATS))

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(queue_module, "MOST_LOSSES", 1)
        self.all = assignments(4, *SHAPES)
        self.queue = RunQueue(self.all, lambda shape, waiting, of_all: min(4, waiting), one_pool_per_shape=True)
        self.queue._changed = Impatient(threading.RLock())
        self.requests: dict[str, Request] = {}  # that are not answered yet
        self.orders: dict[str, Order] = {}
        self.held: dict[str, dict[int, Run]] = {name: {} for name in SEATS}
        self.version: dict[int, int] = {}  # of the newest state of each run
        self.losses: dict[int, int] = {}
        self.most_lanes: dict[Settings, int] = {}
        self.over: list[int] = []
        self.checkpoints = 0

    def ask_for(self, name: str) -> bool:
        """Whether there is something to do."""
        try:
            request = self.queue.next(SEATS[name])
        except WouldWaitError:
            return False
        if request is None:
            assert len(self.over) == len(self.all)
            return False
        self.requests[name] = request
        if request.order is not None:
            assert 1 <= request.order.lanes <= self.most_lanes.get(request.order.shape, 4)
            # No other pool at this place serves the shape.
            others = [order for other, order in self.orders.items() if SEATS[other].place == SEATS[name].place]
            assert request.order.shape not in [order.shape for order in others]
            self.orders[name] = request.order
        for given in request.admit:
            assert given.run.settings.shape() == self.orders[name].shape
            version = None if given.saved is None else int(given.saved.arrays["updates"][0])
            assert version == self.version.get(given.number)  # it goes on from its newest state
            self.held[name][given.number] = given.run
        if name in self.orders:
            assert len(self.held[name]) <= self.orders[name].lanes
        return True

    def free(self, name: str) -> int:
        return self.orders[name].lanes - len(self.held[name])

    def saved(self, name: str) -> Report:
        self.checkpoints += 1
        self.version |= dict.fromkeys(self.held[name], self.checkpoints)
        return Report(saved=saved([*self.held[name].values()], self.checkpoints)) if self.held[name] else Report()

    def answer_for(self, name: str, ended: set[int], *, saves: bool, left: float | None = None) -> None:
        """A report in which these runs are over."""
        request = self.requests.pop(name)
        report = Report()
        if request.hand_back:
            report = self.saved(name)
            self.held[name] = {}
        elif request.order is None and not request.end:
            self.held[name] = {number: run for number, run in self.held[name].items() if number not in ended}
            report = (self.saved(name) if saves else report)._replace(retired=retired(*ended).retired)
            report = report._replace(seconds_left=left, seconds_per_step=0.01)
        free = self.free(name)
        if request.end:
            assert not self.held[name]
            del self.orders[name]
        self.queue.report(name, report._replace(free=free))

    @rule(name=names)
    def ask(self, name: str):
        if name not in self.requests:
            self.ask_for(name)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), saves=st.booleans(), left=st.sampled_from([None, 0.0, 100.0]))
    def answer(self, data: st.DataObject, saves: bool, left: float | None):
        name = data.draw(st.sampled_from(sorted(self.requests)))
        held = sorted(self.held[name])
        ended = set(data.draw(st.lists(st.sampled_from(held), unique=True))) if held else set()
        self.answer_for(name, ended, saves=saves, left=left if self.orders[name].lanes == 1 else None)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), out_of_memory=st.booleans())
    def fail(self, data: st.DataObject, out_of_memory: bool):
        name = data.draw(st.sampled_from(sorted(self.requests)))
        del self.requests[name]
        order = self.orders.pop(name)
        if out_of_memory and order.lanes > 1:
            self.most_lanes[order.shape] = min(order.lanes // 2, self.most_lanes.get(order.shape, 4))
        self.held[name] = {}
        self.queue.report(name, Report(failure=Failure("why", out_of_memory)))

    @rule(name=names)
    def lose(self, name: str):
        self.requests.pop(name, None)
        was_busy = self.orders.pop(name, None) is not None
        for number in self.held[name]:
            self.losses[number] = self.losses.get(number, 0) + 1
        self.held[name] = {}
        assert self.queue.lose(name, "why") == was_busy

    @invariant()
    def every_run_is_in_one_place(self):
        for event in events(self.queue):
            if isinstance(event, Report):
                self.over.extend(each.number for each in event.retired)
            elif isinstance(event, Broken):
                assert event.numbers
                self.over.extend(event.numbers)
        waiting = [each.number for runs in self.queue._waiting.values() for each in runs]
        held = [number for runs in self.held.values() for number in runs]
        assert sorted(waiting + held + self.over) == list(range(len(self.all)))
        assert all(count <= queue_module.MOST_LOSSES for n, count in self.losses.items() if n not in self.over)
        assert self.queue.held_runs() == len(held)

    def teardown(self):
        """Nothing more goes wrong, and the workers finish everything."""
        try:
            self.finish()
        finally:
            self.patch.undo()

    def finish(self):
        busy = True
        while busy:
            busy = False
            for name in SEATS:
                if name in self.requests or self.ask_for(name):
                    busy = True
                    self.answer_for(name, set(self.held[name]), saves=False)
                    self.every_run_is_in_one_place()
        assert sorted(self.over) == list(range(len(self.all)))
        assert all(self.queue.next(seat) is None for seat in SEATS.values())


TestWorkersOfAQueue = WorkersOfAQueue.TestCase
TestWorkersOfAQueue.settings = settings(max_examples=100, stateful_step_count=40)
