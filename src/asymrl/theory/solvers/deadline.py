"""A time limit for computations, and reports of their progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Deadline:
    """A time limit that several computations share. Each checks `is_over` now and then, and may `tell` its progress.

    Args:
        seconds: the time limit, from now on.
        clock: the time in seconds.
        listener: called with what is being computed, at most once in `every` seconds.
    """

    seconds: float = math.inf
    clock: Callable[[], float] = time.monotonic
    listener: Callable[[str], None] | None = None
    every: float = 5.0
    end: float = field(init=False)
    _told_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._told_at = self.clock()
        self.end = self._told_at + self.seconds

    @property
    def left(self) -> float:
        """The seconds that are left; never below zero."""
        return max(self.end - self.clock(), 0.0)

    @property
    def is_over(self) -> bool:
        return self.clock() >= self.end

    def part(self, share: float) -> Deadline:
        """A deadline after this share of the time that is left."""
        part = Deadline(self.left * share, self.clock, self.listener, self.every)
        part._told_at = self._told_at
        return part

    def tell(self, what: str | Callable[[], str]) -> None:
        """Tells the listener what is being computed."""
        if self.listener is not None and (now := self.clock()) - self._told_at >= self.every:
            self._told_at = now
            self.listener(what if isinstance(what, str) else what())
