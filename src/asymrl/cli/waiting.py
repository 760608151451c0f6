"""What a command is busy with, while it prints nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def busy(with_what: str) -> Iterator[None]:
    """Shows what is being done: as a line that moves and then goes away on a terminal, as a plain line elsewhere."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.print(f"{with_what} ...", soft_wrap=True, markup=False)
        yield
        return
    with console.status(with_what):
        yield
