"""Problems and agents that the facts are about."""

from __future__ import annotations

import numpy as np

from agents import asking_agent
from asymrl.theory.exact.policies import Controller
from asymrl.worlds import FiniteWorld, make
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
    """Heaven-Hell: acts uniformly until it has heard the priest; afterwards as an expert with this probability."""
    return asking_agent(n, 0.0, expert)
