"""The picture of the learning curves is there before a training is over."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from asymrl import api
from asymrl.cli.curve_file import CurveFile
from asymrl.runs import callback
from asymrl.runs.progress import Progress
from asymrl.runs.runs import Run
from asymrl.runs.store import Store
from asymrl.runs.tables import COMPLETE, TRAINING, RunResult
from tests.runs.engine.conftest import tiny

RUNS = (Run(tiny(), 0),)
POINTS = pl.DataFrame()


class Plots:
    """Counts the pictures instead of drawing them."""

    drawn = 0

    @classmethod
    def of(cls, store: Store) -> Plots:
        return cls()

    def plot(self, path: Path, metric: str = "return") -> Path:
        Plots.drawn += 1
        path.write_text(f"{metric} {Plots.drawn}")
        return path


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    time = {"now": 1000.0}
    monkeypatch.setattr(callback.time, "monotonic", lambda: time["now"])
    monkeypatch.setattr(api, "Runs", Plots)
    monkeypatch.setattr(Plots, "drawn", 0)
    return time


def progress(status: str = TRAINING) -> Progress:
    return Progress(RUNS, {0: RunResult(status, 6000)}, frozenset([0]), {}, None)


def test_it_is_drawn_every_half_minute_if_there_is_something_new(clock: dict[str, float], tmp_path: Path):
    curve = CurveFile(Store(tmp_path, RUNS))
    curve.begin(RUNS)
    curve.points(0, POINTS)
    drawn = []
    for second in range(0, 100, 10):
        clock["now"] = 1000.0 + second
        curve.progress(progress())
        drawn.append(Plots.drawn)
    assert drawn == [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]  # nothing is new after the first
    curve.points(0, POINTS)
    curve.progress(progress())
    assert (tmp_path / "curve.png").read_text() == "return 2"
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]


def test_it_is_drawn_at_a_stop_and_left_to_the_report_at_the_end(clock: dict[str, float], tmp_path: Path):
    del clock
    for status, pictures in ((TRAINING, 1), (COMPLETE, 1)):
        curve = CurveFile(Store(tmp_path, RUNS))
        curve.begin(RUNS)
        curve.progress(progress(status))
        curve.points(0, POINTS)
        curve.end()
        assert Plots.drawn == pictures


def test_a_large_store_is_drawn_when_it_stops_only(clock: dict[str, float], tmp_path: Path):
    curve = CurveFile(Store(tmp_path, RUNS))
    curve.begin([Run(tiny(), seed) for seed in range(101)])
    curve.points(0, POINTS)
    clock["now"] += 1000.0
    curve.progress(progress())
    assert Plots.drawn == 0
    curve.end()
    assert Plots.drawn == 1


def test_a_picture_that_cannot_be_drawn_does_not_end_the_training(
    clock: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    del clock

    def fail(*_: object) -> None:
        raise ImportError("no matplotlib")

    monkeypatch.setattr(Plots, "plot", fail)
    curve = CurveFile(Store(tmp_path, RUNS))
    curve.points(0, POINTS)
    curve.end()
    assert not list(tmp_path.iterdir())
