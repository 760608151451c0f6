"""Learning curves: what is averaged, and what is drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from asymrl.learning.settings import Settings
from asymrl.report.curves import curves, learning_curve, save_learning_curve
from asymrl.report.summary import summary
from asymrl.runs.batch import Batch
from asymrl.runs.progress import Snapshot
from asymrl.worlds import scores
from tests.runs.test_display import snapshot


def table(world: str = "heaven-hell-3") -> pl.DataFrame:
    """Two runs: one rises from 0 to 1 in 100 steps, the other stays at 0 and has its points elsewhere."""
    rows = [(0, 0, 0.0), (0, 50, 0.5), (0, 100, 1.0), (1, 0, 0.0), (1, 60, 0.0), (1, 130, 0.0)]
    seeds, timesteps, returns = zip(*rows, strict=True)
    return pl.DataFrame(
        {"world": [world] * 6, "method": ["a2c"] * 6, "seed": seeds, "timestep": timesteps, "return": returns}
    )


def test_runs_are_averaged_at_the_same_times():
    found = curves(table())
    assert (found.timesteps[0], found.timesteps[-1]) == (0, 100)
    np.testing.assert_allclose(found.mean(), found.timesteps / 200)
    np.testing.assert_allclose(found.standard_error(), found.timesteps / 200)  # |a - b| / 2 for two values
    alone = curves(table().filter(seed=0))
    np.testing.assert_array_equal(alone.standard_error(), 0)


def test_the_figure_shows_each_run_their_mean_and_the_references():
    axes = learning_curve(table()).axes[0]
    ends = sorted(float(np.asarray(line.get_ydata())[-1]) for line in axes.lines)
    known = scores("heaven-hell-3")
    assert known is not None
    assert ends == [0.0, known.undiscounted["random"].low, 0.5, 1.0, known.undiscounted["best"].low]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a2c, 2 runs"]  # pyright: ignore
    assert {text.get_text() for text in axes.texts} == {"random policy", "best known"}
    assert len(learning_curve(table(), references=False).axes[0].lines) == 3
    assert len(learning_curve(table("shopping-3")).axes[0].lines) == 5, "computed on demand"
    assert len(learning_curve(table("shopping-9")).axes[0].lines) == 3, "too large for that"


def test_runs_with_other_settings_have_a_line_of_their_own():
    rates = table().with_columns(critic_rate=pl.col("seed") * 0.5)
    metrics = rates.select("world", "method", "seed", "critic_rate", "timestep", "return")
    axes = learning_curve(metrics, references=False).axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]  # pyright: ignore
    assert labels == ["a2c, critic_rate 0.0", "a2c, critic_rate 0.5"]
    means = [line for line in axes.lines if line.get_label() in labels]
    assert [float(np.asarray(line.get_ydata())[-1]) for line in means] == [1.0, 0.0]
    assert len({line.get_color() for line in means}) == 2


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_the_figure_is_saved_in_the_format_of_the_file(tmp_path: Path, ending: str):
    path = tmp_path / f"curve.{ending}"
    save_learning_curve(table(), path)
    if ending == "png":
        with Image.open(path) as picture:
            assert picture.size == (1120, 700)
    assert path.read_bytes()[:4] in (b"\x89PNG", b"%PDF", b"<?xm")


def finished(**changes: object) -> Snapshot:
    returns = np.stack([np.full(100, 0.5), np.full(100, 0.7)]).astype(np.float32)
    return snapshot(recent_returns=returns, episodes=np.asarray([200, 200]), **changes)


def test_the_summary_compares_with_random_and_best():
    text = summary(Batch.product([Settings("heaven-hell-3")], [0, 1]), finished())
    assert "return          0.60 ± 0.10  over the last 100 episodes (mean ± standard error of 2 runs)" in text
    assert "each run        0.50  0.70" in text
    assert "reached         60% of the way from random to the best known" in text


def test_the_summary_leaves_out_failed_runs_and_references_that_do_not_apply():
    batch = Batch.product([Settings("heaven-hell-3", time_limit=50)], [0, 1])
    text = summary(batch, finished(failed=np.asarray([False, True])))
    assert "return          0.50  over the last 100 episodes\n" in text
    assert "failed          seed 1: not finite, left out above" in text
    assert "random" not in text


def test_bounds_are_called_so():
    text = summary(Batch.product([Settings("memory-four-rooms-7x7")], [0, 1]), finished())
    assert "best known      3.73 .. 4.521 (proven bounds)" in text
    assert "48% of the way from random to the lower bound of the best" in text


def test_the_summary_tells_settings_apart():
    text = summary(
        Batch.product([Settings("heaven-hell-3"), Settings("heaven-hell-3", critic_rate=0.5)], [0]), finished()
    )
    assert "                0.50  with critic_rate=0.001\n                0.70  with critic_rate=0.5\n" in text
