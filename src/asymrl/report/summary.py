"""How well a batch of runs has learned, in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from asymrl.runs.batch import Batch
from asymrl.runs.display import grouped, plus_minus
from asymrl.runs.progress import Snapshot, mean_and_error
from asymrl.worlds.world import DEFAULT_TIME_LIMIT

MOST_SEEDS_SHOWN = 10


def summary(batch: Batch, snapshot: Snapshot) -> str:
    """The return at the end of training, beside what a random and the best known policy get.

    Runs that failed are named and left out of the mean.
    """
    returns, lengths = snapshot.means()
    sound = ~snapshot.failed
    lines = []
    if sound.any():
        over = f" (mean ± standard error of {sound.sum()} runs)" if sound.sum() > 1 else ""
        lines.append(f"return          {plus_minus(returns[sound])}  over the last 100 episodes{over}")
        lines += _apart(batch, returns, sound)
        lines.append(f"episode length  {mean_and_error(lengths[sound])[0]:.1f}")
        if comparable(batch):
            lines += _references(batch.first.world, mean_and_error(returns[sound])[0])
    steps, updates = (grouped(int(count.sum())) for count in (snapshot.timesteps, snapshot.updates))
    lines.append(f"trained         {steps} steps, {updates} updates")
    if failed := np.flatnonzero(snapshot.failed).tolist():
        lines.append(f"failed          {'; '.join(batch.label(run) for run in failed)}: not finite, left out above")
    return "\n".join(lines)


def _apart(batch: Batch, returns: np.ndarray, sound: np.ndarray) -> list[str]:
    """The return of each run if they are few, or of each of the settings if the runs differ in them."""
    if own := batch.differing():
        lines = []
        for settings in dict.fromkeys(batch.settings):
            chosen = np.asarray([each == settings for each in batch.settings]) & sound
            described = ", ".join(f"{name}={getattr(settings, name)}" for name in own)
            lines += [f"                {plus_minus(returns[chosen])}  with {described}"] if chosen.any() else []
        return lines
    if 1 < len(batch) <= MOST_SEEDS_SHOWN:
        return [f"each run        {'  '.join(f'{value:.2f}' for value in returns[sound])}"]
    return []


def comparable(batch: Batch) -> bool:
    """Whether the reference returns are for the task that was trained: they hold for 100 steps."""
    return batch.first.time_limit == DEFAULT_TIME_LIMIT


def _references(world: str, reached: float) -> list[str]:
    """What a random and the best known policy get, and how far between them the runs are."""
    from asymrl.solvers.references import known_returns  # its solvers take a while to load

    known = known_returns(world)
    if known is None:
        return ["best known      no reference returns for this world"]
    random, best = known.undiscounted["random"], known.undiscounted["best"]
    how = " (proven bounds)" if best.low < best.high else ""
    lines = [f"random policy   {random}", f"best known      {best}{how}"]
    low = (random.low + random.high) / 2
    if best.low > low:
        share = (reached - low) / (best.low - low)
        against = "the lower bound of the best" if best.low < best.high else "the best known"
        lines.append(f"reached         {share:.0%} of the way from random to {against}")
    return lines


def next_commands(folder: Path, batch: Batch) -> str:
    """What one may want to do with the runs now."""
    period = batch.first.log_period
    longer = 2 * batch.first.steps // period * period
    return "\n".join(
        [
            f"asymrl evaluate {folder}",
            f"asymrl render {folder} -o episode.gif",
            f"asymrl resume {folder} --steps {longer}",
        ]
    )
