"""The command `asymrl`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from asymrl.runs.interrupts import INTERRUPTED, PromptEnd, end_process, is_busy


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` and returns its exit status; see `asymrl.cli.command`.

    Without `argv` it is that of the process, which then ends on Ctrl-C within a second, also during imports and
    compilations.
    """
    if argv is not None:
        from asymrl.cli.command import main as run

        return run(argv)
    with PromptEnd() as end:
        try:
            from asymrl.cli.command import main as run

            status = run(sys.argv[1:])
        except BaseException:
            # What a library made of KeyboardInterrupt is of no interest.
            if not end.received:
                raise
            status = INTERRUPTED
    if end.received:
        status = INTERRUPTED
    if end.received or is_busy():
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        end_process(status)
    return status
