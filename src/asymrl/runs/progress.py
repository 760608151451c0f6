"""Where a training stands, as the host sees it between two calls of the compiled program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from asymrl.learning.state import METRICS, RECENT, RunState
from asymrl.runs.batch import Batch


class Snapshot(NamedTuple):
    """The small part of a batch of runs that the host looks at, `[run, ...]`."""

    updates: Int[np.ndarray, "run"]
    timesteps: Int[np.ndarray, "run"]
    episodes: Int[np.ndarray, "run"]
    logged: Int[np.ndarray, "run"]
    solved: Bool[np.ndarray, "run"]
    failed: Bool[np.ndarray, "run"]
    recent_returns: Float[np.ndarray, "run recent"]
    recent_lengths: Float[np.ndarray, "run recent"]
    curve: Float[np.ndarray, "run points metrics"]

    @classmethod
    def of(cls, runs: RunState, count: int) -> Snapshot:
        """Waits for the runs, and copies from the first `count` of them."""
        there = jax.device_get([getattr(runs, name) for name in cls._fields])
        return cls(*(array[:count] for array in there))

    def means(self) -> tuple[Float[np.ndarray, "run"], Float[np.ndarray, "run"]]:
        """Mean return and mean length of the last 100 episodes of each run; NaN before the first."""
        count = np.minimum(self.episodes, RECENT)
        there = np.arange(RECENT)[None] < count[:, None]
        divisor = np.where(count > 0, count, np.nan)
        returns, lengths = (
            np.where(there, recent, 0.0).sum(axis=1) / divisor for recent in (self.recent_returns, self.recent_lengths)
        )
        return returns, lengths

    def latest(self, metric: str) -> Float[np.ndarray, "run"]:
        """The value of a metric at the last point of each run's curve; NaN before the first."""
        last = np.clip(self.logged, 1, self.curve.shape[1]) - 1
        return self.curve[np.arange(len(last)), last, METRICS.index(metric)]


@dataclass
class Clock:
    """Speed over the last looks at the runs, so that it follows what happens now."""

    looks: list[tuple[float, int]] = field(default_factory=list)
    WINDOW = 20

    def look(self, now: float, steps: int) -> None:
        # Steps that were lost, with a batch that failed, are no speed.
        earlier = [] if self.looks and steps < self.looks[-1][1] else self.looks[-self.WINDOW :]
        self.looks = [*earlier, (now, steps)]

    def steps_per_second(self) -> float | None:
        if len(self.looks) < 2:
            return None
        (then, before), (now, after) = self.looks[0], self.looks[-1]
        return (after - before) / (now - then) if now > then else None


class Progress(NamedTuple):
    """What a display shows."""

    batch: Batch
    snapshot: Snapshot
    speed: float | None
    """Environment steps per second of all runs together, or None before that can be told."""

    @property
    def steps(self) -> int:
        """Of all runs; those that are solved or failed count as done, as nothing more will come of them."""
        wanted = np.asarray([settings.steps for settings in self.batch.settings])
        over = self.snapshot.solved | self.snapshot.failed
        done = np.where(over, wanted, np.minimum(self.snapshot.timesteps, wanted))
        return int(done.sum())

    @property
    def trained(self) -> int:
        """Steps that were really taken, by all runs."""
        return int(self.snapshot.timesteps.astype(np.int64).sum())

    @property
    def share(self) -> float:
        return self.steps / self.batch.total_steps

    @property
    def seconds_left(self) -> float | None:
        return None if not self.speed else (self.batch.total_steps - self.steps) / self.speed


def mean_and_error(values: Float[np.ndarray, "run"]) -> tuple[float, float]:
    """Mean, and its standard error over runs; the latter is NaN for a single one."""
    values = values[np.isfinite(values)].astype(np.float64)
    mean = float(values.mean()) if len(values) else float("nan")
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return mean, error
