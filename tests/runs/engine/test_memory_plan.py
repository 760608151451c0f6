"""How many runs fit is known before anything is compiled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from asymrl.runs.lanes import Assignment
from asymrl.runs.memory_plan import COPIES, MEMORY_SHARE, MemoryPlan, bytes_of_run, free_memory
from asymrl.runs.placement import Pace
from asymrl.runs.process_workers import ProcessWorkers
from asymrl.runs.runs import Run
from asymrl.runs.scheduler import Order, Scheduler
from asymrl.runs.serving import OutOfMemoryError, open_pool
from asymrl.runs.wording import size_text
from asymrl.settings import A2CSettings, DQNSettings

SHAPE = DQNSettings(
    world="heaven-hell-1", method="adqn", memory_size=4, hidden=(4,), time_limit=8, log_points=5
).shape()
EACH = COPIES["cpu"] * bytes_of_run(SHAPE)


def plan(runs: float, platform: str = "cpu", pools: int = 2) -> MemoryPlan:
    """One with room for so many runs of the shape on a CPU."""
    return MemoryPlan(platform, int(runs * EACH / MEMORY_SHARE), is_shared=platform == "cpu", pools=pools)


def test_a_step_of_the_replay_takes_nine_bytes_in_a_finite_world():
    more = bytes_of_run(replace(SHAPE, replay_steps=SHAPE.replay_steps + 1000))
    assert more - bytes_of_run(SHAPE) == 1000 * (4 + 4 + 1)  # the step, and the start and length of an episode


def test_what_is_told_by_the_history_needs_no_states():
    told = replace(SHAPE, critic_sees="belief")
    kept = {name: bytes_of_run(replace(told, critic_sees=name, replay_steps=2_000_000)) for name in ("belief", "time")}
    assert all(size - bytes_of_run(replace(told, critic_sees=name)) == 8_000_000 for name, size in kept.items())


def test_so_many_fit():
    assert [plan(runs).lanes(SHAPE) for runs in (0.9, 1.01, 3.5)] == [0, 1, 3]
    assert plan(3.5).lanes(SHAPE, used=EACH) == 2
    assert plan(3.5).lanes(SHAPE, used=9 * EACH) == 0
    # An accelerator holds two copies of a run, the host four.
    assert plan(3.5, "gpu").lanes(SHAPE) == 7


def test_learners_without_a_replay_and_unknown_memories_are_not_planned():
    assert plan(0.1).lanes(A2CSettings().shape()) is None
    plan(0.1).check(A2CSettings().shape())
    unknown = MemoryPlan("cpu", None, is_shared=True)
    assert unknown.lanes(SHAPE) is None
    unknown.check(SHAPE)


def test_a_replay_that_does_not_fit_is_refused_with_one_that_does():
    short = plan(0.5)
    with pytest.raises(ValueError, match=r"a run of heaven-hell-1 adqn needs 36\.\d MB of memory, and 18") as error:
        short.check(SHAPE)
    fits = int(str(error.value).rpartition("--replay-steps ")[2].removesuffix(" fits"))
    assert 400_000 < fits < 500_000
    short.check(replace(SHAPE, replay_steps=fits))
    with pytest.raises(ValueError, match=r"can be used$"):  # not even without a replay
        plan(1e-4).check(SHAPE)


def scheduler(runs: int, memory: MemoryPlan) -> Scheduler:
    assignments = [Assignment(seed, Run(SHAPE, seed)) for seed in range(runs)]
    return Scheduler(assignments, lambda shape, waiting, of_all: waiting, one_pool_per_shape=False, plan=memory)


def test_pools_share_what_there_is():
    shared = scheduler(10, plan(5.5))
    assert shared.pick("core 0", 0) == Order(SHAPE, 5)
    shared.take("core 0", 5)
    shared.stop()  # or the other would wait for room
    assert shared.pick("core 1", 1) is None


def test_a_pool_gets_what_others_leave_and_devices_have_their_own():
    apart = scheduler(10, plan(2.6, "gpu"))
    assert apart.pick("gpu 0.0", 0) == Order(SHAPE, 5)
    apart.take("gpu 0.0", 5)
    assert apart.pick("gpu 1.0", 1) == Order(SHAPE, 5)
    shared = Scheduler(
        [Assignment(seed, Run(SHAPE, seed)) for seed in range(10)],
        lambda shape, waiting, of_all: 2,
        one_pool_per_shape=False,
        plan=plan(3.5),
    )
    assert [shared.pick(f"core {i}", i) for i in range(2)] == [Order(SHAPE, 2), Order(SHAPE, 1)]


def test_a_pool_looks_again_where_it_is_opened(monkeypatch: pytest.MonkeyPatch):
    class Device:
        platform = "gpu"

        def memory_stats(self) -> dict[str, int]:
            return {"bytes_limit": int(1.01 * EACH / 2 / MEMORY_SHARE)}

    with pytest.raises(OutOfMemoryError, match="2 lanes need"):
        open_pool(Order(SHAPE, 2), Device(), Pace())
    with pytest.raises(ValueError, match="--replay-steps"):
        open_pool(Order(replace(SHAPE, replay_steps=3_000_000), 1), Device(), Pace())


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


def test_processes_share_the_memory_of_their_device():
    """Two processes on each of two devices: those with even numbers are on the first."""
    workers = ProcessWorkers(4, pace=Pace(), devices=2, platform="gpu", memory=int(1.5 * EACH / MEMORY_SHARE))
    shared = scheduler(10, workers.plan)
    assert workers.plan.pools == 2
    assert shared.pick("process 0", ("process", 0)) == Order(SHAPE, 3)  # an accelerator holds two copies of a run
    assert shared.pick("process 1", ("process", 1)) == Order(SHAPE, 3)
    shared.take("process 0", 3)
    shared.take("process 1", 3)
    shared.stop()  # or the others would wait for room
    assert shared.pick("process 2", ("process", 2)) is None
    assert shared.pick("process 3", ("process", 3)) is None
    on_cpu = ProcessWorkers(3, pace=Pace(), platform="cpu", memory=int(1.5 * EACH / MEMORY_SHARE)).plan
    assert (on_cpu.lanes(SHAPE), on_cpu.pools) == (1, 3)
    assert on_cpu.memory_at(("process", 0)) == on_cpu.memory_at(("process", 1))
