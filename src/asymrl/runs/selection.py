"""One run out of a batch: the one with a seed, or the best."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import numpy as np

from asymrl.learning.counting import recent_means
from asymrl.learning.settings import Settings
from asymrl.learning.state import RunState
from asymrl.worlds.world import World

if TYPE_CHECKING:
    from asymrl.runs.loaded import LoadedRun


class Selected(NamedTuple):
    """One run, its world, and the mean return of its last training episodes."""

    run: RunState
    settings: Settings
    seed: int
    env: World
    final_return: float


def select(loaded: LoadedRun, seed: int | None = None) -> Selected:
    """The run with this seed, or the one with the best final return: the mean of its last 100 training episodes.

    Raises:
        ValueError: if no run has the seed.
    """
    returns = np.asarray(recent_means(loaded.runs)[0])
    chosen = [i for i, each in enumerate(loaded.seeds) if seed is None or each == seed]
    if not chosen:
        known = ", ".join(map(str, sorted(set(loaded.seeds))))
        raise ValueError(f"there is no run with the seed {seed}; the seeds are {known}")
    # A run without an episode yet has no return that could be compared.
    played = np.where(np.asarray(loaded.runs.episodes) > 0, returns, -np.inf)
    best = max(chosen, key=lambda i: (played[i], -i))
    arrays, static = eqx.partition(loaded.runs, eqx.is_array)
    run = eqx.combine(jax.tree.map(lambda leaf: leaf[best], arrays), static)
    return Selected(run, loaded.settings[best], loaded.seeds[best], loaded.env, float(returns[best]))
