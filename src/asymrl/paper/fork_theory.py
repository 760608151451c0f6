"""The four history-state pairs of the paper's figure 4: at the fork of Heaven-Hell, before and after the priest."""

from __future__ import annotations

import re

import numpy as np
from jaxtyping import Float64

from asymrl.theory.analysis import Analysis
from asymrl.theory.counting import TooLargeError
from asymrl.theory.policies import History
from asymrl.worlds.finite_worlds import EAST, NORTH, SOUTH, WEST, corridor_moves
from asymrl.worlds.pomdp import Pomdp

SIDES = ("left", "right")
CRITICS = ("V(h, s)", "V(h)", "V(s) by Monte-Carlo", "V(s) by TD(0)")


def size_of(pomdp: Pomdp) -> int | None:
    """The n of a Heaven-Hell-n; None for other worlds."""
    named = re.fullmatch(r"heaven-hell-(\d+)", pomdp.name)
    return int(named[1]) if named else None


def fork_pairs(n: int) -> dict[str, tuple[History, int]]:
    """History and state of each pair: straight north to the fork, or first to the priest and back."""
    straight = [NORTH] * n
    informed = [SOUTH] + [EAST] * n + [WEST] * n + [NORTH] * (n + 1)
    return {
        f"heaven {side}, {words}": _walked(n, which, way)
        for words, way in (("without priest", straight), ("after the priest", informed))
        for which, side in enumerate(SIDES)
    }


def _walked(n: int, side: int, actions: list[int]) -> tuple[History, int]:
    move, cells, priest, cell, h = corridor_moves(n), 4 * n + 2, 4 * n + 1, 0, []
    for a in actions:
        cell = int(move[cell, a])
        h.append((a, priest + side if cell == priest else cell))
    return tuple(h), side * cells + cell


def fork_values(analysis: Analysis) -> Float64[np.ndarray, "pairs critics"]:
    """What each of `CRITICS` says at each pair; NaN where a history was not followed.

    Raises:
        ValueError: if the world is not Heaven-Hell.
    """
    n = size_of(analysis.pomdp)
    if n is None:
        raise ValueError(f"{analysis.pomdp.name} has no fork; heaven-hell-3 has")
    mc, td0 = analysis.visit_values("mc"), analysis.visit_values("td0")
    rows = []
    for h, s in fork_pairs(n).values():
        try:
            rows.append((analysis.V(h, s), analysis.V(h), mc[s], td0[s]))
        except TooLargeError:
            rows.append((np.nan, np.nan, mc[s], td0[s]))
    return np.array(rows)
