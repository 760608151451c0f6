"""Ctrl-C and requests to end, answered in an orderly way."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from asymrl.adapters.child_processes import SIGNALS


class StopRequests:
    """While entered, the first SIGINT or SIGTERM is noted in `received`; the second ends the process at once.

    A thread reads the signals, because Python's own handlers wait until a running compilation or computation is over.
    Outside the main thread nothing is changed, as Python allows handlers only there.
    """

    def __init__(self, on_first: Callable[[signal.Signals], None]):
        self.received: signal.Signals | None = None
        self._on_first = on_first
        self._entered = False

    def __enter__(self) -> StopRequests:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writing)
        self._handlers_before: dict[signal.Signals, Any] = {s: signal.signal(s, lambda *_: None) for s in SIGNALS}
        self._thread = threading.Thread(target=self._listen, daemon=True, name="signals")
        self._thread.start()
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._entered:
            return
        for which, handler in self._handlers_before.items():
            signal.signal(which, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._writing)
        self._thread.join()
        os.close(self._reading)
        self._entered = False

    def _listen(self) -> None:
        while data := os.read(self._reading, 64):
            for number in data:
                if number in SIGNALS:
                    self._receive(signal.Signals(number))

    def _receive(self, which: signal.Signals) -> None:
        if self.received is not None:
            if sys.stdout.isatty():
                os.write(sys.stdout.fileno(), b"\x1b[?25h\n")  # a live display has hidden the cursor
            os._exit(128 + which)
        self.received = which
        self._on_first(which)
