"""Problems and agents that the facts are about."""

from __future__ import annotations

import numpy as np

from asymrl.theory.policies import Controller
from asymrl.worlds import FiniteWorld, make
from asymrl.worlds.finite_worlds import EAST, NORTH, WEST
from asymrl.worlds.pomdp import Pomdp


def problem(name: str) -> Pomdp:
    world = make(name)
    assert isinstance(world, FiniteWorld)
    return world.pomdp()


def load_unload(segments: int = 5) -> Pomdp:
    """A road: load at its left end, unload at its right end, 1 for each. Whether one is loaded is not seen.

    State 2 i + e is segment i, where e = 1 means empty. The reward is for acting where something has just changed.
    """
    S = 2 * segments
    T, R = np.zeros((S, 2, S)), np.zeros((S, 2))
    for i in range(segments):
        for empty in (0, 1):
            for a, to in ((0, min(i + 1, segments - 1)), (1, max(i - 1, 0))):
                here_empty = 0 if i == 0 else 1 if i == segments - 1 else empty
                T[2 * i + empty, a, 2 * to + here_empty] = 1.0
    R[1] = R[2 * segments - 2] = 1.0
    seen = np.array([0] * 2 + [2] * (S - 4) + [1] * 2)
    O = np.tile(np.eye(3)[seen], (2, 1, 1))
    world = FiniteWorld.from_tables("load-unload", T, O, R, np.full(S, 1 / S), discount=0.95, time_limit=None)
    return world.pomdp()


def heard_the_priest(n: int, expert: float = 0.9) -> Controller:
    """Heaven-Hell: acts uniformly until it has heard the priest; afterwards as an expert with this probability.

    It remembers its cell and the priest's word: z = word * cells + cell, word 0 for none.
    """
    cells, priest = 4 * n + 2, 4 * n + 1
    pi = np.full((3 * cells, 4), 0.25)
    for word, side in ((1, WEST), (2, EAST)):
        best = np.full(cells, side)  # from the fork on
        best[:n] = best[3 * n + 1] = NORTH
        best[3 * n + 2 :] = WEST  # back from the priest
        pi[word * cells + np.arange(cells)] = (1 - expert) / 4
        pi[word * cells + np.arange(cells), best] += expert

    def follow(z: np.ndarray, a: np.ndarray, o: np.ndarray) -> np.ndarray:
        word = np.where(o >= priest, o - priest + 1, z // cells)
        return word * cells + np.minimum(o, priest)

    return Controller(pi, np.zeros(cells + 2, int), follow)
