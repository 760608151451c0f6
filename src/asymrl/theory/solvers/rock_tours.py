"""Bounds for RockSample of any size, from its structure: the position is known, and rocks do not depend on each other.

A belief of RockSample is a place and a probability for each rock. There are far too many of them to enumerate, yet
every good policy is a tour through some of the rocks. The best tours of three other agents bound the real one:

* One that knows from the start which rocks are good is never worse (`full_information`).
* One whose sensor is right at any distance, but takes a step for each rock, is never worse, and much closer (`high`).
* One that checks each rock at most once from afar, only where the sensor is right with at least probability p, and
  then relies on no more than p, is never better (`low`). It forgets a rock that looks bad, and may check again on the
  rock, where the real sensor is always right. The best of a few values of p counts.

Each needs a value for every place and every set of rocks that are left; the last two distinguish rocks that are not
checked yet from those that look good, so their time grows with 3^k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int

from asymrl.worlds.builtin.rock_sample import BAD_ROCK, EXIT, GOOD_ROCK
from asymrl.worlds.builtin.rock_terrain import CHECK, EAST, SAMPLE, Terrain
from asymrl.worlds.reference_scores import Score

MOST_ROCKS_OF_TOURS = 12  # 3^12 sets in 13 places: 55 megabytes, a few seconds
# How reliable a check from afar has to be for the lower bound, as quantiles of the accuracy of all checks.
CHECKS_LEFT_OUT = (0.5, 0.65, 0.8, 0.85)


@dataclass(frozen=True)
class RockBounds:
    """Returns of the best agents of three kinds, and how long the last one takes."""

    full_information: float
    """Of an agent that knows which rocks are good."""
    high: float
    """Of an agent whose sensor is always right: no other has a higher return."""
    low: float
    """Of an agent that checks each rock once from afar or where it lies: the real one can do the same."""
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
    informed, few_actions = _informed_tours(terrain, discount)
    cells = [x * terrain.n + y for x, y in terrain.rocks]
    sensor = terrain.accuracy()[[*cells, terrain.start]]
    high, _ = _sensor_tours(terrain, discount, 1.0, np.ones_like(sensor, bool))
    low, actions = max(
        _sensor_tours(terrain, discount, float(accuracy), sensor >= accuracy)
        for accuracy in np.quantile(sensor, CHECKS_LEFT_OUT)
    )
    return RockBounds(informed, high, low, max(few_actions, actions))


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
            continuation = discount * (move @ good + here * (bad - good) / actions)
            good, bad = here * GOOD_ROCK / actions + continuation, here * BAD_ROCK / actions + discount * move @ bad
        total += (good[terrain.start] + bad[terrain.start]) / 2
    return float(total)


def _informed_tours(terrain: Terrain, discount: float) -> tuple[float, int]:
    """The mean return of the best tours over all sets of good rocks, and the largest number of actions."""
    k = len(terrain.rocks)
    far, out = _distances(terrain)
    values, lengths = np.zeros((2**k, k + 1)), np.zeros((2**k, k + 1), int)
    for subset in range(2**k):
        js = np.flatnonzero(subset >> np.arange(k) & 1)
        rest = subset ^ (1 << js)
        collected = discount ** far[:, js] * (GOOD_ROCK + discount * values[rest, js])
        options = np.column_stack([EXIT * discount ** (out - 1.0), collected])
        steps = np.column_stack([out, far[:, js] + 1 + lengths[rest, js]])
        values[subset], lengths[subset] = options.max(1), steps[np.arange(k + 1), options.argmax(1)]
    return float(values[:, k].mean()), int(lengths[:, k].max())


def _sensor_tours(
    terrain: Terrain, discount: float, accuracy: float, can_check: Bool[np.ndarray, "places k"]
) -> tuple[float, int]:
    """The return of the best agent whose checks from afar are right with this probability, and its largest length.

    It checks rocks only from the places given. If the real sensor is at least as good there, the real agent can imitate
    it. Rocks are checked before setting out, since checking on the way costs the same.

    A set of rocks is a number with a digit of 0, 1 or 2 for each: gone or looks bad, looks good, not checked yet. A
    step lowers one digit, so sets are solved in the order of their sums of digits.
    """
    k = len(terrain.rocks)
    far, out = _distances(terrain)
    power = 3 ** np.arange(k)
    digits = np.arange(3**k)[:, None] // power % 3
    total = digits.sum(1)
    values, lengths = np.zeros((3**k, k + 1)), np.zeros((3**k, k + 1), np.int32)
    for level in range(2 * k + 1):
        here = np.flatnonzero(total == level)
        best, longest = np.tile(EXIT * discount ** (out - 1.0), (here.size, 1)), np.tile(out, (here.size, 1))
        for j in range(k):
            for digit, belief in ((1, accuracy), (2, 0.5)):  # go to a rock that looks good, or that is not checked yet
                (rows,) = np.nonzero(digits[here, j] == digit)
                rest = here[rows] - digit * power[j]
                then = values[rest, j]
                at_once = (2 * belief - 1) * GOOD_ROCK + discount * then
                checked = discount * (belief * (GOOD_ROCK + discount * then) + (1 - belief) * then)
                arrived = np.maximum(at_once, checked)[:, None]
                steps = far[:, j] + 2 + lengths[rest, j][:, None]
                _improve(best, longest, rows, discount ** far[:, j] * arrived, steps)
            if_good, if_bad = here[rows] - power[j], here[rows] - 2 * power[j]
            check_values = np.where(can_check[:, j], discount * (values[if_good] + values[if_bad]) / 2, -np.inf)
            _improve(best, longest, rows, check_values, 1 + np.maximum(lengths[if_good], lengths[if_bad]))
        values[here], lengths[here] = best, longest
    return float(values[-1, k]), int(lengths[-1, k])


def _improve(
    best: Float64[np.ndarray, "sets places"],
    longest: Int[np.ndarray, "sets places"],
    rows: Int[np.ndarray, "some"],
    value: Float64[np.ndarray, "some places"],
    steps: Int[np.ndarray, "some places"],
) -> None:
    """Takes another option where it is better."""
    better = value > best[rows]
    best[rows], longest[rows] = np.where(better, value, best[rows]), np.where(better, steps, longest[rows])


def _distances(terrain: Terrain) -> tuple[Int[np.ndarray, "places k"], Int[np.ndarray, "places"]]:
    """Moves from each rock, and from the start in the last row, to each rock and out of the grid."""
    places = np.array([*terrain.rocks, divmod(terrain.start, terrain.n)])
    return np.abs(places[:, None] - places[None, :-1]).sum(-1), terrain.n - places[:, 0]
