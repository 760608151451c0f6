"""What is shown of a training, from numbers that are known."""

from __future__ import annotations

import io

import numpy as np
import pytest
from asymrl.runs.batch import Batch
from asymrl.runs.display import LivePanel, PlainLines, display, grouped, left, percent, short, sparkline, title
from asymrl.runs.metrics import metrics_table
from asymrl.runs.progress import Clock, Progress, Snapshot, mean_and_error
from asymrl.runs.trainer import failure
from rich.console import Console

from asymrl.learning.state import METRICS, RECENT
from tests.engine.conftest import tiny


def snapshot(**changes: object) -> Snapshot:
    """Two runs half-way: one had 3 episodes of return 1, 2, 3, the other 200 of return 5."""
    recent = np.zeros((2, RECENT), np.float32)
    recent[0, :3], recent[1] = (1, 2, 3), 5
    curve = np.full((2, 31, len(METRICS)), np.nan, np.float32)
    for run in range(2):
        for metric in range(len(METRICS)):
            curve[run, :2, metric] = (0, 10 * run + metric)
    values = Snapshot(
        updates=np.asarray([2, 100]),
        timesteps=np.asarray([6000, 6000]),
        episodes=np.asarray([3, 200]),
        logged=np.asarray([2, 2]),
        solved=np.asarray([False, False]),
        failed=np.asarray([False, False]),
        recent_returns=recent,
        recent_lengths=recent * 2,
        curve=curve,
    )
    return values._replace(**changes)  # pyright: ignore[reportArgumentType]


def test_means_are_over_the_episodes_that_there_were():
    returns, lengths = snapshot().means()
    np.testing.assert_allclose(returns, [2, 5])
    np.testing.assert_allclose(lengths, [4, 10])
    assert np.isnan(snapshot(episodes=np.asarray([0, 200])).means()[0][0])


def test_mean_and_standard_error():
    assert mean_and_error(np.asarray([1.0, 3.0])) == (2.0, pytest.approx(1.0))
    mean, error = mean_and_error(np.asarray([4.0, np.nan]))
    assert mean == 4.0
    assert np.isnan(error)


def test_runs_that_are_over_count_as_done(batch: Batch):
    assert Progress(batch, snapshot(), None).share == 0.5
    assert Progress(batch, snapshot(failed=np.asarray([True, False])), None).share == 0.75
    beyond = Progress(batch, snapshot(timesteps=np.asarray([12_005, 12_003])), None)
    assert (percent(beyond), beyond.steps) == ("100%", 24_000)
    assert percent(Progress(batch, snapshot(timesteps=np.asarray([11_999, 11_999])), None)) == "99%"


def test_speed_and_time_left(batch: Batch):
    clock = Clock()
    assert clock.steps_per_second() is None
    for second, steps in enumerate((0, 100, 300)):
        clock.look(second, steps)
    assert clock.steps_per_second() == 150
    progress = Progress(batch, snapshot(), 100.0)
    assert progress.seconds_left == 120
    assert left(progress) == "2:00 left"
    assert left(progress._replace(speed=1.0)) == "3:20:00 left"


def test_plain_lines_tell_everything_and_not_too_often(batch: Batch):
    out = io.StringIO()
    lines = PlainLines(Console(file=out, width=60))
    assert isinstance(display(Console(file=out)), PlainLines)
    lines.begin(batch)
    lines.say("[something] happened")
    for _ in range(3):
        lines.progress(Progress(batch, snapshot(), 1234.5))
    _, _, said, *rows = out.getvalue().splitlines()
    assert said == "[something] happened"
    assert len(rows) == 1
    # critic_loss, policy_loss and negentropy_weight are metrics 5, 6 and 8; the second run has 10 more of each.
    assert rows[0].split("  ") == [
        *([" 50%"]),
        "12 000 steps",
        "return 3.50 ± 1.50",
        "length 7.0",
        "critic loss 10.00",
        "policy loss 11.00",
        "negentropy weight 13.00",
        "1 234 steps/s",
        "0:09 left",
    ]


def test_the_live_panel_tells_the_same(batch: Batch):
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=True, color_system=None)
    panel = display(console)
    assert isinstance(panel, LivePanel)
    panel.begin(batch)
    panel.progress(Progress(batch, snapshot(failed=np.asarray([True, False])), 1234.5))
    panel.say("[something] happened")
    panel.end()
    shown = out.getvalue()
    for part in ("12 000 / 24 000 steps", "3.50 ± 1.50", "13.00", "[something] happened", "0:04 left", "of 2 runs"):
        assert part in shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0.00"), (0.05, "0.0500"), (12.345, "12.35"), (-3033.3, "-3033"), (1e-7, "1.0e-07"), (float("nan"), "?")],
)
def test_numbers_are_short(value: float, shown: str):
    assert short(value) == shown


def test_a_curve_in_a_line():
    curve = np.zeros((1, 31, len(METRICS)), np.float32)
    curve[0, :8, METRICS.index("return")] = np.arange(8)
    line = sparkline(snapshot(curve=curve, logged=np.asarray([8])))
    assert line == "0.00 ▁▂▃▄▅▆▇█ 7.00"
    assert sparkline(snapshot(logged=np.asarray([1, 2]))) == ""


def test_titles_name_the_seeds():
    assert "seeds 0 to 3 · 12 000 steps" in title(Batch.product([tiny()], [0, 1, 2, 3]))
    assert "seed 7" in title(Batch.product([tiny()], [7]))
    assert "seeds 1, 5" in title(Batch.product([tiny()], [1, 5]))
    assert "4 runs that differ in actor_rate" in title(Batch.product([tiny(), tiny(actor_rate=0.5)], [0, 1]))
    assert grouped(1234567) == "1 234 567"


def test_a_failure_names_seed_update_and_settings():
    batch = Batch.product([tiny(critic_rate=9.0)], [3, 5])
    message = failure(batch, snapshot(failed=np.asarray([False, True])), 1)
    assert message.startswith("seed 5 stopped at update 100 (step 6000)")
    assert "critic_rate=9.0" in message
    assert "time_limit=4" in message


def test_the_table_of_metrics_is_tidy():
    batch = Batch.product([tiny(clip_norm=None), tiny(clip_norm=2.0)], [3])
    table = metrics_table(batch, snapshot().curve, np.asarray([1, 2]))
    assert table.columns == ["world", "method", "seed", "clip_norm", *METRICS]
    assert table["clip_norm"].to_list() == [None, 2.0, 2.0]
    assert table["timestep"].to_list() == [0, 0, 10]
    assert table["critic_loss"].to_list() == [0, 0, 15]
    assert len(metrics_table(batch, snapshot().curve, np.asarray([0, 0]))) == 0
    evaluated = Batch.product([tiny(evaluation_episodes=1)], [3, 5])
    assert metrics_table(evaluated, snapshot().curve, np.asarray([2, 2]))["evaluation_length"].to_list()[-1] == 22


def test_lost_steps_are_no_speed():
    clock = Clock()
    for now, steps in [(0.0, 0), (1.0, 1000), (2.0, 100), (3.0, 400)]:
        clock.look(now, steps)
    assert clock.steps_per_second() == 300.0
