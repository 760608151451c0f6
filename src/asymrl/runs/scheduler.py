"""The scheduler: the queue of runs by shape, which pool holds which runs, and what happens to runs that are lost."""

from __future__ import annotations

import collections
import functools
import queue
import threading
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from asymrl.envs.surroundings import Surroundings
from asymrl.learners.state import numbers_read
from asymrl.runs.events import Broken, Checkpointed, Event, Failed, Noted, Retired, Stopped
from asymrl.runs.lanes import Assignment
from asymrl.runs.memory_plan import MemoryPlan
from asymrl.runs.wording import plural
from asymrl.settings import Settings

MOST_LOSSES = 5  # times that a run may lose its pool before it counts as broken
MOST_UNWRITTEN = 3  # saved states of a pool that may wait to be written
TURN_SECONDS, TURN_SHARE = 2.0, 0.02  # a run steps aside for one that needs this much longer

LanesOf = Callable[[Settings, int, int], int]
"""How many lanes a pool should have, given its shape and the waiting runs: of that shape, and of all shapes."""


class Order(NamedTuple):
    """What a pool is opened for."""

    shape: Settings
    lanes: int
    surroundings: Surroundings | None = None
    """What another process needs to make the world. None: the pool is in this process."""


class PoolEvent(NamedTuple):
    """An event, and the pool that it comes from."""

    pool: str
    event: Event


@dataclass
class _Holding:
    """What a pool holds."""

    order: Order | None = None
    place: Hashable = None
    is_opening: bool = False
    """Whether it still compiles, so that its first runs wait in the queue."""
    runs: dict[int, Assignment] = field(default_factory=dict)


class Scheduler:
    """The queue of runs, shared by all pools. Safe to use from several threads."""

    def __init__(
        self,
        assignments: Iterable[Assignment],
        lanes_of: LanesOf,
        *,
        one_pool_per_shape: bool,
        plan: MemoryPlan | None = None,
        surroundings: Surroundings | None = None,
    ):
        """`one_pool_per_shape`: whether a device serves a shape with one pool only, as an accelerator does.

        With a `plan`, pools get no more lanes than fit into memory, and wait while none fits.
        """
        self.events: queue.Queue[PoolEvent] = queue.Queue()
        self._surroundings = surroundings
        self._lanes_of, self._one_pool_per_shape, self._plan = lanes_of, one_pool_per_shape, plan
        self._waiting: dict[Settings, collections.deque[Assignment]] = {}
        for each in sorted(assignments, key=_longest_first):
            self._waiting.setdefault(each.run.settings.shape(), collections.deque()).append(each)
        self._most_lanes: dict[Settings, int] = {}
        self._holdings: dict[str, _Holding] = collections.defaultdict(_Holding)
        self._unwritten: collections.Counter[str] = collections.Counter()  # states that pools have handed over
        self._losses: collections.Counter[int | Settings] = collections.Counter()  # of runs and of shapes
        self._last_failure = "nothing is left to train it on"
        self._seconds_left: dict[int, float] = {}  # of runs, when they were last in a pool with one lane
        self._seconds_per_step: dict[Settings, float] = {}
        self._stopped = False
        self._unwanted: frozenset[int] = frozenset()
        self._changed = threading.Condition(threading.RLock())

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def is_stopped(self) -> bool:
        return self._stopped

    def stop_runs(self, numbers: Iterable[int]) -> None:
        """Stops these runs: waiting ones at once, those in lanes when their pool checks next."""
        with self._changed:
            self._unwanted |= set(numbers)
            waiting = [each.number for queue in self._waiting.values() for each in queue]
            if dropped := tuple(number for number in waiting if number in self._unwanted):
                for shape, queue in self._waiting.items():
                    remaining = [each for each in queue if each.number not in self._unwanted]
                    self._waiting[shape] = collections.deque(remaining)
                self.events.put(PoolEvent("", Stopped(dropped)))
            self._changed.notify_all()

    def unwanted(self) -> frozenset[int]:
        """The runs that were stopped."""
        return self._unwanted

    def is_waiting(self) -> bool:
        """Whether runs wait for a pool."""
        with self._changed:
            return any(self._waiting.values())

    def held_runs(self) -> int:
        """How many runs the pools hold."""
        with self._changed:
            return sum(len(holding.runs) for holding in self._holdings.values())

    def holds_runs(self) -> bool:
        return self.held_runs() > 0

    def pick(self, pool: str, place: Hashable) -> Order | None:
        """What the pool should serve next, at this place; None if there is nothing left to do.

        Waits while other pools have runs that could come back.
        """
        with self._changed:
            holding = self._holdings[pool]
            holding.place, holding.order, holding.is_opening = place, None, False
            while not self._stopped:
                for shape in self._waiting:
                    count = self._unclaimed(shape)
                    if count > 0 and not self._is_served(shape, place):
                        lanes = self._lanes_of(shape, count, sum(map(len, self._waiting.values())))
                        lanes = self._fitting(shape, place, max(1, min(lanes, self._most_lanes.get(shape, lanes))))
                        if lanes:
                            holding.order = Order(shape, lanes, self._surroundings)
                            holding.is_opening = True
                            return holding.order
                is_over = not any(self._waiting.values()) and not any(each.runs for each in self._holdings.values())
                if is_over:
                    break
                self._changed.wait(timeout=1.0)
            return None

    def _fitting(self, shape: Settings, place: Hashable, lanes: int) -> int:
        """This many lanes, or fewer if no more fit beside other pools; 0 if the pool has to wait for room."""
        if (plan := self._plan) is None:
            return lanes
        memory = plan.memory_at(place)
        beside = [each.order for each in self._holdings.values() if plan.memory_at(each.place) == memory]
        used = sum(order.lanes * plan.bytes_of(order.shape) for order in beside if order is not None)
        room = plan.lanes(shape, used)
        # A run that does not fit even alone is tried: waiting would not make room for it.
        return lanes if room is None else min(lanes, room if used else max(room, 1))

    def _unclaimed(self, shape: Settings) -> int:
        """How many runs of this shape wait beyond those that pools which still compile were opened for."""
        opening = [each.order for each in self._holdings.values() if each.is_opening]
        claimed = sum(order.lanes for order in opening if order is not None and order.shape == shape)
        return len(self._waiting[shape]) - claimed

    def _is_served(self, shape: Settings, place: Hashable) -> bool:
        return self._one_pool_per_shape and any(
            each.order is not None and each.order.shape == shape and each.place == place
            for each in self._holdings.values()
        )

    def take(self, pool: str, count: int) -> list[Assignment]:
        """At most `count` waiting runs of the shape that the pool serves."""
        with self._changed:
            holding = self._holdings[pool]
            assert holding.order is not None
            holding.is_opening = False
            waiting = self._waiting[holding.order.shape]
            if self._is_tail(holding.order.shape):  # the longest first, so that all are over together
                waiting = self._waiting[holding.order.shape] = collections.deque(
                    sorted(waiting, key=self._estimate, reverse=True)
                )
            taken = [waiting.popleft() for _ in range(min(count, len(waiting)))]
            holding.runs.update({each.number: each for each in taken})
            self._changed.notify_all()
            return taken

    def should_yield(self, pool: str, seconds_left: float, seconds_per_step: float) -> bool:
        """Whether a waiting run needs longer than the pool's only run, which needs `seconds_left`; cores ask this.

        Only once no more runs wait than pools serve their shape: before that, runs are finished one after the other.
        """
        with self._changed:
            order = self._holdings[pool].order
            assert order is not None
            for number in self._holdings[pool].runs:
                self._seconds_left[number] = seconds_left
            self._seconds_per_step[order.shape] = seconds_per_step
            if not self._is_tail(order.shape):
                return False
            longest = max(map(self._estimate, self._waiting[order.shape]))
            return longest > seconds_left + max(TURN_SECONDS, TURN_SHARE * seconds_left)

    def _is_tail(self, shape: Settings) -> bool:
        pools = sum(each.order is not None and each.order.shape == shape for each in self._holdings.values())
        return 0 < len(self._waiting[shape]) <= pools

    def _estimate(self, assignment: Assignment) -> float:
        """Seconds until a run is over, as last measured, or at the speed of others of its shape."""
        settings = assignment.run.settings
        by_steps = settings.steps * self._seconds_per_step.get(settings.shape(), 0.0)
        return self._seconds_left.get(assignment.number, by_steps)

    def requeue(self, pool: str) -> None:
        """Puts the runs of the pool back into the queue, as they were last saved."""
        with self._changed:
            holding = self._holdings[pool]
            assert holding.order is not None
            self._waiting[holding.order.shape].extend(holding.runs.values())
            holding.runs.clear()
            self._changed.notify_all()

    def report(self, pool: str, event: Event) -> None:
        """Passes on an event, and updates the runs that the pool holds."""
        with self._changed:
            if getattr(event, "saved", None) is not None:
                # If the disk is slower than the pools, they wait rather than fill the memory with states.
                while self._unwritten[pool] >= MOST_UNWRITTEN and not self._stopped:
                    self._changed.wait(timeout=1.0)
                self._unwritten[pool] += 1
            runs = self._holdings[pool].runs
            if isinstance(event, Retired | Failed):
                runs.pop(event.number, None)
            elif isinstance(event, Stopped):
                for number in event.numbers:
                    runs.pop(number, None)
            elif isinstance(event, Checkpointed):
                by_run = {each.run: each for each in runs.values()}
                for row, run in enumerate(event.saved.runs):
                    assignment = by_run[run]
                    runs[assignment.number] = assignment._replace(saved=event.saved.only([row]))
            self._changed.notify_all()
        self.events.put(PoolEvent(pool, event))

    def handled(self, pool_event: PoolEvent) -> None:
        """The states of an event were written."""
        if getattr(pool_event.event, "saved", None) is not None:
            with self._changed:
                self._unwritten[pool_event.pool] -= 1
                self._changed.notify_all()

    def close(self, pool: str) -> None:
        """The pool has nothing left to do, or was stopped after its last checkpoint."""
        with self._changed:
            holding = self._holdings[pool]
            holding.runs.clear()
            holding.order, holding.is_opening = None, False
            self._changed.notify_all()

    def fail(self, pool: str, reason: str, *, out_of_memory: bool) -> None:
        """The pool could not go on. If memory was short, its runs are tried again in half as many lanes."""
        with self._changed:
            order, runs = self._holdings[pool].order, list(self._holdings[pool].runs.values())
            assert order is not None
            self._last_failure = reason
            self.close(pool)
            if out_of_memory and order.lanes > 1:
                self._most_lanes[order.shape] = min(order.lanes // 2, self._most_lanes.get(order.shape, order.lanes))
                self._waiting[order.shape].extendleft(reversed(runs))
                message = (
                    f"{order.lanes} runs of {order.shape.world} {order.shape.method} do not fit; trying half of them"
                )
                self.events.put(PoolEvent(pool, Noted(message)))
                return
            if not runs:  # not even the program could be compiled
                self._break_waiting(pool, order.shape, reason)
            else:
                self.events.put(PoolEvent(pool, Broken(tuple(each.number for each in runs), reason)))

    def lose(self, pool: str, reason: str) -> bool:
        """The pool is gone, with its process or its machine. Its runs go on elsewhere from where they were saved.

        Returns whether it had something to do. If not, its place is at fault rather than a run or a shape.
        """
        with self._changed:
            order, runs = self._holdings[pool].order, list(self._holdings[pool].runs.values())
            self._last_failure = reason
            self.close(pool)
            if order is None:
                return False
            if not runs:  # lost while it was compiled
                self._losses[order.shape] += 1
                if self._losses[order.shape] > MOST_LOSSES:
                    self._break_waiting(pool, order.shape, _often_lost(reason))
                return True
            self._losses.update(each.number for each in runs)
            again = [each for each in runs if self._losses[each.number] <= MOST_LOSSES]
            broken = tuple(each.number for each in runs if self._losses[each.number] > MOST_LOSSES)
            self._waiting[order.shape].extendleft(reversed(again))
            if again:
                what = f"{pool} with {plural('run', len(runs))} of {order.shape.world} {order.shape.method}"
                self.events.put(PoolEvent(pool, Noted(f"{what} was lost ({reason}); trying again")))
            if broken:
                self.events.put(PoolEvent(pool, Broken(broken, _often_lost(reason))))
            return True

    def _break_waiting(self, pool: str, shape: Settings, reason: str) -> None:
        """Reports the waiting runs of this shape as broken."""
        numbers = tuple(each.number for each in self._waiting[shape])
        self._waiting[shape].clear()
        if numbers:  # another pool for the same program may have reported them already
            self.events.put(PoolEvent(pool, Broken(numbers, reason)))

    def give_up(self) -> None:
        """No pool is left, as every device is gone: all unfinished runs are broken."""
        with self._changed:
            runs = [each for holding in self._holdings.values() for each in holding.runs.values()]
            for pool in self._holdings:
                self.close(pool)
            for waiting in self._waiting.values():
                runs += waiting
                waiting.clear()
            if runs:
                self.events.put(PoolEvent("", Broken(tuple(each.number for each in runs), self._last_failure)))


def _often_lost(reason: str) -> str:
    return f"lost {MOST_LOSSES + 1} times, the last time: {reason}"


def _longest_first(assignment: Assignment) -> tuple[bool, int, int]:
    """Runs that have begun come first, then the longest, so that none is left alone at the end.

    Of equally long ones those come first whose actor and critic read the most numbers: their steps take longer.
    """
    settings = assignment.run.settings
    return assignment.saved is None, -settings.steps, -_numbers_read(settings.shape())


@functools.lru_cache(maxsize=10_000)
def _numbers_read(shape: Settings) -> int:
    try:
        return numbers_read(shape)
    except ValueError:  # its world cannot be made; the pool that opens for it says why
        return 0
