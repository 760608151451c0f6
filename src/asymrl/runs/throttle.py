"""Limits how often work is done beside a training, such as writing its tables."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Throttle:
    """Allows work every few seconds, and less often if it would take more than a share of the time.

    The shorter of the last two durations counts. One alone may mislead: a laptop that was closed while it wrote a table
    would write no other for hours.
    """

    def __init__(self, seconds: float, share: float):
        """`seconds`: the least between two pieces of work; `share`: the most of the time that work may take."""
        self.seconds, self.share = seconds, share
        self._ended_at = -float("inf")
        self._last, self._took = 0.0, 0.0  # seconds of the last work, and the shorter of the last two

    def is_due(self) -> bool:
        """Whether it is time again."""
        return time.monotonic() - self._ended_at >= max(self.seconds, self._took / self.share)

    def wait(self) -> None:
        """Begins to count the seconds now."""
        self._ended_at = time.monotonic()

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """Measures how long the work inside takes, and begins to count the seconds again."""
        begin = time.monotonic()
        try:
            yield
        finally:
            took = time.monotonic() - begin
            self._took, self._last = min(took, self._last), took
            self.wait()
