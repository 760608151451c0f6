"""The first half second of the command: Ctrl-C ends it in silence also while Python imports this package."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading


def guard_imports() -> None:
    """If this process is the command `asymrl`, lets Ctrl-C end it at once until `asymrl.cli.main` takes over."""
    if is_command(sys.orig_argv) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))


def is_command(arguments: list[str]) -> bool:
    """Whether a process with these arguments, its interpreter first, is the command, by its script or `python -m`."""
    is_script = len(arguments) > 1 and os.path.basename(arguments[1]) == "asymrl"
    return is_script or ("-m", "asymrl") in itertools.pairwise(arguments)


guard_imports()
