"""The panel beside a picture: the policy with its next action, the critic's values, and at the end what followed."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from asymrl.draw import style
from asymrl.nn.distributions import Categorical, Greedy, MultiCategorical
from asymrl.report.panels import MOST_BARS, agent_panel
from asymrl.runs.playback import Playback

NAMES = ("north", "south", "east")


def playback(actions: int = 3) -> Playback:
    shares = np.full((4, actions), 0.1 / (actions - 1))
    shares[:, 1] = 0.9
    chosen, rewards = np.array([1, 1, 0, 1]), np.array([0.0, 0.0, 0.0, 1.0])
    values = np.array([0.5, 0.6, 0.7, 0.8])
    return Playback(None, None, chosen, rewards, shares, values, False, "V(h, s)", 0.9, Categorical(actions))


def drawn(played: Playback, names: tuple[str, ...], t: int) -> Axes:
    ax = Figure().add_subplot()
    agent_panel(played, names, t)(ax)
    return ax


def words(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_the_next_action_stands_out():
    ax = drawn(playback(), NAMES, 2)
    bold = [text.get_text() for text in ax.texts if text.get_fontweight() == "bold"]
    assert bold == ["north", "0.05", "next: north", "+0.7"]
    bars, _ = ax.child_axes
    width: dict[str, list[float]] = {}
    for bar in bars.patches:
        assert isinstance(bar, Rectangle)
        width.setdefault(to_hex(bar.get_facecolor()).upper(), []).append(bar.get_width())
    np.testing.assert_allclose(width[style.BLUE], [0.05])
    np.testing.assert_allclose(width[style.SKY], [0.9, 0.05])


def test_the_values_of_a_greedy_policy_have_a_scale_of_their_own():
    values = np.array([[-3.0, -1.0, -2.0], [-1.0, -5.0, -2.0], [-4.0, -3.0, -2.0], [-3.0, -1.0, -2.0]])
    played = playback()._replace(policy=values, distribution=Greedy(3), actions=np.array([1, 0, 2, 1]))
    ax = drawn(played, NAMES, 1)
    assert {"values Q(h, a)", "next: north", "-1.00", "-5.00", "-2.00"} <= set(words(ax))
    lengths = [bar.get_width() for bar in ax.child_axes[0].patches if isinstance(bar, Rectangle)]
    np.testing.assert_allclose(lengths[1::2], [1.0, 0.0, 0.75])  # between -5 and -1, those of the whole episode


def test_of_a_vector_of_indices_each_entry_has_a_bar():
    kind, policy = MultiCategorical((3, 2)), np.tile([0.2, 0.5, 0.3, 0.9, 0.1], (4, 1))
    played = playback()._replace(policy=policy, distribution=kind, actions=np.tile([2, 0], (4, 1)))
    ax = drawn(played, ("lever", "switch"), 0)
    assert {"lever", "switch", "next: 2, 0"} <= set(words(ax))
    dark = [bar for bar in ax.child_axes[0].patches if to_hex(bar.get_facecolor()).upper() == style.BLUE]
    spans = [(bar.get_x(), bar.get_width()) for bar in dark if isinstance(bar, Rectangle)]
    np.testing.assert_allclose(spans, [(0.7, 0.3), (0.0, 0.9)])


def test_values_are_shown_up_to_now_and_returns_only_at_the_end():
    def lines(t: int) -> dict[str, list[float]]:
        critic = drawn(playback(), NAMES, t).child_axes[-1]
        curves = [line for line in critic.lines if line.get_marker() == "None"]
        return {
            str(line.get_color()): np.asarray(line.get_ydata()).tolist()
            for line in curves
            if line.get_color() in (style.BLUE, style.VERMILION)
        }

    assert lines(1) == {style.BLUE: [0.5, 0.6]}
    over = lines(4)
    assert over[style.BLUE] == [0.5, 0.6, 0.7, 0.8]
    np.testing.assert_allclose(over[style.VERMILION], [0.729, 0.81, 0.9, 1.0])
    assert "critic V(h, s)" in words(drawn(playback(), NAMES, 4))


def test_scales_do_not_move_during_an_episode():
    limits = {
        (axes.get_xlim(), axes.get_ylim()) for t in range(5) for axes in [drawn(playback(), NAMES, t).child_axes[-1]]
    }
    assert len(limits) == 1


def test_of_many_actions_the_likeliest_are_shown_and_always_the_next():
    names = tuple(f"action {a}" for a in range(20))
    played = playback(20)._replace(actions=np.array([1, 1, 19, 1]))
    shown = [word for word in words(drawn(played, names, 2)) if word.startswith("action")]
    assert len(shown) == MOST_BARS
    assert shown[0] == "action 1"
    assert shown[-1] == "action 19"
