"""The queue of runs by shape: which worker trains which of them next, and what becomes of runs that are lost."""

from __future__ import annotations

import collections
import functools
import queue
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from asymrl.envs.surroundings import Surroundings
from asymrl.learners.state import numbers_read
from asymrl.runs.devices import LanesOf, MemoryBudget
from asymrl.runs.lanes import Assignment
from asymrl.runs.wording import plural
from asymrl.runs.worker import Failure, Order, Report, Request, Seat
from asymrl.settings import Settings

MOST_LOSSES = 5  # times that a run may lose its worker before it counts as broken
MOST_UNWRITTEN = 3  # reports of a worker with states that may wait to be written
TURN_SECONDS, TURN_SHARE = 2.0, 0.02  # a run steps aside for one that needs this much longer


class Stopped(NamedTuple):
    """Runs that waited were stopped. Those in a lane are retired by their worker."""

    numbers: tuple[int, ...]


class Broken(NamedTuple):
    """Runs could not be trained."""

    numbers: tuple[int, ...]
    reason: str


class Noted(NamedTuple):
    """Something that the user may want to know about a worker that has ended its pool."""

    message: str


class Event(NamedTuple):
    """What happened to a worker, to be written down and shown."""

    worker: str
    what: Order | Report | Stopped | Broken | Noted


@dataclass
class _Holding:
    """What a worker holds."""

    order: Order | None = None
    memory: object = None
    place: object = None
    is_opening: bool = False
    """Whether it still compiles, so that its first runs wait in the queue."""
    free: int = 0
    """Lanes without a run."""
    runs: dict[int, Assignment] = field(default_factory=dict)
    request: Request = field(default_factory=Request)
    """The last one."""
    seconds_left: float | None = None
    """Of the run in its only lane."""


class RunQueue:
    """The queue of runs, shared by all workers. Safe to use from several threads."""

    def __init__(
        self,
        assignments: Iterable[Assignment],
        lanes_of: LanesOf,
        *,
        one_pool_per_shape: bool = False,
        saves: bool = True,
        memory: MemoryBudget | None = None,
        surroundings: Surroundings | None = None,
    ):
        """`one_pool_per_shape`: whether each place serves a shape with one pool only, as an accelerator does.

        `saves`: whether runs that leave their lanes can go on later. With a `memory`, pools of runs that need much get
        no more lanes than fit, and wait while none fits.
        """
        self.events: queue.Queue[Event] = queue.Queue()
        self._surroundings, self._saves, self._memory = surroundings, saves, memory
        self._lanes_of, self._one_pool_per_shape = lanes_of, one_pool_per_shape
        self._waiting: dict[Settings, collections.deque[Assignment]] = {}
        for each in sorted(assignments, key=_longest_first):
            self._waiting.setdefault(each.run.settings.shape(), collections.deque()).append(each)
        self._most_lanes: dict[Settings, int] = {}
        self._holdings: dict[str, _Holding] = collections.defaultdict(_Holding)
        self._unwritten: collections.Counter[str] = collections.Counter()  # reports with states, by worker
        self._losses: collections.Counter[int | Settings] = collections.Counter()  # of runs and of shapes
        self._last_failure = "nothing is left to train it on"
        self._seconds_left: dict[int, float] = {}  # of runs, when they were last in a pool with one lane
        self._seconds_per_step: dict[Settings, float] = {}
        self._stopped = False
        self._unwanted: frozenset[int] = frozenset()
        self._changed = threading.Condition(threading.RLock())

    # What the training asks.

    def stop(self) -> None:
        """Lets all workers hand back what they hold."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def is_stopped(self) -> bool:
        return self._stopped

    def stop_runs(self, numbers: Iterable[int]) -> None:
        """Stops these runs: waiting ones at once, those in lanes with the next call of their worker."""
        with self._changed:
            self._unwanted |= set(numbers)
            waiting = [each.number for queue in self._waiting.values() for each in queue]
            if dropped := tuple(number for number in waiting if number in self._unwanted):
                for shape, queue in self._waiting.items():
                    remaining = [each for each in queue if each.number not in self._unwanted]
                    self._waiting[shape] = collections.deque(remaining)
                self.events.put(Event("", Stopped(dropped)))
            self._changed.notify_all()

    def unwanted(self) -> frozenset[int]:
        """The runs that were stopped."""
        return self._unwanted

    def is_waiting(self) -> bool:
        """Whether runs wait for a lane."""
        with self._changed:
            return any(self._waiting.values())

    def held_runs(self) -> int:
        """How many runs the workers hold."""
        with self._changed:
            return sum(len(holding.runs) for holding in self._holdings.values())

    def is_over(self) -> bool:
        """Whether no worker will get anything to do."""
        with self._changed:
            return self._stopped or not (any(self._waiting.values()) or self.held_runs())

    def written(self, event: Event) -> None:
        """The states of an event were written."""
        if isinstance(event.what, Report) and event.what.has_states:
            with self._changed:
                self._unwritten[event.worker] -= 1
                self._changed.notify_all()

    def give_up(self) -> None:
        """No worker is left, as every device is gone: all unfinished runs are broken."""
        with self._changed:
            runs = [each for holding in self._holdings.values() for each in holding.runs.values()]
            for holding in self._holdings.values():
                self._close(holding)
            for waiting in self._waiting.values():
                runs += waiting
                waiting.clear()
            if runs:
                self.events.put(Event("", Broken(tuple(each.number for each in runs), self._last_failure)))

    # What workers ask.

    def next(self, seat: Seat) -> Request | None:
        """The next request for a worker; None if nothing is left to do.

        Waits while other workers have runs that could come back.
        """
        with self._changed:
            holding = self._holdings[seat.name]
            holding.place, holding.memory = seat.place, seat.memory
            if holding.order is not None:
                holding.request = self._go_on(holding.order, holding)
                return holding.request
            while not self.is_over():
                if (order := self._pick(seat)) is not None:
                    holding.order, holding.is_opening, holding.request = order, True, Request(order)
                    self.events.put(Event(seat.name, order))
                    return holding.request
                self._changed.wait(timeout=1.0)
            return None

    def _go_on(self, order: Order, holding: _Holding) -> Request:
        """The next request for a worker with a pool."""
        if self._stopped:
            return Request(hand_back=self._saves, end=True)
        if self._should_yield(order, holding):  # all runs should end together: the last one would leave cores idle
            return Request(hand_back=True)
        admitted = self._take(order, holding)
        if not holding.runs:
            return Request(end=True)
        return Request(admit=admitted, drop=self._unwanted & holding.runs.keys())

    def _pick(self, seat: Seat) -> Order | None:
        """What a worker should open a pool for now."""
        for shape in self._waiting:
            count = self._unclaimed(shape)
            if count > 0 and not self._is_served(shape, seat):
                lanes = self._lanes_of(shape, count, sum(map(len, self._waiting.values())))
                lanes = self._fitting(shape, seat, max(1, min(lanes, self._most_lanes.get(shape, lanes))))
                if lanes:
                    return Order(shape, lanes, self._surroundings)
        return None

    def _fitting(self, shape: Settings, seat: Seat, lanes: int) -> int:
        """This many lanes, or fewer if no more fit beside other pools; 0 if the pool has to wait for room."""
        if (memory := self._memory) is None:
            return lanes
        beside = [each.order for each in self._holdings.values() if each.memory == seat.memory]
        used = sum(order.lanes * memory.bytes_of(order.shape) for order in beside if order is not None)
        room = memory.lanes(shape, used)
        # A run that does not fit even alone is tried: waiting would not make room for it.
        return lanes if room is None else min(lanes, room if used else max(room, 1))

    def _unclaimed(self, shape: Settings) -> int:
        """How many runs of this shape wait beyond those that pools which still compile were opened for."""
        opening = [each.order for each in self._holdings.values() if each.is_opening]
        claimed = sum(order.lanes for order in opening if order is not None and order.shape == shape)
        return len(self._waiting[shape]) - claimed

    def _is_served(self, shape: Settings, seat: Seat) -> bool:
        return self._one_pool_per_shape and any(
            each.order is not None and each.order.shape == shape and each.place == seat.place
            for each in self._holdings.values()
        )

    def _take(self, order: Order, holding: _Holding) -> tuple[Assignment, ...]:
        """Waiting runs for the free lanes of a pool."""
        waiting = self._waiting[order.shape]
        if self._is_tail(order.shape):  # the longest first, so that all are over together
            waiting = collections.deque(sorted(waiting, key=self._estimate, reverse=True))
            self._waiting[order.shape] = waiting
        taken = tuple(waiting.popleft() for _ in range(min(holding.free, len(waiting))))
        holding.runs.update({each.number: each for each in taken})
        holding.free -= len(taken)
        self._changed.notify_all()
        return taken

    def _should_yield(self, order: Order, holding: _Holding) -> bool:
        """Whether a waiting run needs longer than the only run of a pool with one lane.

        Only once no more runs wait than pools serve their shape: before that, runs are finished one after the other.
        """
        if not self._saves or holding.seconds_left is None or not self._is_tail(order.shape):
            return False
        longest = max(map(self._estimate, self._waiting[order.shape]))
        return longest > holding.seconds_left + max(TURN_SECONDS, TURN_SHARE * holding.seconds_left)

    def _is_tail(self, shape: Settings) -> bool:
        pools = sum(each.order is not None and each.order.shape == shape for each in self._holdings.values())
        return 0 < len(self._waiting[shape]) <= pools

    def _estimate(self, assignment: Assignment) -> float:
        """Seconds until a run is over, as last measured, or at the speed of others of its shape."""
        settings = assignment.run.settings
        by_steps = settings.steps * self._seconds_per_step.get(settings.shape(), 0.0)
        return self._seconds_left.get(assignment.number, by_steps)

    def report(self, name: str, report: Report) -> None:
        """Passes on the report of a worker, and updates the runs that it holds."""
        with self._changed:
            holding = self._holdings[name]
            order = holding.order
            if order is None:  # given up meanwhile
                return
            if report.failure is not None:
                self._fail(name, report.failure)
                return
            if report.has_states:
                # If the disk is slower than the pools, they wait rather than fill the memory with states.
                while self._unwritten[name] >= MOST_UNWRITTEN and not self._stopped:
                    self._changed.wait(timeout=1.0)
                self._unwritten[name] += 1
            for each in (*report.retired, *report.failed):
                holding.runs.pop(each.number, None)
            if report.saved is not None:
                by_run = {each.run: each for each in holding.runs.values()}
                for row, run in enumerate(report.saved.runs):
                    number = by_run[run].number
                    holding.runs[number] = by_run[run]._replace(saved=report.saved.only([row]))
            holding.free, holding.is_opening, holding.seconds_left = report.free, False, report.seconds_left
            if report.seconds_left is not None:
                self._seconds_left |= dict.fromkeys(holding.runs, report.seconds_left)
                self._seconds_per_step[order.shape] = report.seconds_per_step
            self.events.put(Event(name, report))
            if holding.request.end:
                self._close(holding)
            elif holding.request.hand_back:
                self._waiting[order.shape].extend(holding.runs.values())
                holding.runs.clear()
            self._changed.notify_all()

    def _close(self, holding: _Holding) -> None:
        holding.runs.clear()
        holding.order, holding.is_opening, holding.seconds_left = None, False, None
        self._changed.notify_all()

    def _fail(self, name: str, failure: Failure) -> None:
        """A pool could not go on. If memory was short, its runs are tried again in half as many lanes."""
        holding = self._holdings[name]
        order, runs = holding.order, list(holding.runs.values())
        assert order is not None
        self._last_failure = failure.reason
        self._close(holding)
        if failure.out_of_memory and order.lanes > 1:
            self._most_lanes[order.shape] = min(order.lanes // 2, self._most_lanes.get(order.shape, order.lanes))
            self._waiting[order.shape].extendleft(reversed(runs))
            message = f"{order.lanes} runs of {order.shape.world} {order.shape.method} do not fit; trying half of them"
            self.events.put(Event(name, Noted(message)))
        elif runs:
            self.events.put(Event(name, Broken(tuple(each.number for each in runs), failure.reason)))
        else:  # not even the program could be compiled
            self._break_waiting(name, order.shape, failure.reason)

    def lose(self, name: str, reason: str) -> bool:
        """A worker is gone, with its process or its machine. Its runs go on elsewhere from where they were saved.

        Returns whether it had something to do. If not, its place is at fault rather than a run or a shape.
        """
        with self._changed:
            holding = self._holdings[name]
            order, runs = holding.order, list(holding.runs.values())
            self._last_failure = reason
            self._close(holding)
            if order is None:
                return False
            if not runs:  # lost while it was compiled
                self._losses[order.shape] += 1
                if self._losses[order.shape] > MOST_LOSSES:
                    self._break_waiting(name, order.shape, _often_lost(reason))
                return True
            self._losses.update(each.number for each in runs)
            again = [each for each in runs if self._losses[each.number] <= MOST_LOSSES]
            broken = tuple(each.number for each in runs if self._losses[each.number] > MOST_LOSSES)
            self._waiting[order.shape].extendleft(reversed(again))
            if again:
                what = f"{name} with {plural('run', len(runs))} of {order.shape.world} {order.shape.method}"
                self.events.put(Event(name, Noted(f"{what} was lost ({reason}); trying again")))
            if broken:
                self.events.put(Event(name, Broken(broken, _often_lost(reason))))
            return True

    def _break_waiting(self, name: str, shape: Settings, reason: str) -> None:
        """Reports the waiting runs of this shape as broken."""
        numbers = tuple(each.number for each in self._waiting[shape])
        self._waiting[shape].clear()
        if numbers:  # another pool for the same program may have reported them already
            self.events.put(Event(name, Broken(numbers, reason)))


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
