"""Pictures show the numbers of the analysis."""

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from asymrl import theory
from asymrl.cli import main
from asymrl.paper.fork_theory import fork_values
from asymrl.report.theory_figures import draw_bias_tree, draw_fork, draw_pushes, picture
from tests.theory.worlds import heard_the_priest


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


def test_fork_shows_what_the_critics_say_there() -> None:
    analysis = theory.analyse("heaven-hell-1", heard_the_priest(1))
    axes = Figure().subplots()
    draw_fork(axes, analysis)
    shown = np.array([[bar.get_height() for bar in group] for group in axes.containers]).T  # pyright: ignore
    np.testing.assert_allclose(shown, fork_values(analysis))
    assert shown[2, 0] == analysis.V(((1, 4), (2, 5), (3, 4), (0, 0), (0, 1)), 1)
    with pytest.raises(ValueError, match="tiger has no fork"):
        fork_values(theory.analyse("tiger", horizon=2))


def test_pictures_are_saved_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tiger.png"
    assert main(["theory", "tiger", "--horizon", "3", "-o", str(file)]) == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    assert main(["theory", "tiger", "--horizon", "3", "-o", str(tmp_path / "tiger.txt")]) == 2
    assert "unknown file ending '.txt'" in capsys.readouterr().err
    with pytest.raises(ValueError, match="needs a horizon"):
        picture(theory.analyse("tiger", horizon=math.inf), "tiger")
