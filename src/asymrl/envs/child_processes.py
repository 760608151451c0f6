"""Child processes: what is sent to them, and how they leave Ctrl-C to their parent and end with it."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)  # what a terminal or a queue sends to all processes of a job


def start_child(process: Any) -> None:
    """Starts a process of `multiprocessing`, whose target must call `become_child` first."""
    # Until then Ctrl-C would end it with a traceback. Signals that are blocked here are blocked in new processes too.
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


def packed(value: Any) -> bytes:
    """A Python object, such as a function, for one of our processes. Files never hold such bytes: see `unpacked`.

    Raises:
        Exception: of any kind, if it cannot be sent.
    """
    import cloudpickle

    return cloudpickle.dumps(value)


def unpacked(data: bytes) -> Any:
    """What another of our processes packed. This runs code, so the bytes come through a pipe, never from a file."""
    import cloudpickle

    return cloudpickle.loads(data)


def become_child() -> None:
    """The first call of a new process: it leaves signals to its parent, and ends when the parent does, however busy."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True, name="parent").start()


def is_ctrl_c(error: BaseException) -> bool:
    """Whether an error comes from Ctrl-C; in other threads and in children, code raised KeyboardInterrupt."""
    is_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and is_main and signal.getsignal(signal.SIGINT) != signal.SIG_IGN


def _end_with(sentinel: Any) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def how_it_ended(process: Any) -> str:
    """How a process that is gone ended, for messages: `exit code 3`, `killed by SIGKILL`."""
    process.join(1.0)
    code = process.exitcode
    if code is None:
        return "gone"
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
