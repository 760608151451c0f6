"""Agents of Heaven-Hell and Shopping that are experts with given probabilities before and after they are informed.

Each remembers its place and what it was told, which is all that its belief depends on while it buys nothing in vain.
"""

from __future__ import annotations

import numpy as np

from asymrl.theory.policies import Controller
from asymrl.worlds.finite_worlds import BUY, DOWN, EAST, LEFT, NORTH, QUERY, RIGHT, SOUTH, UP, WEST

STAGES = {"random": (0.0, 0.0), "random, then good": (0.0, 0.9), "good": (0.9, 0.9)}
"""Named agents: the probability of the expert's action before it is informed, and after. Otherwise it acts at random."""


def half_expert(world: str, before: float, after: float) -> Controller:
    """The agent of a world, `heaven-hell-N` or `shopping-N`.

    Raises:
        ValueError: for another world.
    """
    kind, _, size = world.rpartition("-")
    agents = {"heaven-hell": asking_agent, "shopping": shopping_agent}
    if kind not in agents or not size.isdigit():
        raise ValueError(f"{world}: there are experts for heaven-hell-N and shopping-N only")
    return agents[kind](int(size), before, after)


def asking_agent(n: int, before: float, after: float) -> Controller:
    """Heaven-Hell-n: goes to the priest, and from there to heaven.

    It remembers its cell and the priest's word: z = word * cells + cell, word 0 for none.
    """
    cells, priest = 4 * n + 2, 4 * n + 1
    to_priest = np.full(cells, SOUTH)  # down the northern corridor, and from the start to the corner
    to_priest[n + 1 : 2 * n + 1], to_priest[2 * n + 1 : 3 * n + 1] = EAST, WEST  # back to the fork
    to_priest[3 * n + 1 :] = EAST
    best = [to_priest]
    for side in (WEST, EAST):
        to_exit = np.full(cells, side)  # from the fork on
        to_exit[:n] = to_exit[3 * n + 1] = NORTH
        to_exit[3 * n + 2 :] = WEST  # back from the priest
        best.append(to_exit)

    def follow(z: np.ndarray, a: np.ndarray, o: np.ndarray) -> np.ndarray:
        word = np.where(o >= priest, o - priest + 1, z // cells)
        return word * cells + np.minimum(o, priest)

    return Controller(_soft(best, (before, after, after), 4), np.zeros(cells + 2, int), follow)


def shopping_agent(n: int, before: float, after: float) -> Controller:
    """Shopping-n: asks where the item is, walks there and buys.

    It remembers its own position and what it was told: z = word * cells + position, word 0 for nothing.
    """
    cells = n * n
    x, y = np.divmod(np.arange(cells), n)
    best = [np.full(cells, QUERY)]
    for item in range(cells):
        to_x, to_y = divmod(item, n)
        sideways = np.where(x < to_x, RIGHT, LEFT)
        best.append(np.where(x != to_x, sideways, np.where(y < to_y, UP, np.where(y > to_y, DOWN, BUY))))

    def follow(z: np.ndarray, a: np.ndarray, o: np.ndarray) -> np.ndarray:
        word, position = np.divmod(z, cells)
        return np.where(a == QUERY, (o - cells + 1) * cells + position, word * cells + o)

    return Controller(_soft(best, (before, *[after] * cells), 6), np.zeros(2 * cells + 1, int), follow)


def _soft(best: list[np.ndarray], expert: tuple[float, ...], actions: int) -> np.ndarray:
    """The rows of all words, `[words * places, actions]`: the best action with a probability, else a random one."""
    rows = [p * np.eye(actions)[action] + (1 - p) / actions for p, action in zip(expert, best, strict=True)]
    return np.concatenate(rows)
