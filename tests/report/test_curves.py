"""Learning curves: what is averaged, and what is drawn."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from asymrl.report.curves import SERIES, curves, has_values, learning_curve, method_colours, save_learning_curve
from asymrl.worlds import scores


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
    np.testing.assert_allclose(found.band()[0], found.timesteps / 200)
    np.testing.assert_allclose(found.band()[1], found.timesteps / 200)  # |a - b| / 2 for two values
    np.testing.assert_array_equal(curves(table().filter(seed=0)).band()[1], 0)


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


def test_settings_that_are_the_same_for_a_method_are_not_named():
    """As in a comparison: every method has its own learning rate, and all runs have as many steps."""
    other = table().with_columns(method=pl.lit("a2c-asym-hs"), actor_rate=0.003)
    both = pl.concat([table().with_columns(actor_rate=0.001), other]).with_columns(steps=100)
    metrics = both.select("world", "method", "steps", "actor_rate", "seed", "timestep", "return")
    axes = learning_curve(metrics, references=False).axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]  # pyright: ignore
    assert labels == ["a2c, 2 runs", "a2c-asym-hs, 2 runs"]


def test_of_very_many_lines_the_legend_names_those_that_end_highest():
    rises = table().filter(pl.col("seed") == 0)
    kinds = [rises.with_columns(critic_rate=0.1 * i, **{"return": pl.col("return") * i}) for i in range(45)]
    metrics = pl.concat(kinds).select("world", "method", "seed", "critic_rate", "timestep", "return")
    figure = learning_curve(metrics, references=False)
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == "the highest 10 of 45"
    assert [text.get_text() for text in legend.get_texts()][:2] == ["a2c, critic_rate 4.4", "a2c, critic_rate 4.3"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.canvas.draw()  # there is room for it
    assert legend.get_window_extent().y1 < figure.axes[0].get_window_extent().y0  # below the lines


def test_every_world_has_a_panel():
    figure = learning_curve(pl.concat([table(), table("tiger")]), references=False)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["heaven-hell-3", "tiger"]


def test_methods_of_two_learners_have_colours_of_their_own():
    names = ["ppo", "ppo-asym-s", "ppo-asym-hs", "dqn", "adqn-state-vr", "adqn-vr"]
    assert len(set(method_colours(names).values())) == 6


def test_methods_keep_their_colours_and_others_take_what_is_left():
    names = ["a2c-asym-hs", "mine", "yours", "a2c"]
    colours = method_colours(names)
    assert list(colours) == names
    assert len(set(colours.values())) == 4
    assert colours["a2c"] == method_colours(["a2c"])["a2c"] == SERIES[0]


def test_learners_have_the_same_colours_for_the_same_critics_unless_they_share_a_figure():
    by_learner = [["a2c", "a2c-asym-s", "a2c-asym-hs"], ["ppo", "ppo-asym-s", "ppo-asym-hs"]]
    assert [list(method_colours(names).values()) for names in by_learner] == [list(SERIES[:3])] * 2
    assert list(method_colours(["dqn", "adqn-state-vr", "adqn-vr"]).values()) == list(SERIES[:3])
    together = method_colours(["ppo-asym-hs", "a2c-asym-hs", "adqn-vr"])
    assert together["a2c-asym-hs"] == SERIES[2]
    assert len(set(together.values())) == 3


def test_another_metric_is_drawn_where_runs_have_it():
    metrics = table().with_columns(
        pl.when(pl.col("timestep") > 0).then(pl.col("return") * 0 + 7).alias("evaluation_return")
    )
    (axes, *_) = learning_curve(metrics, "evaluation_return", references=False).axes
    assert axes.get_ylabel() == "return in evaluation"
    drawn = np.concatenate([np.asarray(line.get_ydata()) for line in axes.lines])
    assert set(drawn[np.isfinite(drawn)]) == {7.0}


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_the_figure_is_saved_in_the_format_of_the_file(tmp_path: Path, ending: str):
    path = tmp_path / f"curve.{ending}"
    save_learning_curve(table(), path)
    if ending == "png":
        with Image.open(path) as picture:
            assert picture.size == (1120, 700)
    assert path.read_bytes()[:4] in (b"\x89PNG", b"%PDF", b"<?xm")


def test_nothing_is_drawn_before_the_first_episode_is_over():
    late = table().with_columns(pl.when((pl.col("seed") == 1) | (pl.col("timestep") > 0)).then("return"))
    found = curves(late)
    assert np.isnan(found.values[0]).tolist() == [step < 50 for step in found.timesteps]
    np.testing.assert_array_equal(found.band()[0][found.timesteps < 50], 0)  # that of the other run
    never = late.with_columns(pl.lit(None, pl.Float64).alias("return"))
    axes = learning_curve(pl.concat([late, never.with_columns(method=pl.lit("a2c-asym-s"))]), references=False).axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a2c, 2 runs"]  # pyright: ignore
    assert not learning_curve(never, references=False).axes[0].lines


def test_a_run_whose_losses_are_not_numbers_has_no_line():
    """A run that fails before it has learned has a NaN for each loss, not a null."""
    metrics = table().with_columns(
        critic_loss=pl.when(pl.col("seed") == 1).then(pl.lit(float("nan"))).otherwise(pl.lit(2.0))
    )
    found = curves(metrics, "critic_loss")
    assert found.values.shape[0] == metrics.filter(pl.col("seed") != 1)["seed"].n_unique()
    assert set(found.values.ravel()) == {2.0}
    assert not has_values(metrics.filter(pl.col("seed") == 1)["critic_loss"])
