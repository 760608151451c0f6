"""Bounds for RockSample of any size, from its structure: the position is known, and rocks do not depend on each other.

A belief of RockSample is a place and a probability for each rock. There are far too many of them to enumerate, yet
every good policy is a tour through some of the rocks. The best tours of three other agents bound the real one:

* One that knows from the start which rocks are good is never worse (`full_information`).
* One whose sensor is right at any distance, but takes a step for each rock, is never worse, and much closer (`high`).
* One that only checks the rock it stands on, where the real sensor is always right, is never better (`low`).

Each needs a value for every place and every set of rocks that are left; the second one distinguishes rocks that are not
checked yet from good ones, so its time grows with 3^k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int

from asymrl.worlds.reference_scores import Score
from asymrl.worlds.rock_sample import BAD_ROCK, CHECK, EAST, EXIT, GOOD_ROCK, SAMPLE, Terrain

MOST_ROCKS_OF_TOURS = 12  # 3^12 sets in 13 places: 55 megabytes, a second


@dataclass(frozen=True)
class RockBounds:
    """Returns of the best agents of three kinds, and how long the last one takes."""

    full_information: float
    """Of an agent that knows which rocks are good."""
    high: float
    """Of an agent whose sensor is always right: no other has a higher return."""
    low: float
    """Of an agent that checks the rocks it stands on: the real one can do the same."""
    longest: int
    """The largest number of actions that the first and the last agent take in an episode."""


def rock_bounds(terrain: Terrain, discount: float) -> RockBounds:
    """Bounds on the optimal return of RockSample, without a time limit.

    With one, the upper bounds remain valid, and so does `low` if `longest` is not beyond the limit.

    Raises:
        ValueError: if there are too many rocks.
    """
    k = len(terrain.rocks)
    if k > MOST_ROCKS_OF_TOURS:
        most = MOST_ROCKS_OF_TOURS
        raise ValueError(f"{terrain.name}: bounds for {k} rocks need 3^{k} values; at most {most} rocks are possible")

    def sees(then: Float64[np.ndarray, "j"]) -> Float64[np.ndarray, "j"]:
        return GOOD_ROCK + discount * then

    def visits(then: Float64[np.ndarray, "j"]) -> Float64[np.ndarray, "j"]:
        return discount * ((GOOD_ROCK + discount * then) + then) / 2

    seen, few_actions = _tours(terrain, discount, sees, 1)
    visited, actions = _tours(terrain, discount, visits, 2)
    longest = int(max(few_actions.max(), actions[-1]))
    return RockBounds(float(seen.mean()), _sensor_tours(terrain, discount), float(visited[-1]), longest)


def rock_returns(terrain: Terrain, horizon: int, discount: float) -> dict[str, Score]:
    """The reference returns of RockSample that can be computed in any size.

    Raises:
        ValueError: if there are too many rocks.
    """
    bounds, chance = rock_bounds(terrain, discount), uniform_rock_return(terrain, horizon, discount)
    fits = bounds.longest <= horizon
    low = bounds.low if fits else 0.0  # the return of checking until the time is over
    # Without a check, sampling a rock gains nothing on average, so the best is to leave at once.
    unseen = EXIT * discount ** (terrain.n - 1) if terrain.n <= horizon else 0.0
    informed = bounds.full_information
    return {
        "random": Score(chance, chance, "exact"),
        "best": Score(low, bounds.high, "exact" if low == bounds.high else "bounds"),
        "uninformed": Score(unseen, unseen, "exact"),
        "full_information": Score(informed, informed, "exact" if fits else "bounds"),
    }


def uniform_rock_return(terrain: Terrain, horizon: int, discount: float) -> float:
    """The exact return of uniformly random actions, rock by rock: each is a chain of the place and its own state."""
    cells, actions = terrain.cells, CHECK + len(terrain.rocks)
    leaves = np.arange(cells) // terrain.n == terrain.n - 1
    move = np.zeros((cells, cells))
    for direction, target in enumerate(terrain.moves().T):
        stays = leaves & (direction == EAST)
        np.add.at(move, (np.arange(cells)[~stays], target[~stays]), 1 / actions)
    move[np.arange(cells), np.arange(cells)] += (actions - SAMPLE) / actions  # sample and checks
    value = np.zeros(cells)
    for _ in range(horizon):
        value = leaves * EXIT / actions + discount * move @ value
    total = value[terrain.start]
    for x, y in terrain.rocks:
        here = np.arange(cells) == x * terrain.n + y
        good, bad = np.zeros(cells), np.zeros(cells)
        for _ in range(horizon):
            kept = discount * (move @ good + here * (bad - good) / actions)
            good, bad = here * GOOD_ROCK / actions + kept, here * BAD_ROCK / actions + discount * move @ bad
        total += (good[terrain.start] + bad[terrain.start]) / 2
    return float(total)


def _tours(
    terrain: Terrain,
    discount: float,
    worth: Callable[[Float64[np.ndarray, "j"]], Float64[np.ndarray, "j"]],
    work: int,
) -> tuple[Float64[np.ndarray, "sets"], Float64[np.ndarray, "sets"]]:
    """The return of the best tour from the start, for each set of rocks that it may visit, and its largest length.

    Args:
        terrain: the grid.
        discount: of the returns.
        worth: what arriving at a rock returns, from what is returned after it.
        work: the largest number of actions at a rock.
    """
    k = len(terrain.rocks)
    far, out = _distances(terrain)
    values, lengths = np.zeros((2**k, k + 1)), np.zeros((2**k, k + 1))
    for left in range(2**k):
        js = np.flatnonzero(left >> np.arange(k) & 1)
        rest = left ^ (1 << js)
        options = np.column_stack([EXIT * discount ** (out - 1.0), discount ** far[:, js] * worth(values[rest, js])])
        best = options.argmax(1)
        steps = np.column_stack([out, far[:, js] + work + lengths[rest, js]])
        values[left], lengths[left] = options.max(1), steps[np.arange(k + 1), best]
    return values[:, k], lengths[:, k]


def _sensor_tours(terrain: Terrain, discount: float) -> float:
    """The return of the best agent whose sensor is right at any distance.

    A set of rocks is a number with a digit of 0, 1 or 2 for each: gone or bad, good, not checked yet. A step lowers one
    digit, so sets are solved in the order of their sums of digits. Rocks are checked before setting out, since it costs
    the same on the way, and only good ones are visited.
    """
    k = len(terrain.rocks)
    far, out = _distances(terrain)
    power = 3 ** np.arange(k)
    digits = np.arange(3**k)[:, None] // power % 3
    total, leave = digits.sum(1), EXIT * discount ** (out - 1.0)
    values = np.zeros((3**k, k + 1))
    for level in range(2 * k + 1):
        here = np.flatnonzero(total == level)
        best = np.tile(leave, (here.size, 1))
        for j in range(k):
            (good,), (unknown,) = np.nonzero(digits[here, j] == 1), np.nonzero(digits[here, j] == 2)
            then = GOOD_ROCK + discount * values[here[good] - power[j], j]
            best[good] = np.maximum(best[good], discount ** far[:, j] * then[:, None])
            if_good, if_bad = (values[here[unknown] - drop * power[j]] for drop in (1, 2))
            best[unknown] = np.maximum(best[unknown], discount * (if_good + if_bad) / 2)
        values[here] = best
    return float(values[-1, k])


def _distances(terrain: Terrain) -> tuple[Int[np.ndarray, "places k"], Int[np.ndarray, "places"]]:
    """Moves from each rock, and from the start in the last row, to each rock and out of the grid."""
    places = np.array([*terrain.rocks, divmod(terrain.start, terrain.n)])
    return np.abs(places[:, None] - places[None, :-1]).sum(-1), terrain.n - places[:, 0]
