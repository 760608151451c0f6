"""Handles Ctrl-C and SIGTERM, at once or in an orderly way.

A thread reads the signals, because Python's own handlers wait until a running compilation or computation is over, and
because a library's callback or a finaliser can swallow what they raise.
"""

from __future__ import annotations

import abc
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, Self

GRACE_SECONDS = 1.0  # time a command has to clean up after Ctrl-C
IMPORTERS = {"importlib._bootstrap", "importlib._bootstrap_external"}
INTERRUPTED = 128 + signal.SIGINT
TOGETHER_SECONDS = 0.5  # two deliberate presses of Ctrl-C are further apart than this
POOL_THREAD = "pool "  # name prefix of threads that may be busy for minutes, and that nobody waits for


class SignalReader(abc.ABC):
    """While entered, a thread passes signals to `receive`. Readers can be nested; the innermost gets the signals.

    Outside the main thread it does nothing: Python allows handlers only in the main thread.
    """

    def __init__(self, signals: Sequence[signal.Signals], handler: Callable[..., Any]):
        """`handler`: Python's own handler of these signals, called once Python gets round to it."""
        self._signals, self._handler = signals, handler
        self._is_entered = False

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writing)
        self._handlers_before: dict[signal.Signals, Any] = {s: signal.signal(s, self._handler) for s in self._signals}
        self._thread = threading.Thread(target=self._listen, daemon=True, name="signals")
        self._thread.start()
        self._is_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_entered:
            return
        for which, handler in self._handlers_before.items():
            signal.signal(which, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._writing)
        self._thread.join()
        os.close(self._reading)
        self._is_entered = False

    def _listen(self) -> None:
        while data := self.read(None):
            for number in data:
                if number in self._signals:
                    self.receive(signal.Signals(number))

    def read(self, seconds: float | None) -> bytes | None:
        """Signal numbers; empty once the reader has exited, None if no signal comes within `seconds`."""
        if seconds is not None and not select.select([self._reading], [], [], seconds)[0]:
            return None
        return os.read(self._reading, 64)

    @abc.abstractmethod
    def receive(self, which: signal.Signals) -> None:
        """Handles a signal, in the thread that reads them."""


class PromptEnd(SignalReader):
    """While entered, Ctrl-C raises KeyboardInterrupt, and ends the process a second later in any case.

    During an import it ends the process at once: native modules crash if something raises while they initialise.
    """

    def __init__(self) -> None:
        super().__init__([signal.SIGINT], self._raise)
        self.received = False

    def __enter__(self) -> Self:
        self._hook_before, sys.unraisablehook = sys.unraisablehook, self._ignored
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        sys.unraisablehook = self._hook_before

    def _raise(self, which: int, frame: FrameType | None) -> None:
        self.received = True
        if is_importing(frame):
            end_process(128 + which)
        raise KeyboardInterrupt

    def receive(self, which: signal.Signals) -> None:
        self.received = True
        if self.read(GRACE_SECONDS) != b"":
            end_process(128 + which)

    def _ignored(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Does not report a KeyboardInterrupt that a callback swallowed: the process ends all the same."""
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            self._hook_before(unraisable)


class StopRequests(SignalReader):
    """While entered, the first SIGINT or SIGTERM is noted in `received`; the second ends the process at once.

    Signals that arrive together are one request: `timeout` and cluster schedulers send theirs to a process, and again
    to its group.
    """

    def __init__(self, on_first: Callable[[signal.Signals], None]):
        super().__init__([signal.SIGINT, signal.SIGTERM], lambda *_: None)
        self.received: signal.Signals | None = None
        self._on_first, self._received_at = on_first, -float("inf")

    def receive(self, which: signal.Signals) -> None:
        if self.received is None:
            self.received, self._received_at = which, time.monotonic()
            self._on_first(which)
        elif time.monotonic() - self._received_at > TOGETHER_SECONDS:
            end_process(128 + which)


def is_importing(frame: FrameType | None) -> bool:
    """Whether the code in `frame`, or one of its callers, is importing a module."""
    while frame is not None and frame.f_globals.get("__name__") not in IMPORTERS:
        frame = frame.f_back
    return frame is not None


def is_busy() -> bool:
    """Whether a thread that nobody waits for still compiles; Python would wait for it, or crash at exit."""
    return any(thread.name.startswith(POOL_THREAD) for thread in threading.enumerate())


def end_process(status: int) -> None:
    """Ends the process now, whatever its threads are doing."""
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), b"\x1b[?25h\n")  # a live display has hidden the cursor
    os._exit(status)
