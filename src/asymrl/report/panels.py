"""A panel beside the picture of a world: the policy of the agent and the values of its critic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asymrl.draw import style
from asymrl.draw.style import Axes
from asymrl.nn.distributions import Categorical, Gaussian, Greedy, JointActions, MultiCategorical
from asymrl.runs.playback import Playback
from asymrl.worlds.spaces import value_text

MOST_BARS = 8  # if a world has more actions, only the likeliest are shown
MOST_LETTERS = 24  # of the next action
POLICY, VALUES = "policy π(a; h)", "values Q(h, a)"
# Positions in the panel, as fractions of its axes. The card around it starts further left, with room for labels.
EDGE, LETTER = -0.2, 0.031  # the left edge of all text, and the width of a letter of a label
POLICY_BOTTOM, POLICY_TOP, CRITIC_BOTTOM, CRITIC_TOP, TITLE_ABOVE = 0.56, 1.0, 0.0, 0.41, 0.052


def agent_panel(playback: Playback, action_names: Sequence[str], t: int) -> Callable[[Axes], None]:
    """A function that draws the policy after `t` actions, the next action, and the critic's values up to then.

    At the end of the episode it also draws what the values predict: the discounted sum of later rewards.
    """

    def draw(ax: Axes) -> None:
        ax.set_axis_off()
        if t < len(playback.actions):
            _draw_policy(ax, playback, action_names, t)
        else:
            _title(ax, POLICY_TOP, VALUES if isinstance(playback.distribution, Greedy) else POLICY)
            _write(ax, 0.4, (POLICY_BOTTOM + POLICY_TOP) / 2, "the episode has ended", colour=style.MUTED, ha="center")
        _draw_critic(ax, playback, t)

    return draw


def _draw_policy(ax: Axes, playback: Playback, names: Sequence[str], t: int) -> None:
    policy, action = playback.policy[t], playback.actions[t]
    match playback.distribution:
        case Gaussian() | MultiCategorical() | JointActions():
            _draw_entries(ax, playback, names, t)
        case Greedy():
            low, high = float(playback.policy.min()), float(playback.policy.max())
            lengths = (policy - low) / max(high - low, 1e-6)
            _draw_bars(ax, lengths, policy, int(action), names, VALUES)
        case Categorical():
            _draw_bars(ax, policy, policy, int(action), names, POLICY)


def _draw_bars(
    ax: Axes, lengths: np.ndarray, numbers: np.ndarray, next_action: int, names: Sequence[str], title: str
) -> None:
    """A bar for each action, or for the likeliest; the next action is dark. The longest bar has length 1."""
    shown = _actions_shown(lengths, next_action)
    left = max(0.0, EDGE + LETTER * max(len(name) for name in names) + 0.04)
    bars = ax.inset_axes((left, POLICY_BOTTOM, 1 - left, POLICY_TOP - POLICY_BOTTOM))
    bars.set_axis_off()
    bars.set_xlim(0, 1)
    rows = max(len(shown), 4)
    bars.set_ylim(rows - 0.5, -0.5)
    for row, a in enumerate(shown):
        share, is_next = float(lengths[a]), a == next_action
        bars.barh(row, 1, height=0.76, color=style.PAPER, zorder=1)
        bars.barh(row, share, height=0.76, color=style.BLUE if is_next else style.SKY, zorder=2)
        y = POLICY_TOP - (POLICY_TOP - POLICY_BOTTOM) * (row + 0.5) / rows
        _write(ax, EDGE, y, names[a], bold=is_next)
        inside = share > 0.75
        colour = style.PAPER if inside and is_next else style.INK
        x = left + (1 - left) * share + (-0.02 if inside else 0.02)
        _write(ax, x, y, f"{numbers[a]:.2f}", bold=is_next, colour=colour, ha="right" if inside else "left")
    some = f", top {len(shown)}" if len(shown) < len(names) else ""
    _title(ax, POLICY_TOP, f"{title}{some}")
    _note(ax, POLICY_TOP, f"next: {names[next_action]}", style.BLUE)


def _draw_entries(ax: Axes, playback: Playback, names: Sequence[str], t: int) -> None:
    """A row for each entry of the action.

    A choice is a bar, divided by the probabilities of its indices; the next one is dark. A number is a line from bound
    to bound with mean and spread, and a dot for the value taken.
    """
    choices, numbers = playback.entries(t)
    left = max(0.0, EDGE + LETTER * max(len(name) for name in names) + 0.04)
    rows_ax = ax.inset_axes((left, POLICY_BOTTOM, 1 - left, POLICY_TOP - POLICY_BOTTOM))
    rows_ax.set_axis_off()
    rows_ax.set_xlim(0, 1)
    count = min(len(names), MOST_BARS)
    rows = max(count, 4)
    rows_ax.set_ylim(rows - 0.5, -0.5)
    action = np.ravel(playback.actions[t])
    for row in range(count):
        if row < len(choices):
            _draw_choice(rows_ax, row, choices[row], int(action[row]))
        else:
            _draw_number(rows_ax, row, *_coordinates(playback, t, row - len(choices)), float(action[row]))
        _write(ax, EDGE, POLICY_TOP - (POLICY_TOP - POLICY_BOTTOM) * (row + 0.5) / rows, names[row])
    some = f", first {count}" if count < len(names) else ""
    _title(ax, POLICY_TOP, f"{POLICY}{', ± spread' if numbers else ''}{some}")
    _note(ax, POLICY_TOP, f"next: {_shortened(value_text(playback.taken(t)))}", style.BLUE)


def _draw_choice(ax: Axes, row: int, shares: np.ndarray, index: int) -> None:
    for i, (share, end) in enumerate(zip(shares, np.cumsum(shares), strict=True)):
        colour = style.BLUE if i == index else style.SKY
        ax.barh(row, share, left=end - share, height=0.76, color=colour, edgecolor=style.CARD, linewidth=1)


def _draw_number(ax: Axes, row: int, mean: float, spread: float, value: float) -> None:
    """In coordinates where -1 and 1 are the bounds; what lies up to half a width outside is still drawn."""

    def place(x: float) -> float:
        return float(np.clip(x, -2, 2)) / 4 + 0.5

    ax.plot([place(-1), place(1)], [row, row], color=style.FAINT, linewidth=1, zorder=1)
    ends = [place(mean - spread), place(mean + spread)]
    ax.plot(ends, [row, row], color=style.SKY, linewidth=5, zorder=2, solid_capstyle="butt")
    ax.plot(place(value), row, "o", color=style.BLUE, markersize=5, zorder=3)


def _coordinates(playback: Playback, t: int, i: int) -> tuple[float, float]:
    """Mean and spread of a number as the policy has them, where -1 and 1 are the bounds."""
    kind, shown = playback.distribution, playback.policy[t]
    of_numbers = kind.of_parts(shown)[-1] if isinstance(kind, JointActions) else shown
    means, spreads = np.split(of_numbers, 2)
    return float(means[i]), float(spreads[i])


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"


def _actions_shown(shares: np.ndarray, next_action: int) -> list[int]:
    """All actions in order, or if there are many the likeliest first; always with the chosen one."""
    if len(shares) <= MOST_BARS:
        return list(range(len(shares)))
    likeliest = np.argsort(-shares, kind="stable")[:MOST_BARS].tolist()
    return likeliest if next_action in likeliest else [*likeliest[:-1], next_action]


def _draw_critic(ax: Axes, playback: Playback, t: int) -> None:
    """The critic's values so far; at the end, also the returns that followed."""
    T = len(playback.actions)
    values = ax.inset_axes((0, CRITIC_BOTTOM, 1, CRITIC_TOP - CRITIC_BOTTOM))
    values.set_facecolor(style.PAPER)
    values.set_xlim(0, max(T - 1, 1))
    values.set_ylim(*_limits(playback))
    values.axhline(0, color=style.FAINT, linewidth=0.8, zorder=1)
    values.plot(playback.values[: t + 1], color=style.BLUE, linewidth=1.8, zorder=3, solid_capstyle="round")
    if t < T:
        values.plot(t, playback.values[t], "o", color=style.BLUE, markersize=5, zorder=4, clip_on=False)
        _note(ax, CRITIC_TOP, style.signed(float(playback.values[t])), style.BLUE)
    else:
        values.plot(playback.returns_to_go(), color=style.VERMILION, linewidth=1.0, zorder=2)
        _note(ax, CRITIC_TOP, "return that followed", style.VERMILION)
    _scales(values)
    _title(ax, CRITIC_TOP, _shortened(f"critic {playback.critic}"))


def _limits(playback: Playback) -> tuple[float, float]:
    """Room for all values of the episode, so that nothing moves from frame to frame."""
    numbers = np.concatenate([playback.values, playback.returns_to_go(), [0.0]])
    low, high = float(numbers.min()), float(numbers.max())
    room = 0.08 * max(high - low, 1e-3)
    return low - room, high + room


def _scales(ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(4))
    ax.tick_params(
        length=2.5,
        width=0.6,
        color=style.FAINT,
        labelcolor=style.MUTED,
        labelsize=7.0,
        pad=2,
        labelfontfamily=style.FONT,
    )
    ax.set_xlabel("step", fontsize=7.5, color=style.MUTED, labelpad=1.5, fontfamily=style.FONT)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(style.FAINT)


def _title(ax: Axes, top: float, text: str) -> None:
    _write(ax, EDGE, top + TITLE_ABOVE, text, colour=style.MUTED, size=style.BODY)


def _note(ax: Axes, top: float, text: str, colour: str) -> None:
    _write(ax, 1.0, top + TITLE_ABOVE, text, colour=colour, ha="right", bold=True)


def _write(
    ax: Axes, x: float, y: float, text: str, *, colour: str = style.INK, size: float = style.SMALL, bold: bool = False,
    ha: Any = "left",
) -> None:  # fmt: skip
    """Text at a position in the panel."""
    ax.text(
        x, y, text, transform=ax.transAxes, fontfamily=style.FONT, fontsize=size, color=colour,
        fontweight="bold" if bold else "normal", ha=ha, va="center_baseline", parse_math=False, zorder=6,
    )  # fmt: skip
