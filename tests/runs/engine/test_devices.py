"""How many lanes suit a device, and how many runs with a replay fit, before anything is compiled."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from asymrl.runs import devices
from asymrl.runs.devices import COPIES_ON_HOST, MEMORY_SHARE, MemoryBudget, bytes_of_run, free_memory
from asymrl.runs.lanes import Assignment
from asymrl.runs.run_queue import RunQueue
from asymrl.runs.runs import Run
from asymrl.runs.wording import size_text
from asymrl.runs.worker import Seat
from asymrl.settings import A2CSettings, DQNSettings
from tests.runs.engine.queued_runs import SHAPES, admitted, opened

SHAPE = DQNSettings(
    world="heaven-hell-1", method="adqn", memory_size=4, hidden=(4,), time_limit=8, log_points=5
).shape()
EACH = COPIES_ON_HOST * bytes_of_run(SHAPE)


def memory_for(runs: float, platform: str = "cpu") -> MemoryBudget:
    """Room for so many runs of the shape on a CPU."""
    return MemoryBudget(platform, int(runs * EACH / MEMORY_SHARE))


@pytest.mark.parametrize(
    ("platform", "places", "waiting", "of_all", "lanes"),
    [
        ("cpu", 2, 100, 100, 1),
        ("gpu", 1, 5, 5, 5),
        ("gpu", 1, 10_000, 10_000, devices.MOST_LANES),
        ("gpu", 4, 20, 100, 20),
        ("gpu", 10, 100, 100, devices.FEW_LANES),
        ("gpu", 1, 400, 400, math.ceil(400 * devices.LANES_SHARE)),  # some wait for the lanes of those that end
    ],
)
def test_how_many_lanes_a_pool_has(platform: str, places: int, waiting: int, of_all: int, lanes: int):
    assert devices.lanes_for(platform, None, places)(SHAPES[0], waiting, of_all) == lanes
    assert devices.lanes_for(platform, 3, places)(SHAPES[0], waiting, of_all) == 3


def test_a_step_of_the_replay_takes_nine_bytes_in_a_finite_world():
    more = bytes_of_run(replace(SHAPE, replay_steps=SHAPE.replay_steps + 1000))
    assert more - bytes_of_run(SHAPE) == 1000 * (4 + 4 + 1)  # the step, and the start and length of an episode


def test_what_is_told_by_the_history_needs_no_states():
    told = replace(SHAPE, critic_sees="belief")
    kept = {name: bytes_of_run(replace(told, critic_sees=name, replay_steps=2_000_000)) for name in ("belief", "time")}
    assert all(size - bytes_of_run(replace(told, critic_sees=name)) == 8_000_000 for name, size in kept.items())


def test_so_many_fit():
    assert [memory_for(runs).lanes(SHAPE) for runs in (0.9, 1.01, 3.5)] == [0, 1, 3]
    assert memory_for(3.5).lanes(SHAPE, used=EACH) == 2
    assert memory_for(3.5).lanes(SHAPE, used=9 * EACH) == 0
    # An accelerator holds two copies of a run, the host four.
    assert memory_for(3.5, "gpu").lanes(SHAPE) == 7


def test_learners_without_a_replay_and_unknown_memories_are_not_limited():
    assert memory_for(0.1).lanes(A2CSettings().shape()) is None
    memory_for(0.1).check(A2CSettings().shape())
    assert MemoryBudget("cpu", None).lanes(SHAPE) is None
    MemoryBudget("cpu", None).check(SHAPE)


def test_a_replay_that_does_not_fit_is_refused():
    with pytest.raises(
        ValueError, match=r"a run of heaven-hell-1 adqn needs 36\.\d MB of memory, and 18.*--replay-steps"
    ):
        memory_for(0.5).check(SHAPE)


def queue_of_ten(lanes: int, memory: MemoryBudget) -> RunQueue:
    given = [Assignment(seed, Run(SHAPE, seed)) for seed in range(10)]
    return RunQueue(given, lambda shape, waiting, of_all: min(waiting, lanes), memory=memory)


def test_pools_share_the_memory_of_a_host():
    queue = queue_of_ten(10, memory_for(5.5))
    assert opened(queue, "core 0").lanes == 5
    admitted(queue, "core 0", 5)
    queue.stop()  # or the other would wait for room
    assert queue.next(Seat("core 1")) is None
    queue = queue_of_ten(2, memory_for(3.5))
    assert [opened(queue, f"core {i}").lanes for i in range(2)] == [2, 1]


def test_each_accelerator_has_its_own_memory():
    queue = queue_of_ten(10, memory_for(2.6, "gpu"))
    assert [opened(queue, f"gpu {i}", place=i, memory=i).lanes for i in range(2)] == [5, 5]


def test_free_memory_is_what_machine_and_container_leave(tmp_path: Path):
    assert free_memory(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 2000 kB\nMemAvailable:    1000 kB\n")
    assert free_memory(tmp_path) == 1_024_000
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.current").write_text("300\n")
    for limit, expected in (("max", 1_024_000), ("1000", 700), ("200", 0)):
        (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{limit}\n")
        assert free_memory(tmp_path) == expected


@pytest.mark.parametrize(
    ("size", "text"), [(900, "0.9 kB"), (512_000, "512 kB"), (9_100_000, "9.1 MB"), (14_480_000_000, "14.5 GB")]
)
def test_sizes_to_read(size: int, text: str):
    assert size_text(size) == text
