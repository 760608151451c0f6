"""Agents that are experts with given probabilities before and after they are informed, else random.

In Heaven-Hell and Shopping, an agent remembers its place and what it was told; in RockSample it acts on its belief.
"""

from __future__ import annotations

import functools

import numpy as np

from asymrl.theory.exact.policies import BeliefPolicy, Controller, HistoryPolicy
from asymrl.worlds.builtin import rock_terrain as rocks
from asymrl.worlds.builtin.heaven_hell import EAST, NORTH, SOUTH, WEST, HeavenHell
from asymrl.worlds.builtin.rock_sample import RockSample
from asymrl.worlds.builtin.shopping import BUY, DOWN, LEFT, QUERY, RIGHT, UP, Shopping
from asymrl.worlds.registry import make

SURE = 1e-6  # what a probability may lack of 0 or 1 to count as knowledge
STAGES = {"random": (0.0, 0.0), "half": (0.0, 0.9), "good": (0.9, 0.9)}
"""Agents at three stages of learning: the probability of the expert's action before they are informed, and after.

"half" acts at random until it is informed, and is good afterwards.
"""


def half_expert(world: str, before: float, after: float, *, patient: bool = False) -> HistoryPolicy:
    """The agent of a world: Heaven-Hell, Shopping or RockSample.

    Args:
        world: its name.
        before: the probability of the expert's action before the agent is informed.
        after: the same afterwards.
        patient: whether it never buys in Shopping before it is informed. Its beliefs are then few: a purchase in vain
            tells where the item is not, and there are 2^25 such sets in Shopping-5.

    Raises:
        ValueError: for another world.
    """
    env = make(world)
    if isinstance(env, HeavenHell):
        return asking_agent(env.n, before, after)
    if isinstance(env, Shopping):
        return shopping_agent(env.n, before, after, patient=patient)
    if isinstance(env, RockSample):
        return surveying_agent(env, before, after)
    raise ValueError(f"{world}: there are experts for heaven-hell-N, shopping-N and rock-sample-N-K only")


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


def shopping_agent(n: int, before: float, after: float, *, patient: bool = False) -> Controller:
    """Shopping-n: asks where the item is, walks there and buys. If it is patient, it never buys before it has asked.

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

    pi = _soft(best, (before, *[after] * cells), 6)
    if patient:
        pi[:cells, BUY] = 0.0
        pi[:cells] /= pi[:cells].sum(1, keepdims=True)
    return Controller(pi, np.zeros(2 * cells + 1, int), follow)


def surveying_agent(env: RockSample, before: float, after: float) -> BeliefPolicy:
    """RockSample: goes from rock to rock, checks each one on the spot, samples it if it is good, then leaves.

    It is informed while it knows of a good rock, and when it knows all rocks.
    """
    terrain, k = env.terrain, len(env.terrain.rocks)
    A, S = rocks.CHECK + k, env.latent_space.n
    cell, bits = np.divmod(np.arange(S), 2**k)
    good = (bits[:, None] >> np.arange(k)) & 1
    places, x, y = np.array(terrain.rocks), *np.divmod(np.arange(terrain.cells), terrain.n)

    def towards(rover: int, targets: np.ndarray) -> int:
        """The move to the nearest wanted rock, or to the exit."""
        if not targets.any():
            return rocks.EAST
        far = np.abs(places - (x[rover], y[rover])).sum(1)
        to_x, to_y = places[np.flatnonzero(targets)[np.argmin(far[targets])]]
        if to_x != x[rover]:
            return rocks.EAST if to_x > x[rover] else rocks.WEST
        return rocks.NORTH if to_y > y[rover] else rocks.SOUTH

    @functools.cache
    def row(at: int, chance: bytes) -> np.ndarray:
        p = np.frombuffer(chance)
        known_good, known_bad = p > 1 - SURE, p < SURE
        here = int(terrain.rock_at()[at])
        if here >= 0 and not known_bad[here]:
            best = rocks.SAMPLE if known_good[here] else rocks.CHECK + here
        else:
            best = towards(at, known_good if known_good.any() else ~known_bad)
        expert = after if known_good.any() or known_bad.all() else before
        return expert * np.eye(A)[best] + (1 - expert) / A

    def act(beliefs: np.ndarray, time: np.ndarray) -> np.ndarray:
        rover, chance = cell[np.argmax(beliefs, axis=1)], np.round(beliefs @ good, 9)
        return np.stack([row(int(at), p.tobytes()) for at, p in zip(rover, chance, strict=True)])

    return BeliefPolicy(env.pomdp(), act)


def _soft(best: list[np.ndarray], expert: tuple[float, ...], actions: int) -> np.ndarray:
    """The rows of all words, `[words * places, actions]`: the best action with a probability, else a random one."""
    rows = [p * np.eye(actions)[action] + (1 - p) / actions for p, action in zip(expert, best, strict=True)]
    return np.concatenate(rows)
