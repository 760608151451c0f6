"""Runs flow through the lanes of a pool, and do not notice: refilled, interrupted, narrowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st

from asymrl.learners.program import program
from asymrl.learners.state import METRICS
from asymrl.runs import pool as pool_module, worker as worker_module
from asymrl.runs.arrays import SavedRuns, joined
from asymrl.runs.lanes import Assignment, Retired, narrower_width
from asymrl.runs.placement import Pace
from asymrl.runs.pool import Pool
from asymrl.runs.runs import Run
from asymrl.runs.tables import COMPLETE, FAILED, SOLVED
from asymrl.runs.worker import LocalWorker, Order, Report, Request
from tests.runs.engine.conftest import tiny

SHORT = tiny(steps=2000, log_points=10)
ACTED = METRICS.index("critic_loss")  # the metrics before it are decided by what was done alone
OFTEN = Pace(refresh_seconds=0.02, checkpoint_seconds=None)


def of_length(steps: int, seed: int) -> Run:
    return Run(replace(SHORT, steps=steps), seed)


# An update has at most 8 steps, so the shortest has more than 50 updates.
RUNS = [of_length(steps, seed) for seed, steps in enumerate((700, 2000, 450, 900, 1500, 450, 1100))]


class Call(NamedTuple):
    """A worker had so many free lanes and got these runs, and reported."""

    free: int
    numbers: set[int]
    report: Report


class Trained(list[Call]):
    """All calls of a training."""

    def retired(self) -> dict[int, Retired]:
        return {each.number: each for call in self for each in call.report.retired}

    def saved(self) -> list[SavedRuns]:
        return [call.report.saved for call in self if call.report.saved is not None]


def assignments(runs: Sequence[Run], **more: Any) -> list[Assignment]:
    return [Assignment(number, run, **more) for number, run in enumerate(runs)]


def train(lanes: int, given: Sequence[Assignment], pace: Pace = OFTEN, most_calls: int = 10**9) -> Trained:
    """Trains all of these runs, or hands back what is in lanes after so many calls."""
    worker = LocalWorker(jax.local_devices()[0], pace)
    opened = worker.call(Request(Order(SHORT.shape(), lanes)))
    return train_further(worker, opened, given, most_calls, pace.checkpoint_seconds is not None)


def train_further(
    worker: LocalWorker, last: Report, given: Sequence[Assignment], most_calls: int = 10**9, saves: bool = False
) -> Trained:
    calls, waiting = Trained(), list(given)
    while len(calls) < most_calls:
        admitted, waiting = waiting[: last.free], waiting[last.free :]
        free, last = last.free, worker.call(Request(admit=tuple(admitted)))
        calls.append(Call(free, {each.number for each in admitted}, last))
        if not last.results and not waiting:
            break
    calls.append(Call(0, set(), worker.call(Request(hand_back=saves, end=True))))
    return calls


def open_pool(lanes: int, pace: Pace = OFTEN) -> Pool:
    return Pool(program(SHORT), lanes, jax.local_devices()[0], pace.refresh_seconds)


def assert_same(one: Retired, other: Retired) -> None:
    """Bit for bit the same run."""
    assert one.result.curve is not None
    np.testing.assert_array_equal(one.result.curve, other.result.curve)  # pyright: ignore[reportArgumentType]
    assert one.saved is not None
    assert other.saved is not None
    assert one.saved.runs == other.saved.runs
    for name, array in one.saved.states().items():
        np.testing.assert_array_equal(array, other.saved.arrays[name], err_msg=name)


def assert_same_up_to_rounding(one: Retired, other: Retired) -> None:
    """The same actions, so that all counters and returns are equal; losses to six digits over 50 updates and more."""
    assert one.result.curve is not None
    assert other.result.curve is not None
    assert one.result.updates == other.result.updates > 50
    np.testing.assert_array_equal(one.result.curve[:, :ACTED], other.result.curve[:, :ACTED])
    np.testing.assert_allclose(one.result.curve, other.result.curve, rtol=1e-5, atol=1e-5)


@pytest.fixture(autouse=True)
def no_narrowing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes last digits, and whether it pays depends on the machine."""
    monkeypatch.setattr(pool_module, "WORTH_SECONDS", np.inf)


@pytest.fixture(scope="module")
def refilled() -> Trained:
    """Seven runs of different lengths through three lanes."""
    return train(3, assignments(RUNS), Pace(refresh_seconds=0.002, checkpoint_seconds=None))


def test_a_run_leaves_its_lane_when_it_is_over_and_the_next_takes_it(refilled: Trained):
    lanes: set[int] = set()
    waiting = set(range(7))
    for free, numbers, report in refilled[:-1]:
        assert free == 3 - len(lanes)  # every lane that is free is offered, and none twice
        assert len(numbers) == min(free, len(waiting))
        lanes, waiting = lanes | numbers, waiting - numbers
        over = {each.number for each in report.retired}
        assert lanes == set(report.results) | over
        assert not set(report.results) & over
        lanes -= over
    assert sorted(refilled.retired()) == list(range(7))
    # The run of 450 steps beside that of 2000 made room for another long before the longest was over.
    order = list(refilled.retired())
    assert order.index(2) < order.index(1)
    for number, event in refilled.retired().items():
        steps = RUNS[number].settings.steps
        assert event.result.status == COMPLETE
        assert steps <= event.result.timesteps < steps + 8
        assert event.result.updates > 50


def test_a_run_depends_on_its_own_seed_and_settings_only(refilled: Trained):
    """Other neighbours, another order, lanes that are empty: with as many lanes it is the same bit for bit."""
    order = [4, 1, 6]
    again = train(3, [Assignment(number, RUNS[number]) for number in order], Pace(0.1, None)).retired()
    for number in order:
        assert_same(again[number], refilled.retired()[number])
    alone = train(3, assignments(RUNS[:1])).retired()
    assert_same(alone[0], refilled.retired()[0])


def test_with_another_number_of_lanes_a_run_is_the_same_up_to_rounding(refilled: Trained):
    """Compilers add up in another order, so the last digits may differ; what was done does not."""
    for number, event in train(1, assignments(RUNS[:4])).retired().items():
        assert_same_up_to_rounding(event, refilled.retired()[number])


def test_an_interrupted_pool_goes_on_where_it_was(refilled: Trained):
    """The states of all lanes come back; they go on in other lanes, beside others."""
    pace = Pace(refresh_seconds=0.02, checkpoint_seconds=1000)
    stopped = train(3, assignments(RUNS[:3]), pace, most_calls=2)
    (kept,) = stopped.saved()
    assert kept.runs == tuple(RUNS[:3])
    assert 0 < kept.arrays["updates"].max() < 50
    assert all(seconds > 0 for seconds in kept.seconds)
    rest = [Assignment(number, RUNS[number], kept.only([number])) for number in (2, 1)]
    again = train(3, [Assignment(9, RUNS[6]), *rest, Assignment(0, RUNS[0], kept.only([0]))]).retired()
    for number in range(3):
        assert_same(again[number], refilled.retired()[number])
        assert again[number].result.seconds > kept.seconds[number]
    assert_same(again[9], refilled.retired()[6])


def test_checkpoints_come_as_often_as_wanted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker_module, "CHECKPOINTS_SHARE", np.inf)  # whatever they cost
    calls = train(3, assignments(RUNS[:3]), Pace(refresh_seconds=0.02, checkpoint_seconds=0))
    kept = calls.saved()
    assert len(kept) == sum(bool(call.report.results) for call in calls) > 1
    steps = [saved.arrays["timesteps"][saved.runs.index(RUNS[1])] for saved in kept]
    assert steps == sorted(set(steps))


def test_states_are_kept_only_if_wanted():
    queue = train(3, assignments(RUNS[:1]), Pace(0.02, None, keep_states=False))
    assert queue.retired()[0].saved is None
    assert not queue.saved()


def test_how_runs_end():
    """Solved as its return is reached, or stopped as something is not finite; the neighbour is complete."""
    solved = Run(replace(SHORT, stop_return=-1000.0), 0)
    failed = Run(replace(SHORT, critic_rate=1e30), 0)
    ended = {
        number: event.result for number, event in train(3, assignments([solved, failed, RUNS[5]])).retired().items()
    }
    assert [ended[number].status for number in range(3)] == [SOLVED, FAILED, COMPLETE]
    assert ended[0].timesteps < 2000
    # The last point of its curve is what it was stopped for, though none was due there.
    assert ended[0].curve is not None
    last = dict(zip(METRICS, ended[0].curve[-1], strict=True))
    assert (last["episode"], last["return"]) == (ended[0].episodes, np.float32(ended[0].recent_return))
    assert last["timestep"] % 200
    assert (np.diff(ended[0].curve[:, 0]) > 0).all()
    assert ended[1].failure is not None
    assert ended[1].failure.startswith(f"a loss, a gradient or a parameter was not finite at update {ended[1].updates}")
    assert (ended[0].failure, ended[2].failure) == (None, None)


def test_a_run_that_is_over_already_leaves_at_once(refilled: Trained):
    """As after an interruption between its last state and the tables."""
    whole = refilled.retired()[0]
    queue = train(3, [Assignment(0, RUNS[0], whole.saved)])
    assert_same(queue.retired()[0], whole)
    assert queue.retired()[0].result.seconds == whole.result.seconds


class Steps:
    """A probe that reports what it can be checked against: the counters of the runs."""

    columns = ("timesteps", "updates")
    every = 500

    def __call__(self, states: Any) -> np.ndarray:
        return np.stack([np.asarray(states.timesteps), np.asarray(states.updates)], axis=1)


def test_a_probe_measures_every_so_many_steps_also_after_an_interruption(refilled: Trained):
    pace = Pace(refresh_seconds=0.02, checkpoint_seconds=1000)
    given = assignments(RUNS[:4], probe=Steps())
    stopped = train(3, given, pace, most_calls=5)
    (kept,) = stopped.saved()
    before = stopped.retired()
    held = {run: kept.only([row]) for row, run in enumerate(kept.runs)}
    rest = [each._replace(saved=held.get(each.run)) for each in given if each.number not in before]
    assert rest
    for number, event in {**before, **train(3, rest, pace).retired()}.items():
        times, values = event.result.probe_timesteps, event.result.probe_values
        assert times is not None
        assert values is not None
        np.testing.assert_array_equal(times, values[:, 0])
        # At the start, every 500 steps, and at the end; a call of the program has a few updates of at most 8 steps.
        wanted = [*range(0, RUNS[number].settings.steps, 500), event.result.timesteps]
        assert len(times) == len(wanted)
        assert np.all((times >= wanted) & (times < np.asarray(wanted) + 8 * 16))
        assert times[-1] == event.result.timesteps
        assert_same(event, refilled.retired()[number])  # measuring changes nothing


@given(width=st.integers(1, 400), active=st.integers(1, 400))
def test_a_quarter_of_the_lanes_goes_as_often_as_the_runs_fit(width: int, active: int):
    active = min(active, width)
    narrower = narrower_width(width, active)
    assert active <= narrower <= width
    assert 3 * narrower // 4 < active  # once more would be too narrow
    widths = {width}
    while width := 3 * width // 4:
        widths.add(width)
    assert narrower in widths  # few widths, so that few programs are compiled


def test_a_pool_narrows_when_no_run_waits(refilled: Trained, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pool_module, "WORTH_SECONDS", 0.0)
    worker, narrow, widths = LocalWorker(jax.local_devices()[0], OFTEN), Pool.narrow, []

    def at_once(self: Pool, took: float) -> None:
        narrow(self, took)
        widths.append(len(self.lanes))
        if self._narrower is not None:
            self._narrower._thread.join()  # compiled, so that the move happens with the next call

    monkeypatch.setattr(Pool, "narrow", at_once)
    # Two of the three are over at once, and the third goes on alone.
    over = [Assignment(number, RUNS[number], refilled.retired()[number].saved) for number in (0, 2)]
    opened = worker.call(Request(Order(SHORT.shape(), 3)))
    calls = train_further(worker, opened, [*over, Assignment(1, RUNS[1])])
    assert (widths[0], widths[-1], set(widths)) == (3, 1, {3, 1})
    assert_same_up_to_rounding(calls.retired()[1], refilled.retired()[1])


def test_a_pool_narrows_only_if_that_saves_time(monkeypatch: pytest.MonkeyPatch):
    pool = open_pool(3)
    pool.admit([Assignment(1, RUNS[1])])
    took = [pool.advance() for _ in range(3)][-1]
    assert pool.snapshot is not None
    done, updates = pool.snapshot.timesteps[0], pool.snapshot.updates[0]
    # So many updates are left, at the speed of the last call.
    expected = (2000 - done) / (done / updates) * took / pool._last_updates
    assert pool.seconds_left(took) == pytest.approx(expected, rel=0.5)
    saves = pool.seconds_left(took) * 2 / 3
    for worth, narrows in ((1.01 * saves, False), (0.99 * saves, True)):
        monkeypatch.setattr(pool_module, "WORTH_SECONDS", worth)
        pool.narrow(took)
        assert (pool._narrower is not None) == narrows
    pool.close()


def test_the_memory_that_a_pool_needs(refilled: Trained):
    """Counted by the compiler: at least the networks, their targets and both moments of both optimisers."""
    saved = joined([event.saved for event in refilled.retired().values() if event.saved is not None][:3])
    needed = open_pool(3).bytes_needed()
    assert needed is not None
    assert needed > sum(array.nbytes for array in saved.states().values())


def test_a_run_that_ends_early_does_not_make_the_next_calls_longer():
    """A call of thirty seconds is asked for; runs of milliseconds must not be taken for a reason to ask for years."""
    worker = LocalWorker(jax.local_devices()[0], Pace(refresh_seconds=30.0))
    opened = worker.call(Request(Order(SHORT.shape(), 1)))
    pool = worker._pool
    assert pool is not None
    train_further(worker, opened, assignments(RUNS))
    most = max(run.settings.steps for run in RUNS)  # an update has at least one step
    assert pool._updates <= 16 * most


def test_a_damaged_state_breaks_its_own_run_only():
    whole = train(2, assignments(RUNS[:1]), Pace(refresh_seconds=0.02, checkpoint_seconds=0), most_calls=2)
    saved = whole.saved()[-1]
    arrays = {**saved.arrays, "logged": saved.arrays["logged"].astype(np.int64)}
    damaged = Assignment(5, RUNS[0], saved._replace(arrays=arrays))
    queue = train(2, [damaged, Assignment(0, RUNS[0], saved)])
    (failed,) = (each for call in queue for each in call.report.failed)
    assert (failed.number, failed.saved) == (5, None)
    assert failed.reason.startswith("its saved state does not fit its settings: array logged is int64[1], expected")
    assert set(queue.retired()) == {0}
