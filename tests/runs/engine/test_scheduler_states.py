"""The queue that pools share: every run is over or broken exactly once, whatever happens to the pools."""

from __future__ import annotations

import threading
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from asymrl.runs import scheduler as scheduler_module
from asymrl.runs.events import Broken, Checkpointed, Retired
from asymrl.runs.runs import Run
from asymrl.runs.scheduler import PoolEvent, Scheduler
from asymrl.settings import Settings
from tests.runs.engine.queued_runs import SHAPES, assignments, events, retired, saved


class WouldWaitError(Exception):
    """The pool would wait for runs that others may give back."""


class Impatient(threading.Condition):
    def wait(self, timeout: float | None = None) -> bool:
        raise WouldWaitError


class PoolsOfAScheduler(RuleBasedStateMachine):
    """Three pools at two places, which take runs, finish them, fail and get lost in any order."""

    pools = st.sampled_from(["a", "b", "c"])

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(scheduler_module, "MOST_LOSSES", 1)
        self.all = assignments(4, *SHAPES)
        self.scheduler = Scheduler(self.all, lambda shape, waiting, of_all: min(4, waiting), one_pool_per_shape=True)
        self.scheduler._changed = Impatient(threading.RLock())
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
            order = self.scheduler.pick(pool, self.place[pool])
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
        for given in self.scheduler.take(pool, count):
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
        self.scheduler.report(pool, retired(number))

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data())
    def checkpoint(self, data: st.DataObject):
        pool = data.draw(st.sampled_from([pool for pool, runs in self.held.items() if runs]))
        self.checkpoints += 1
        self.version |= dict.fromkeys(self.held[pool], self.checkpoints)
        event = Checkpointed(saved(list(self.held[pool].values()), self.checkpoints))
        self.scheduler.report(pool, event)
        self.scheduler.handled(PoolEvent(pool, event))  # the disk is fast

    @precondition(lambda self: self.orders)
    @rule(data=st.data(), out_of_memory=st.booleans())
    def fail(self, data: st.DataObject, out_of_memory: bool):
        pool = self.busy_pool(data)
        order = self.orders.pop(pool)
        if out_of_memory and order.lanes > 1:
            self.most_lanes[order.shape] = min(order.lanes // 2, self.most_lanes.get(order.shape, 4))
        self.held[pool] = {}
        self.scheduler.fail(pool, "why", out_of_memory=out_of_memory)

    @rule(pool=pools)
    def lose(self, pool: str):
        was_busy = self.orders.pop(pool, None) is not None
        for number in self.held[pool]:
            self.losses[number] = self.losses.get(number, 0) + 1
        self.held[pool] = {}
        assert self.scheduler.lose(pool, "why") == was_busy

    @precondition(lambda self: self.orders)
    @rule(data=st.data())
    def close(self, data: st.DataObject):
        """A pool ends when its lanes are empty."""
        pool = self.busy_pool(data)
        if not self.held[pool]:
            del self.orders[pool]
            self.scheduler.close(pool)

    @invariant()
    def every_run_is_in_one_place(self):
        for event in events(self.scheduler):
            if isinstance(event, Retired):
                self.over.append(event.number)
            elif isinstance(event, Broken):
                assert event.numbers
                self.over.extend(event.numbers)
        waiting = [each.number for queue in self.scheduler._waiting.values() for each in queue]
        held = [number for runs in self.held.values() for number in runs]
        assert sorted(waiting + held + self.over) == list(range(len(self.all)))
        assert all(count <= scheduler_module.MOST_LOSSES for n, count in self.losses.items() if n not in self.over)
        assert self.scheduler.holds_runs() == bool(held)

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
                        self.scheduler.report(pool, retired(number))
                    del self.orders[pool]
                    self.scheduler.close(pool)
                    self.every_run_is_in_one_place()
        assert sorted(self.over) == list(range(len(self.all)))
        assert all(self.scheduler.pick(pool, self.place[pool]) is None for pool in self.place)


TestPoolsOfAScheduler = PoolsOfAScheduler.TestCase
TestPoolsOfAScheduler.settings = settings(max_examples=100, stateful_step_count=40)
