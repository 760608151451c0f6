"""A pool: one program on one device, with lanes in which runs train."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from asymrl.learners.numbers import Numbers, numbers_of
from asymrl.learners.program import LaneError, Program, Trainer
from asymrl.learners.state import RunState
from asymrl.runs.arrays import SavedRuns, joined
from asymrl.runs.lanes import (
    Assignment,
    Failed,
    Lane,
    Narrower,
    Retired,
    Snapshot,
    blank_states,
    gather,
    narrower_width,
    probe_arrays,
    scatter,
)
from asymrl.runs.states import from_saved, key_kind, saved_problem, to_arrays, with_arrays
from asymrl.runs.tables import STOPPED, TRAINING, RunResult
from asymrl.settings import Settings

FIRST_UPDATES = 4  # in the first call, before anything is known about the speed
MOST_UPDATES = 100_000  # in one call
ADMITTED_TOGETHER = 16  # runs started in one call, which is padded to this size: each size compiles separately
WORTH_SECONDS = 20.0  # a narrower program must be expected to save this; it is compiled while the wider one goes on


class Pool:
    """Runs of one shape that train together on one device."""

    def __init__(self, program: Program, lanes: int, device: Any, call_seconds: float = 2.0):
        """Compiles the program for this many lanes. `call_seconds`: how long one call of it should take."""
        self.program, self.device, self._call_seconds = program, device, call_seconds
        self.lanes: list[Lane | None] = [None] * lanes
        self._trainer: Trainer = program.open(lanes, device)
        self._states: RunState | None = None
        self._numbers: Numbers | None = None
        self._updates = FIRST_UPDATES
        self._calls, self._gained = 0, np.zeros(0)
        self._last_updates = FIRST_UPDATES  # of the last call
        self._narrower: Narrower | None = None
        self._failed: list[Failed] = []
        self.snapshot: Snapshot | None = None

    @property
    def free(self) -> int:
        """Lanes without a run."""
        return self.lanes.count(None)

    @property
    def is_empty(self) -> bool:
        return self.free == len(self.lanes)

    @property
    def is_single(self) -> bool:
        """Whether it has only one lane, as on a core."""
        return len(self.lanes) == 1

    def clear(self) -> None:
        """Takes all runs out of their lanes without saving them."""
        self.lanes = [None] * len(self.lanes)

    def admit(self, assignments: Sequence[Assignment]) -> None:
        """Puts runs into free lanes, except those whose saved state does not fit their settings: see `failed`."""
        together = min(len(self.lanes), ADMITTED_TOGETHER)
        for i in range(0, len(assignments), together):
            part = assignments[i : i + together]
            free = [lane for lane, there in enumerate(self.lanes) if there is None][: len(part)]
            new = [each for each in part if each.saved is None]
            old = [each for each in part if each.saved is not None and not self._refuses(each)]
            if new:
                seeds = [each.run.seed for each in new]
                padded = np.asarray(seeds + seeds[:1] * (together - len(seeds)), np.uint32)
                states = with_arrays(self.program.start(padded), [each.networks or {} for each in new])
                self._put(states, new, free[: len(new)])
            if old:
                saved = joined([each.saved for each in old if each.saved is not None])
                rows = [*range(len(old)), *[0] * (together - len(old))]
                self._put(from_saved(self.program, saved.only(rows)), old, free[len(new) :][: len(old)])
        if self.is_empty:
            return
        self._numbers = self._lane_numbers()
        assert self._states is not None
        self.snapshot = Snapshot.of(self._states)

    def _refuses(self, assignment: Assignment) -> bool:
        """Whether the saved state of a run does not fit its settings; `failed` says so."""
        assert assignment.saved is not None
        if problem := saved_problem(self.program, assignment.saved):
            reason = f"its saved state does not fit its settings: {problem}"
            self._failed.append(Failed(assignment.number, reason, None))
        return problem is not None

    def _put(self, states: RunState, assignments: Sequence[Assignment], lanes: list[int]) -> None:
        """Puts the states of these runs into lanes; further states are padding."""
        arrays, static = eqx.partition(states, eqx.is_array)
        arrays = jax.device_put(arrays, self.device)
        if len(lanes) == len(self.lanes):
            self._states = eqx.combine(arrays, static)
        else:
            if self._states is None:
                self._states = eqx.combine(blank_states(arrays, len(self.lanes), self.device), static)
            there = arrays.updates.shape[0]
            rows = np.full(there, len(self.lanes), np.int32)  # beyond the last lane: dropped
            rows[: len(lanes)] = lanes
            self._states = eqx.combine(scatter(eqx.filter(self._states, eqx.is_array), arrays, rows), static)
        for lane, assignment in zip(lanes, assignments, strict=True):
            self.lanes[lane] = Lane.of(assignment)

    def _lane_numbers(self) -> Numbers:
        """The numbers of each lane; a lane without a run has no steps to train."""
        some = next(lane for lane in self.lanes if lane is not None)
        each = [_numbers((lane or some).run.settings) for lane in self.lanes]
        numbers = jax.tree.map(lambda *leaves: np.stack(leaves), *each)
        taken = np.asarray([lane is not None for lane in self.lanes])
        numbers = numbers.replaced(steps=np.where(taken, numbers.steps, 0).astype(np.int32))
        return jax.device_put(numbers, self.device)

    def advance(self) -> float:
        """Calls the program once, and sizes the next call so that it takes about `call_seconds`.

        Returns the seconds that this call took.
        """
        assert self._states is not None
        assert self._numbers is not None
        assert self.snapshot is not None
        self._measure_probes()
        updates, previous, begin = self._updates_now(), self.snapshot, time.monotonic()
        try:
            self._states = self._trainer.train(self._states, self._numbers, updates)
        except LaneError as failure:
            self._states = failure.states
            self.snapshot = Snapshot.of(self._states)
            self._take_out(failure)
            return 0.0
        self.snapshot = Snapshot.of(self._states)
        took = time.monotonic() - begin
        for lane in filter(None, self.lanes):
            lane.seconds += took
        # Counts the updates that were made: runs that end make fewer than requested.
        update_count = max(1, int((self.snapshot.updates - previous.updates).max()))
        self._gained = np.maximum(self.snapshot.timesteps - previous.timesteps, 0) / update_count
        self._calls, self._last_updates = self._calls + 1, update_count
        if self._calls > 1:  # the first call says little
            factor = np.clip(self._call_seconds / max(took, 1e-6), 0.25, 16.0)
            self._updates = int(np.clip(update_count * factor, 1, MOST_UPDATES))
        self._measure_probes()
        return took

    def _take_out(self, failure: LaneError) -> None:
        """Takes the run that cannot go on out of its lane; `failed` says what became of it."""
        there = self.lanes[failure.lane]
        if there is None:
            raise failure
        self._failed.append(Failed(there.number, failure.reason, self._saved([failure.lane])))
        self.lanes[failure.lane] = None
        if not self.is_empty:
            self._numbers = self._lane_numbers()

    def failed(self) -> list[Failed]:
        """The runs that could not go on since the last call."""
        failed, self._failed = self._failed, []
        return failed

    def retire(self, *, with_states: bool, unwanted: frozenset[int] = frozenset()) -> Iterator[Retired]:
        """Takes the runs that are over, or `unwanted`, out of their lanes."""
        if self.snapshot is None:
            return
        over = [
            i
            for i, lane in enumerate(self.lanes)
            if lane is not None and (lane.number in unwanted or lane.status(self.snapshot, i) != TRAINING)
        ]
        for lane in over:
            there = self.lanes[lane]
            assert there is not None
            if there.probe is not None:
                self._measure_probes(last=lane)
            saved = self._saved([lane]) if with_states else None
            result = there.result(self.snapshot, lane, self.device.device_kind)
            yield Retired(there.number, result._replace(status=STOPPED) if result.status == TRAINING else result, saved)
            self.lanes[lane] = None
        if over and not self.is_empty:
            self._numbers = self._lane_numbers()

    def results(self) -> dict[int, RunResult]:
        """The results so far of the runs in the lanes, by run number."""
        kind = self.device.device_kind
        if self.snapshot is None:
            return {}
        return {lane.number: lane.result(self.snapshot, i, kind) for i, lane in enumerate(self.lanes) if lane}

    def saved(self) -> SavedRuns | None:
        """Everything that is needed to go on with the runs elsewhere."""
        taken = [i for i, lane in enumerate(self.lanes) if lane is not None]
        return self._saved(taken) if taken else None

    def _saved(self, lanes: list[int]) -> SavedRuns:
        assert self._states is not None
        if len(lanes) == 1 and len(self.lanes) > 1:
            arrays = to_arrays(gather(self._states, np.asarray(lanes, np.int32)))
        else:
            arrays = {name: array[lanes] for name, array in to_arrays(self._states).items()}
        there = [lane for i in lanes if (lane := self.lanes[i]) is not None]
        if any(lane.probe for lane in there):
            arrays |= probe_arrays(there)
        seconds = tuple(lane.seconds for lane in there)
        return SavedRuns(tuple(lane.run for lane in there), arrays, key_kind(self._states), seconds)

    def _updates_now(self) -> int:
        """The updates of the next call, few enough that no probe is measured late."""
        updates = self._updates
        assert self.snapshot is not None
        for i, lane in enumerate(self.lanes):
            if lane is None or lane.probe is None or i >= len(self._gained) or not self._gained[i]:
                continue
            missing = lane.next_probe() - self.snapshot.timesteps[i]
            updates = min(updates, max(1, int(missing / self._gained[i])))
        return updates

    def _measure_probes(self, last: int | None = None) -> None:
        """Measures the probes that are due, and that of lane `last`, whose run is over."""
        assert self.snapshot is not None
        due = [
            i
            for i, lane in enumerate(self.lanes)
            if lane is not None and (i == last or lane.is_probe_due(int(self.snapshot.timesteps[i])))
        ]
        if not due:
            return
        probe = next(lane.probe for i in due if (lane := self.lanes[i]) is not None)
        assert probe is not None
        assert self._states is not None
        values = np.asarray(probe(self._states), np.float32)
        for i in due:
            lane = self.lanes[i]
            assert lane is not None
            now = int(self.snapshot.timesteps[i])
            if not lane.probe_timesteps or now > lane.probe_timesteps[-1]:
                lane.probe_timesteps.append(now)
                lane.probe_values.append(values[i])

    def narrow(self, took: float) -> None:
        """Goes on in a narrower program once a quarter of the lanes is free, if the time saved is worth it.

        Call it when no run waits for a lane. `took`: seconds of the last call. The narrower program is compiled in the
        background, and used once it is ready.
        """
        active = len(self.lanes) - self.free
        width = narrower_width(len(self.lanes), active)
        if self._narrower is not None:
            if self._narrower.is_ready and self._narrower.lanes >= active:
                self._move_into(self._narrower)
            return
        if width < len(self.lanes) and self.seconds_left(took) * (1 - width / len(self.lanes)) > WORTH_SECONDS:
            self._narrower = Narrower(self.program, width, self.device)

    def seconds_left(self, took: float) -> float:
        """Seconds until the slowest run is over, at the speed of the last call, which took `took` seconds."""
        assert self.snapshot is not None
        remaining_updates = [
            (lane.run.settings.steps - self.snapshot.timesteps[i]) / self._gained[i]
            for i, lane in enumerate(self.lanes)
            if lane is not None and self._gained[i] > 0  # others are in the middle of an update, or were just admitted
        ]
        return max(remaining_updates, default=0.0) * took / self._last_updates if self._calls > 1 else 0.0

    @property
    def is_timed(self) -> bool:
        """Whether its speed is known: the first call says little."""
        return self._calls > 1

    def seconds_per_step(self, took: float) -> float:
        """Seconds per step of all lanes together in the last call, which took `took` seconds."""
        return took / max(float(self._gained.sum()) * self._last_updates, 1.0)

    def _move_into(self, narrower: Narrower) -> None:
        self._narrower = None
        trainer = narrower.trainer()
        if trainer is None or self._states is None:
            return
        rows = [i for i, lane in enumerate(self.lanes) if lane is not None]
        padded = np.asarray(rows + rows[:1] * (narrower.lanes - len(rows)), np.int32)
        self._states = gather(self._states, padded)
        self._trainer.close()
        self._trainer = trainer
        self.lanes = [*(self.lanes[i] for i in rows), *[None] * (narrower.lanes - len(rows))]
        self._numbers, self.snapshot = self._lane_numbers(), Snapshot.of(self._states)
        self._gained = self._gained[padded]

    def bytes_needed(self) -> int | None:
        """Bytes of the states and of everything else that training needs, or None if the compiler does not say."""
        return self._trainer.bytes_needed()

    def close(self) -> None:
        """Releases what the program holds, such as environments that run in Python."""
        self._trainer.close()
        if self._narrower is not None:
            self._narrower.abandon()


@functools.lru_cache(maxsize=10_000)
def _numbers(settings: Settings) -> Numbers:
    return jax.tree.map(np.asarray, numbers_of(settings))
