"""The tiger problem and the paper's good/bad problem."""

from __future__ import annotations

import numpy as np

from tests.oracles.tables import Tables

LISTEN, OPEN_LEFT, OPEN_RIGHT = range(3)
GOOD, BAD = range(2)


def tiger(episodic: bool) -> Tables:
    world = Tables(2, 3, 2, np.array([0.5, 0.5]))
    for tiger_side, other_side in ((0, 1), (1, 0)):
        world.go(tiger_side, LISTEN, {tiger_side: 1.0}, -1.0)
        world.see(LISTEN, tiger_side, {tiger_side: 0.85, other_side: 0.15})
        for door, action in ((0, OPEN_LEFT), (1, OPEN_RIGHT)):
            reward = -100.0 if door == tiger_side else 10.0
            if episodic:
                world.end(tiger_side, action, reward)
            else:
                world.go(tiger_side, action, {0: 0.5, 1: 0.5}, reward)
            world.see(action, tiger_side, {0: 0.5, 1: 0.5})
    return world


def good_bad() -> Tables:
    world = Tables(2, 2, 2, np.array([0.5, 0.5]))
    for state in (GOOD, BAD):
        for action in (GOOD, BAD):
            world.go(state, action, {state: 1.0}, 1.0 if action == GOOD else 0.0)
            world.see(action, state, {GOOD: 1.0} if state == GOOD else {GOOD: 0.5, BAD: 0.5})
    return world
