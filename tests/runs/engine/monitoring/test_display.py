"""What is shown of a training, from numbers that are known."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from asymrl.learners.state import METRICS, RECENT
from asymrl.runs.display import (
    LivePanel,
    PlainLines,
    line,
    panel,
    percent,
    plain_console,
    sparkline,
    standard_display,
    title,
)
from asymrl.runs.lanes import Lane, Snapshot
from asymrl.runs.progress import Compilation, Compilations, Progress, SpeedMeter
from asymrl.runs.runs import Run
from asymrl.runs.tables import COMPLETE, FAILED, TRAINING, RunResult
from asymrl.settings import new_settings
from tests.runs.engine.conftest import tiny

RUNS = (Run(tiny(), 3), Run(tiny(), 5))


def progress(first: dict[str, Any] | None = None, second: dict[str, Any] | None = None, **changes: Any) -> Progress:
    """Two runs half-way, with returns 2 and 5; what differs of either of them."""
    results = {
        number: RunResult(TRAINING, 6000, recent_return=value, recent_length=2 * value)._replace(**(change or {}))
        for number, (value, change) in enumerate(((2.0, first), (5.0, second)))
    }
    training = frozenset(number for number, result in results.items() if not result.is_over)
    return Progress(RUNS, results, training, {}, None)._replace(**changes)


def snapshot(**changes: Any) -> Snapshot:
    """Two lanes: a run that had 3 episodes of return 1, 2, 3, and one that had 200 of return 5."""
    recent = np.zeros((2, RECENT), np.float32)
    recent[0, :3], recent[1] = (1, 2, 3), 5
    values = Snapshot(
        updates=np.asarray([2, 100]),
        timesteps=np.asarray([6000, 6000]),
        episodes=np.asarray([3, 200]),
        logged=np.asarray([2, 2]),
        solved=np.asarray([False, False]),
        failed=np.asarray([False, False]),
        recent_returns=recent,
        recent_lengths=recent * 2,
        curve=np.full((2, 31, len(METRICS)), np.nan, np.float32),
    )
    return values._replace(**changes)


def test_means_are_over_the_episodes_that_there_were():
    assert snapshot().recent_means(0) == (2, 4)
    assert snapshot().recent_means(1) == (5, 10)
    assert np.isnan(snapshot(episodes=np.asarray([0, 200])).recent_means(0)[0])


def test_points_before_the_first_episode_have_no_return():
    curve = np.ones((2, 31, len(METRICS)), np.float32)
    curve[0, 0] = 0
    found = Lane(0, RUNS[0]).result(snapshot(curve=curve), 0, "cpu").curve
    assert found is not None
    nothing = [METRICS[i] for i in np.flatnonzero(np.isnan(found[0]))]
    assert (nothing, np.isnan(found[1]).any(), curve[0, 0].any()) == (["return", "length"], False, False)


def test_no_return_is_shown_before_the_first_episode():
    nothing = {"recent_return": np.nan, "recent_length": np.nan}
    points = np.full((4, len(METRICS)), np.nan, np.float32)
    early = progress({**nothing, "curve": points}, {**nothing, "curve": points})
    assert line(early) == " 50%  12 000 steps  2 training"
    out = io.StringIO()
    Console(file=out, width=120).print(panel(early))
    shown = out.getvalue()
    assert "nan" not in shown
    assert "0.0" not in shown
    points = points.copy()
    points[2:, METRICS.index("return")] = 1.0
    assert sparkline(progress({**nothing, "curve": points}, {**nothing, "curve": points})) == "1.00 ▁▁ 1.00"


def test_what_is_known_of_a_run_in_a_lane():
    lane = Lane(7, RUNS[1], seconds=1.5)
    result = lane.result(snapshot(), 1, "cpu")
    assert (result.status, result.timesteps, result.episodes, result.updates) == (TRAINING, 6000, 200, 100)
    assert (result.recent_return, result.recent_length, result.seconds, result.device) == (5, 10, 1.5, "cpu")
    assert result.curve is not None
    assert len(result.curve) == 2
    assert lane.status(snapshot(timesteps=np.asarray([0, 12_003])), 1) == COMPLETE
    assert lane.status(snapshot(solved=np.asarray([False, True])), 1) == "solved"
    failed = lane.result(snapshot(failed=np.asarray([False, True])), 1, "cpu")
    assert failed.status == FAILED
    assert failed.failure == (
        "a loss, a gradient or a parameter was not finite at update 100 (step 6000); "
        "a lower learning rate or clip_norm may help"
    )


def test_runs_that_are_over_count_as_done():
    assert progress().share == 0.5
    assert progress({"status": FAILED}).share == 0.75
    assert progress(broken={1: "why"}).share == 0.75
    beyond = progress(*[{"status": COMPLETE, "timesteps": steps} for steps in (12_005, 12_003)])
    assert (percent(beyond), beyond.steps, beyond.trained) == ("100%", 24_000, 24_008)
    assert percent(progress({"timesteps": 11_999}, {"timesteps": 11_999})) == "99%"
    assert progress(results={}).share == 0


def test_speed_and_time_left():
    meter = SpeedMeter()
    assert meter.steps_per_second() is None
    for second, steps in enumerate((0, 100, 300)):
        meter.add(second, steps)
    assert meter.steps_per_second() == 150
    assert progress(speed=100.0).seconds_left == 120
    assert line(progress(speed=100.0)).endswith("100 steps/s  2:00 left")
    assert line(progress(speed=1.0)).endswith("1 steps/s  3:20:00 left")
    # A run that was solved early leaves nothing to wait for.
    assert progress({"status": "solved"}, speed=100.0).seconds_left == 60


def test_lost_steps_are_no_speed():
    meter = SpeedMeter()
    for now, steps in [(0.0, 0), (1.0, 1000), (2.0, 100), (3.0, 400)]:
        meter.add(now, steps)
    assert meter.steps_per_second() == 300.0


def test_the_speed_is_steady_where_steps_are_reported_once_a_minute():
    """Two pools, one second apart: their steps seem to stand still in between."""
    meter, speeds = SpeedMeter(call_seconds=60.0), []
    for second in range(600):
        meter.add(float(second), 100 * (second // 60 * 60) + 100 * ((second - 1) // 60 * 60))
        speeds.append(meter.steps_per_second())
    assert speeds[:60] == [None] * 60
    assert all(speed is not None and 130 <= speed <= 270 for speed in speeds[180:])


def test_plain_lines_tell_everything_and_not_too_often():
    out = io.StringIO()
    console = plain_console()
    console.file, console.width = out, 60
    lines = PlainLines(console)
    assert isinstance(standard_display(Console(file=out)), PlainLines)
    lines.begin(RUNS)
    lines.say("[red] happened in bad.py:Four: step()")
    for _ in range(3):
        lines.progress(progress(speed=1234.5))
    heading, said, *rows = out.getvalue().splitlines()
    assert heading == "tiger:episodic=true · a2c-asym-s · seeds 3 and 5 · 12 000 steps each"
    assert said == "[red] happened in bad.py:Four: step()"
    assert len(rows) == 1
    assert rows[0].split("  ") == [
        *([" 50%"]),
        "12 000 steps",
        "2 training",
        "return 3.50 ± 1.50",
        "length 7.0",
        "1 234 steps/s",
        "0:09 left",
    ]


def test_the_end_is_always_shown():
    out = io.StringIO()
    lines = PlainLines(Console(file=out, width=200))
    for steps in (11_990, 12_000, 12_000):
        status = COMPLETE if steps == 12_000 else TRAINING
        lines.progress(progress(*[{"timesteps": steps, "status": status}] * 2))
    assert [row.split()[0] for row in out.getvalue().splitlines()] == ["99%", "100%"]


def test_what_still_trains_is_shown():
    """A run that is over has left its lane; it is counted as over, not as training."""
    shown = line(progress({"status": COMPLETE, "timesteps": 12_000}, speed=1000.0))
    assert "1 of 2 runs over  1 training" in shown
    assert "0:06 left" in shown
    assert "1 failed" in line(progress({"status": FAILED}))
    assert "1 failed" in line(progress(broken={0: "why"}))


def test_a_compilation_is_said_at_once_and_then_with_its_age():
    """Every core opens its pool, but they share one program; runs of two shapes need two."""
    compilations, other = Compilations(), tiny(method="a2c")
    compilations.expected = 3
    compilations.begin("core 0", tiny(), 100.0)
    compilations.begin("core 1", tiny(), 101.0)
    now = compilations.at(112.5)
    assert now == (Compilation(tiny(), 1, 3, 12.5),)
    world = "tiger:episodic=true"
    assert line(progress(results={}, compilations=now)) == f"compiling 1 of 3 ({world} a2c-asym-s), 12 s"
    compilations.begin("core 0", other, 112.5)
    both = compilations.at(113.0)
    assert [(each.shape, each.number, each.seconds) for each in both] == [(tiny(), 1, 12.0), (other, 2, 0.5)]
    said = f"compiling 1 and 2 of 3 ({world} a2c-asym-s, {world} a2c), 12 s"
    assert line(progress(results={}, compilations=both)) == said
    # Beside runs that train, it stands at the end of their line.
    assert line(progress(compilations=both)).endswith(f"length 7.0  {said}")
    alone = (Compilation(other, 1, 1, 0.2),)
    assert line(progress(results={}, compilations=alone)) == f"compiling {world} a2c"


def test_a_program_is_compiled_for_all_pools_or_for_none():
    """Also for a pool that finds no run left, and so never trains."""
    compilations, other = Compilations(), tiny(method="a2c")
    for pool, shape in (("core 0", tiny()), ("core 1", tiny()), ("core 2", other)):
        compilations.begin(pool, shape, 0.0)
    compilations.end("core 1")
    assert [each.shape for each in compilations.at(1.0)] == [other]


def test_each_program_has_its_line():
    out = io.StringIO()
    lines = PlainLines(Console(file=out, width=200))
    for number in (1, 1, 2, 2, 1):
        lines.progress(progress(results={}, compilations=(Compilation(tiny(), number, 2, 0.0),)))
    assert [row.split()[1] for row in out.getvalue().splitlines()] == ["1", "2"]


def test_the_live_panel_tells_the_same():
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=True, color_system=None, markup=False, emoji=False)
    panel = standard_display(console)
    assert isinstance(panel, LivePanel)
    panel.begin(RUNS)
    panel.progress(progress(results={}, compilations=(Compilation(tiny(), 1, 4, 3.0),)))
    panel.progress(progress({"status": FAILED}, speed=1234.5))
    panel.say("[something] happened")
    panel.end()
    shown = out.getvalue()
    for part in (
        "compiling 1 of 4 (tiger:episodic=true a2c-asym-s), 3 s",
        "12 000 / 24 000 steps",
        "3.50 ± 1.50",
        "[something] happened",
        "0:04 left",
        "1 of 2 runs over, 1 training, 1 failed",
        "of the last 100 episodes, mean ± standard error of 2 runs",
    ):
        assert part in shown


def test_worlds_and_methods_have_a_row_each():
    """A mean over different worlds would mean nothing."""
    runs = (*RUNS, Run(tiny(method="a2c"), 3), Run(tiny(method="a2c-react-2"), 3))
    out = io.StringIO()
    panel = LivePanel(Console(file=out, width=120, force_terminal=True, color_system=None))
    panel.begin(runs)
    results = {0: RunResult(COMPLETE, 12_000, recent_return=2.0), 1: RunResult(recent_return=4.0)}
    results[2] = RunResult(TRAINING, 100, recent_return=-1.0)
    panel.progress(Progress(runs, results, frozenset([1, 2]), {}, 10.0))
    panel.end()
    shown = [" ".join(row.split()) for row in out.getvalue().splitlines()]
    assert any("tiger:episodic=true a2c-asym-s 1 of 2 runs over return 3.00 ± 1.00" in row for row in shown)
    assert any("tiger:episodic=true a2c 0 of 1 run over return -1.00" in row for row in shown)
    assert not any("a2c-react-2" in row for row in shown)  # has not begun
    assert "return" not in line(Progress(runs, results, frozenset([1, 2]), {}, 10.0))


@pytest.mark.parametrize(("begun", "hidden"), [(3, ""), (12, ""), (14, "and 2 more")])
def test_worlds_without_a_row_are_counted_if_they_have_begun(begun: int, hidden: str):
    runs = [Run(tiny(method=f"a2c-react-{k}"), 0) for k in range(1, 21)]
    results = {number: RunResult(TRAINING, 100, recent_return=1.0) for number in range(begun)}
    out = io.StringIO()
    Console(file=out, width=120).print(panel(Progress(runs, results, frozenset(results), {}, 10.0)))
    rows = out.getvalue().splitlines()
    assert sum("a2c-react-" in row for row in rows) == min(begun, 12)
    assert [row.strip() for row in rows if "more" in row] == ([hidden] if hidden else [])


def test_a_curve_in_a_line():
    curve = np.zeros((8, len(METRICS)), np.float32)
    curve[:, METRICS.index("return")] = np.arange(8)
    assert sparkline(progress({"curve": curve})) == "0.00 ▁▂▃▄▅▆▇█ 7.00"
    # The mean of what all of them have.
    assert sparkline(progress({"curve": curve}, {"curve": 3 * curve[:2]})) == "0.00 ▁█ 2.00"
    assert sparkline(progress({"curve": curve[:1]})) == ""


@pytest.mark.parametrize(
    ("runs", "shown"),
    [
        ([Run(tiny(), seed) for seed in range(4)], "seeds 0 to 3 · 12 000 steps"),
        ([Run(tiny(), 7)], "seed 7"),
        ([Run(tiny(), 1), Run(tiny(), 5)], "seeds 1 and 5"),
        ([Run(tiny(actor_rate=r), s) for r in (0.1, 0.5) for s in (0, 1)], "4 runs that differ in actor_rate"),
        ([Run(tiny(method=m), s) for m in ("a2c", "a2c-asym-s") for s in (0, 1)], "2 methods · 4 runs, seeds 0 and 1"),
        # Defaults that learners do not share say no more than the method does.
        (
            [Run(new_settings(method=m, clip_norm=norm), 0) for m in ("a2c", "ppo", "dqn") for norm in (1.0, 2.0)],
            "3 methods · 6 runs that differ in clip_norm · 2 000 000",
        ),
        # So do the discounts of worlds, and what the paper tuned for a method.
        (
            [Run(new_settings(world=world, discount=gamma), 0) for world, gamma in (("tiger", 0.9), ("cleaner", 0.8))],
            "2 worlds · a2c-asym-hs · seed 0 ·",
        ),
        ([Run(tiny(), 0), Run(tiny(steps=600, log_points=3), 1)], "600 to 12 000 steps each"),
    ],
)
def test_titles_say_what_is_trained(runs: list[Run], shown: str):
    assert shown in title(runs)
