"""Statistics over runs: bootstrap intervals, comparisons, and the differences that a number of runs can show.

After Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (2021). Scores are
`[run, task]`: a row for each run, a column for each world. Worlds are strata: runs are resampled within a world, never
across worlds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from asymrl.worlds.reference_scores import scores as reference_scores

REPETITIONS = 5_000
POWER, LEVEL = 0.8, 0.05  # the probability to show a true difference, and to show one where there is none
CHUNK = 500  # repetitions at a time, to bound the memory

# A statistic of scores `[..., run, task]`, over the last two axes.
Statistic = Callable[[Float[np.ndarray, "*more run task"]], Float[np.ndarray, "*more"]]


class Interval(NamedTuple):
    """An estimate and the bounds of its confidence interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return self.text(3)

    def text(self, digits: int) -> str:
        """The numbers with this many decimals, `0.70 [0.50, 0.90]`; never a minus before zero."""
        estimate, low, high = (f"{value:z.{digits}f}" for value in self)
        return f"{estimate} [{low}, {high}]"

    def digits(self, usual: int) -> int:
        """The usual number of decimals, or one more if a bound that is not zero would otherwise seem to be."""
        return usual + any(round(bound, usual) == 0 != round(bound, usual + 1) for bound in (self.low, self.high))


def mean(scores: Float[np.ndarray, "*more run task"]) -> Float[np.ndarray, "*more"]:
    return scores.mean(axis=(-2, -1))


def interquartile_mean(scores: Float[np.ndarray, "*more run task"]) -> Float[np.ndarray, "*more"]:
    """The mean of the middle half of all scores, without the lowest and the highest quarter.

    It depends less on single runs than the mean does, and uses more of them than the median.
    """
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = int(0.25 * flat.shape[-1])
    return flat[..., cut : flat.shape[-1] - cut].mean(axis=-1)


def bootstrap(
    scores: Float[np.ndarray, "run task"],
    statistic: Statistic = interquartile_mean,
    *,
    confidence: float = 0.95,
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> Interval:
    """A statistic with its stratified bootstrap interval, by percentiles."""
    low, high = _percentiles(statistic, [scores], confidence, repetitions, seed)
    return Interval(float(statistic(scores)), float(low), float(high))


def _percentiles(
    statistic: Callable[..., np.ndarray],
    samples: Sequence[Shaped[np.ndarray, "_run task"]],
    confidence: float,
    repetitions: int,
    seed: int,
) -> Float[np.ndarray, "2 *more"]:
    """The lower and the upper bound of a statistic over resampled runs."""
    generator = np.random.default_rng(seed)
    counts = [min(CHUNK, repetitions - first) for first in range(0, repetitions, CHUNK)]
    drawn = [statistic(*(_resampled(generator, sample, count) for sample in samples)) for count in counts]
    return np.quantile(np.concatenate(drawn), [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)


def _resampled(
    generator: np.random.Generator, scores: Shaped[np.ndarray, "run task"], count: int
) -> Shaped[np.ndarray, "count run task"]:
    """Scores of equally many runs, drawn with replacement within each task."""
    runs, tasks = scores.shape
    rows = generator.integers(runs, size=(count, runs, tasks))
    return np.take_along_axis(np.broadcast_to(scores, (count, runs, tasks)), rows, axis=1)


def pooled_interval(
    groups: Sequence[Float[np.ndarray, "_run number"]],
    statistic: Statistic,
    *,
    confidence: float = 0.95,
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> Interval:
    """A statistic of the runs of several groups together, with its stratified bootstrap interval.

    Groups are strata: runs are resampled within a group. The numbers of a run stay together, as in a correlation.

    Args:
        groups: such as methods; a row for each run.
        statistic: of the rows of all groups.
        confidence: of the interval.
        repetitions: how often to resample.
        seed: of the draws.
    """

    def of_drawn_rows(*drawn: np.ndarray) -> np.ndarray:
        parts = [group[rows[..., 0]] for group, rows in zip(groups, drawn, strict=True)]
        return statistic(np.concatenate(parts, axis=-2))

    rows = [np.arange(len(group))[:, None] for group in groups]
    low, high = _percentiles(of_drawn_rows, rows, confidence, repetitions, seed)
    return Interval(float(statistic(np.concatenate(groups))), float(low), float(high))


def difference_interval(
    scores: Float[np.ndarray, "run task"],
    others: Float[np.ndarray, "other task"],
    statistic: Statistic = mean,
    *,
    confidence: float = 0.95,
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> Interval:
    """By how much a statistic of one is above that of the other, with its stratified bootstrap interval."""

    def difference(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        return statistic(mine) - statistic(theirs)

    low, high = _percentiles(difference, [scores, others], confidence, repetitions, seed)
    return Interval(float(difference(scores, others)), float(low), float(high))


def probability_of_improvement(scores: Float[np.ndarray, "run task"], others: Float[np.ndarray, "other task"]) -> float:
    """The probability that a run of one beats a run of the other, in a random task; a tie counts half."""
    return float(_improvement(scores, others))


def improvement_interval(
    scores: Float[np.ndarray, "run task"],
    others: Float[np.ndarray, "other task"],
    *,
    confidence: float = 0.95,
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> Interval:
    """`probability_of_improvement` with its stratified bootstrap interval."""
    low, high = _percentiles(_improvement, [scores, others], confidence, repetitions, seed)
    return Interval(probability_of_improvement(scores, others), float(low), float(high))


def _improvement(
    scores: Float[np.ndarray, "*more run task"], others: Float[np.ndarray, "*more other task"]
) -> Float[np.ndarray, "*more"]:
    mine, theirs = scores[..., :, None, :], others[..., None, :, :]
    return ((mine > theirs) + 0.5 * (mine == theirs)).mean(axis=(-3, -2, -1))


def can_separate(runs: int, others: int) -> bool:
    """Whether this many runs can show a difference at all.

    Chance alone puts every run of one method above every run of the other in one of `comb(runs + others, runs)` orders,
    and the bootstrap, which knows only these runs, would be certain of it.
    """
    return 1 / math.comb(runs + others, runs) <= LEVEL / 2


def detectable_difference(
    scores: Float[np.ndarray, "run task"],
    others: Float[np.ndarray, "other task"],
    *,
    runs: int | None = None,
    power: float = POWER,
    level: float = LEVEL,
) -> float:
    """The smallest true difference of the means that such runs show with this power, by Welch's test.

    The spread is the measured one of each side, within each task; NaN if a side has a single run.

    Args:
        scores: of one side.
        others: of the other.
        runs: how many of each side there would be. None: as many as there are.
        power: the probability that a difference of this size is shown.
        level: the probability that a difference is shown where there is none.
    """
    from scipy import optimize, stats  # takes a while to load

    sides = [(np.var(each, axis=0, ddof=1), runs or len(each)) for each in (scores, others) if len(each) > 1]
    if len(sides) < 2 or min(count for _, count in sides) < 2:
        return math.nan
    parts = np.concatenate([variance / count for variance, count in sides])  # of the squared error, by side and task
    freedom = np.concatenate([np.full(len(variance), count - 1) for variance, count in sides])
    if not parts.any():
        return 0.0
    degrees = parts.sum() ** 2 / (parts**2 / freedom).sum()
    critical = stats.t.isf(level / 2, degrees)

    def shortfall(effect: float) -> float:
        return power - float(stats.nct.sf(critical, degrees, effect))

    effect = optimize.brentq(shortfall, 0.0, 2 * critical + 10)
    return float(effect * np.sqrt(parts.sum()) / scores.shape[1])


def detectable_improvement(
    runs: int, others: int | None = None, *, tasks: int = 1, power: float = POWER, level: float = LEVEL
) -> float:
    """The smallest probability of improvement that this many runs show with this power, by Noether's formula.

    It needs no spread, as only the order of the runs counts. NaN if there are too few runs to show anything; 1 if they
    would show it only when all are better.
    """
    others = runs if others is None else others
    if not can_separate(runs, others):
        return math.nan
    error = math.sqrt((runs + others + 1) / (12 * runs * others * tasks))
    normal = NormalDist()
    return min(1.0, 0.5 + (normal.inv_cdf(1 - level / 2) + normal.inv_cdf(power)) * error)


def performance_profile(
    scores: Float[np.ndarray, "*more run task"], thresholds: Float[np.ndarray, "threshold"]
) -> Float[np.ndarray, "*more threshold"]:
    """The share of all scores that lie above each threshold."""
    flat = scores.reshape(*scores.shape[:-2], 1, -1)
    return (flat > thresholds[:, None]).mean(axis=-1)


def profile_band(
    scores: Float[np.ndarray, "run task"],
    thresholds: Float[np.ndarray, "threshold"],
    *,
    confidence: float = 0.95,
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> tuple[Float[np.ndarray, "threshold"], Float[np.ndarray, "threshold"]]:
    """Pointwise stratified bootstrap bounds of a performance profile."""
    low, high = _percentiles(
        lambda drawn: performance_profile(drawn, thresholds), [scores], confidence, repetitions, seed
    )
    return low, high


def normalised(returns: np.ndarray, world: str) -> np.ndarray:
    """Undiscounted returns on a scale from a random policy, 0, to the best known one, 1.

    Raises:
        ValueError: if no reference returns are known.
    """
    reference = reference_scores(world)
    if reference is None:
        raise ValueError(f"{world}: no reference returns are known, so its scores cannot be normalised")
    random, best = reference.random_and_best
    return (returns - random) / (best - random)
