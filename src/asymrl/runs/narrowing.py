"""Narrower programs: once runs are over and none waits, the others go on in fewer lanes."""

from __future__ import annotations

import threading
from typing import Any

from asymrl.learners.program import Program, Trainer
from asymrl.runs.interrupts import POOL_THREAD


class Narrower:
    """A program for fewer lanes, compiled in a thread while the wider one trains."""

    def __init__(self, program: Program, lanes: int, device: Any):
        self.lanes, self._trainer = lanes, None
        self._is_abandoned = False
        name = f"{POOL_THREAD}narrower"
        self._thread = threading.Thread(target=self._make, args=(program, device), daemon=True, name=name)
        self._thread.start()

    def _make(self, program: Program, device: Any) -> None:
        try:
            self._trainer = program.open(self.lanes, device)
        except Exception:  # then the wider one goes on
            self._trainer = None
        if self._is_abandoned:
            self.abandon()

    @property
    def is_ready(self) -> bool:
        return not self._thread.is_alive()

    def trainer(self) -> Trainer | None:
        return self._trainer

    def abandon(self) -> None:
        """Closes the program, once it is compiled: it is not needed any more."""
        self._is_abandoned = True
        if (trainer := self._trainer) is not None:
            trainer.close()


def narrower_width(width: int, active: int) -> int:
    """The narrowest width with room for the runs: `width`, three quarters of it, three quarters of that and so on."""
    while (less := 3 * width // 4) >= active:
        width = less
    return width
