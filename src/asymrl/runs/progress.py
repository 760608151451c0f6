"""The progress of a training: of all runs of a store together, and of each run in a lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from asymrl.runs.runs import Run
from asymrl.runs.tables import FAILED, RunResult
from asymrl.settings import Settings

BROKEN = "error"  # the status of a run that could not be trained; it is tried again the next time


@dataclass
class SpeedMeter:
    """The current speed, measured over the last seconds."""

    call_seconds: float = 1.0
    """Seconds between two reports of a run's steps."""
    samples: list[tuple[float, int]] = field(default_factory=list)

    def add(self, now: float, steps: int) -> None:
        if self.samples and steps < self.samples[-1][1]:
            self.samples = []  # steps were lost with a pool that failed: measure anew
        since = now - max(20.0, 3 * self.call_seconds)
        self.samples = [*(sample for sample in self.samples if sample[0] >= since), (now, steps)]

    def steps_per_second(self) -> float | None:
        """None as long as some runs may not have been reported twice."""
        if not self.samples:
            return None
        (then, steps_then), (now, steps_now) = self.samples[0], self.samples[-1]
        return (steps_now - steps_then) / (now - then) if now - then >= self.call_seconds else None


class Compilation(NamedTuple):
    """A program that is being compiled, for the runs of one shape."""

    shape: Settings
    number: int
    """Which of the programs of this training it is, from 1."""
    of: int
    """How many programs the training needs."""
    seconds: float
    """Since the compilation began."""


class Compilations:
    """Which programs are being compiled, and by which pools."""

    def __init__(self) -> None:
        self.expected = 0  # programs in all
        self._numbers: dict[Settings, int] = {}
        self._begun: dict[str, tuple[Settings, float]] = {}  # what each pool compiles, and since when

    def begin(self, pool: str, shape: Settings, now: float) -> None:
        """A pool compiles a program for this shape."""
        self._numbers.setdefault(shape, len(self._numbers) + 1)
        self._begun[pool] = shape, now

    def end(self, pool: str) -> None:
        """The pool trains, or failed. Its program counts as compiled for all: pools that get no run never report it."""
        shape, _ = self._begun.get(pool, (None, 0.0))
        self._begun = {name: begun for name, begun in self._begun.items() if begun[0] != shape}

    def at(self, now: float) -> tuple[Compilation, ...]:
        """What is being compiled, each program once: cores share them."""
        since: dict[Settings, float] = {}
        for shape, begun in self._begun.values():
            since[shape] = min(begun, since.get(shape, begun))
        shapes = sorted(since, key=self._numbers.__getitem__)
        return tuple(Compilation(each, self._numbers[each], self.expected, now - since[each]) for each in shapes)


class Progress(NamedTuple):
    """What a display shows."""

    runs: Sequence[Run]
    results: Mapping[int, RunResult]
    """Of the runs that have begun, by number."""
    training: frozenset[int]
    """The numbers of the runs that are in a lane."""
    broken: Mapping[int, str]
    """Why runs could not be trained, by number."""
    speed: float | None
    """Environment steps per second of all runs together, or None before that is known."""
    compilations: tuple[Compilation, ...] = ()
    """The programs that are being compiled now."""

    @property
    def steps(self) -> int:
        """Of all runs; those that are over or broken count in full, as they will not go on."""
        return sum(steps_done(run, self.results.get(n), n in self.broken) for n, run in enumerate(self.runs))

    @property
    def total_steps(self) -> int:
        return sum(run.settings.steps for run in self.runs)

    @property
    def trained(self) -> int:
        """Steps that all runs have actually taken."""
        return sum(result.timesteps for result in self.results.values())

    @property
    def share(self) -> float:
        return self.steps / self.total_steps

    @property
    def over(self) -> int:
        """How many runs are over."""
        return sum(result.is_over for result in self.results.values())

    @property
    def failed(self) -> int:
        return sum(result.status == FAILED for result in self.results.values()) + len(self.broken)

    @property
    def seconds_left(self) -> float | None:
        return None if not self.speed else (self.total_steps - self.steps) / self.speed

    def returns(self) -> Float[np.ndarray, "run"]:
        """The mean recent return of each run that has begun."""
        return np.asarray([result.recent_return for result in self.results.values()])

    def lengths(self) -> Float[np.ndarray, "run"]:
        return np.asarray([result.recent_length for result in self.results.values()])


def steps_done(run: Run, result: RunResult | None, is_broken: bool) -> int:
    if is_broken or (result is not None and result.is_over):
        return run.settings.steps
    return 0 if result is None else min(result.timesteps, run.settings.steps)
