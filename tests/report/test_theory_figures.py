"""Pictures show the numbers of the analysis."""

import math

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asymrl import theory
from asymrl.report.theory_figures import draw_bias_tree, draw_pushes, picture
from tests.theory.exact.worlds import heard_the_priest


def test_td0_pushes_back_from_the_priest() -> None:
    """East leads to the priest; of all critics only TD(0) on states lowers it."""
    analysis = theory.analyse("heaven-hell-3", heard_the_priest(3))
    axes = Figure().subplots()
    draw_pushes(axes, analysis, ((1, 10), (2, 11)))
    bars = np.array([[bar.get_height() for bar in group] for group in axes.containers])  # pyright: ignore
    east = bars[:, 2]
    np.testing.assert_allclose(east[0], east[1], atol=1e-12)
    assert east[0] > 0.1
    assert np.flatnonzero(east < 0).tolist() == [4]
    np.testing.assert_allclose(bars.sum(1), 0, atol=1e-12)


def test_tree_shows_the_likeliest_histories_with_their_bias() -> None:
    analysis = theory.analyse("heaven-hell-1", heard_the_priest(1))
    axes = Figure().subplots()
    draw_bias_tree(axes, analysis, depth=2)
    shown = np.asarray(axes.collections[0].get_array())
    graph = analysis.graph
    expected = analysis.value_bias("td0")[graph.time <= 2]
    np.testing.assert_allclose(np.sort(shown), np.sort(expected), atol=1e-15)


def test_a_tree_needs_a_horizon() -> None:
    with pytest.raises(ValueError, match="needs a horizon"):
        picture(theory.analyse("tiger", horizon=math.inf), "tiger")


def test_picture_with_another_panel() -> None:
    analysis = theory.analyse("tiger", horizon=3)

    def draw_return(axes: Axes, shown: theory.Analysis) -> None:
        axes.set_title(f"return {shown.J:.2f}")

    figure = picture(analysis, "tiger", more=[draw_return])
    assert figure.axes[2].get_title() == f"return {analysis.J:.2f}"
