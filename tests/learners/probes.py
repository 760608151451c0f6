"""Tiny problems whose values and best actions are known, all in one world.

An episode is one of the probes, with equal chances, and what is seen first says which. They share a world because
compiling a program takes longer than training one. Two actions, LEFT and RIGHT; which one is taken matters only where
the last column says so.

| probe      | sees       | then                       | tests                                 |
|------------|------------|----------------------------|---------------------------------------|
| constant   | o0         | 1                          | the critic learns at all              |
| sight      | o1 or o2   | 1 or -1                    | values depend on what is seen         |
| patience   | o3, o4     | 0, then 1                  | discounting                           |
| choice     | o5         | 1 for LEFT, -1 for RIGHT   | the actor learns at all               |
| judgement  | o6 or o7   | 1 for LEFT, or for RIGHT   | actions depend on what is seen        |
| secret     | o8         | 1 or -1, by a hidden coin  | V(s) and V(h, s) know it, V(h) can't  |
"""

from __future__ import annotations

import numpy as np

from asymrl.worlds.finite import FiniteWorld

LEFT, RIGHT = 0, 1
DISCOUNT = 0.8
TIME_LIMIT = 2

# Each state: what is seen there, the rewards of LEFT and RIGHT, and the value under the best policy.
CONSTANT, GOOD, BAD, LATER, NOW, CHOICE, GO_LEFT, GO_RIGHT, LUCKY, UNLUCKY = range(10)
SEEN = (0, 1, 2, 3, 4, 5, 6, 7, 8, 8)
REWARDS = ((1, 1), (1, 1), (-1, -1), (0, 0), (1, 1), (1, -1), (1, -1), (-1, 1), (1, 1), (-1, -1))
VALUES = (1.0, 1.0, -1.0, DISCOUNT, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0)
# Where the action matters, the right one.
ACTIONS = {CHOICE: LEFT, GO_LEFT: LEFT, GO_RIGHT: RIGHT}


def probes() -> FiniteWorld:
    S, A, O = len(SEEN), 2, max(SEEN) + 1
    T = np.tile(np.eye(S)[:, None], (1, A, 1))
    T[LATER] = np.eye(S)[NOW]
    ends = np.ones((S, A), bool)
    ends[LATER] = False
    start = np.ones(S)
    start[NOW] = 0
    emits = np.eye(O)[list(SEEN)]
    return FiniteWorld.from_tables(
        "probes",
        T=T,
        O=np.stack([emits] * A),
        R=np.array(REWARDS, float),
        start=start / start.sum(),
        D=ends,
        first_O=emits,
        discount=DISCOUNT,
        time_limit=TIME_LIMIT,
    )
