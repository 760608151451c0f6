"""Exact values at the paper's figure 4: four history-state pairs at the fork of Heaven-Hell."""

from __future__ import annotations

import re

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes

from asymrl.draw import style
from asymrl.report.paper.fork import PAIRS, TITLES, walks
from asymrl.report.theory_figures import COLOURS
from asymrl.theory import Analysis, History, TooLargeError
from asymrl.worlds.pomdp import Pomdp

CRITICS = ("V(h, s)", "V(h)", "V(s) by Monte-Carlo", "V(s) by TD(0)")


def has_fork(pomdp: Pomdp) -> bool:
    """Whether this is a Heaven-Hell."""
    return re.fullmatch(r"heaven-hell-\d+", pomdp.name) is not None


def fork_pairs(n: int) -> dict[str, tuple[History, int]]:
    """History and state of each pair: straight north to the fork, or first to the priest and back."""
    way = walks(n)
    pairs = {}
    for i, (name, end) in enumerate(zip(PAIRS, way.at.tolist(), strict=True)):
        actions, observations = way.before[1 : end + 1, i].tolist(), way.observations[1 : end + 1, i].tolist()
        pairs[TITLES[name]] = tuple(zip(actions, observations, strict=True)), int(way.states[end, i])
    return pairs


def fork_values(analysis: Analysis) -> Float64[np.ndarray, "pairs critics"]:
    """What each of `CRITICS` says at each pair; NaN where a history was not followed.

    Raises:
        ValueError: if the world is not Heaven-Hell.
    """
    if not has_fork(analysis.pomdp):
        raise ValueError(f"{analysis.pomdp.name} has no fork; choose a world such as heaven-hell-3")
    mc, td0 = analysis.visit_values("mc"), analysis.visit_values("td0")
    rows = []
    for h, s in fork_pairs(_size(analysis.pomdp)).values():
        try:
            rows.append((analysis.V(h, s), analysis.V(h), mc[s], td0[s]))
        except TooLargeError:
            rows.append((np.nan, np.nan, mc[s], td0[s]))
    return np.array(rows)


def draw_fork(axes: Axes, analysis: Analysis) -> None:
    """What exact critics say at the four pairs."""
    values, width = fork_values(analysis), 0.8 / len(CRITICS)
    for i, label in enumerate(CRITICS):
        x = np.arange(len(values)) + (i - (len(CRITICS) - 1) / 2) * width
        axes.bar(x, values[:, i], width, label=label, color=COLOURS[(1, 0, 2, 4)[i]])
    names = [name.replace(", ", "\n") for name in fork_pairs(_size(analysis.pomdp))]
    axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.axhline(0, color=style.MUTED, linewidth=0.8)
    axes.set(title="Values at the fork", ylabel="value", ylim=(min(0.0, np.nanmin(values)), 1.25))
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)


def _size(pomdp: Pomdp) -> int:
    return int(pomdp.name.rpartition("-")[2])
